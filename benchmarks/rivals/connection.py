"""``multiprocessing.connection``: a Listener and its Clients.

UNIX sockets are its fastest family on one machine; a longer backlog than the default
changes nothing. A client may continue before the accept, which a symmetric rendez-vous
cannot do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Client, Listener
from typing import TYPE_CHECKING, Any

from benchmarks.job import Job, Sender
from benchmarks.tally import Tally

if TYPE_CHECKING:
    from benchmarks.rendezvous import Doors


@contextmanager
def doors(pairs: int) -> Iterator[list[Doors]]:
    """Open ``pairs`` listeners, each with its own address."""
    with ExitStack() as stack:
        listeners = [
            stack.enter_context(Listener(family="AF_UNIX")) for _ in range(pairs)
        ]
        yield [
            (one.accept, partial(Client, one.address, "AF_UNIX")) for one in listeners
        ]


def near(job: Job) -> Sender:
    """Connect."""
    connection = Client(_address(job))

    def ask(message: bytes) -> bytes:
        connection.send_bytes(message)
        return connection.recv_bytes()

    return Sender(connection.send_bytes, connection.close, ask)


def far(job: Job, tally: Tally) -> None:
    """Accept one connection, and receive in a loop."""
    with Listener(_address(job)) as listener:
        tally.ready()
        with listener.accept() as connection:
            answer = connection.send_bytes if job.act == "echo" else None
            tally.loop(connection.recv_bytes, answer, plain=True)
            tally.finish()


def _address(job: Job) -> Any:
    if job.medium == "unix":
        return job.address().removeprefix("ipc://")
    return job.host(), job.ports[0]
