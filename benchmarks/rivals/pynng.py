"""pynng: Pair0; Push0 and Pull0; Pub0 and Sub0; Bus0, as the job asks for.

Buffers of the same capacity as ours. Those of Pub0 and Bus0 hold the window of the job,
since they drop the messages beyond them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pynng  # type: ignore[import-untyped] # it ships no types

from benchmarks.job import CAPACITY, Job, Sender
from benchmarks.tally import Tally

if TYPE_CHECKING:
    from benchmarks.threads import Link

_ROOM_MAX: Final = 8192  # the greatest that it accepts

_numbers = itertools.count()


@contextmanager
def link(capacity: int) -> Iterator[Link]:
    """Open two sockets; ``inproc`` addresses are global, so each has a number."""
    room = {"send_buffer_size": capacity, "recv_buffer_size": capacity}
    address = f"inproc://link-{next(_numbers)}"
    with (
        pynng.Pair0(listen=address, **room) as far,
        pynng.Pair0(dial=address, block_on_dial=True, **room) as near,
    ):
        yield (near.send, near.recv), (far.send, far.recv)


def near(job: Job) -> Sender:
    """Dial all receivers."""
    out, _ = _kinds(job)
    socket = out()
    socket.send_buffer_size = _room(job)
    if out is pynng.Pair0:
        socket.recv_buffer_size, socket.recv_max_size = _room(job), 0
    for number in range(job.receivers):
        socket.dial(job.address(number), block=True)

    def ask(message: bytes) -> Any:
        socket.send(message)
        return socket.recv()

    return Sender(socket.send, socket.close, ask)


def far(job: Job, tally: Tally) -> None:
    """Listen, and receive in a loop."""
    out, inward = _kinds(job)
    with inward() as socket:
        if inward is pynng.Sub0:
            socket.subscribe(b"")
        if out is pynng.Pair0:
            socket.send_buffer_size = _room(job)
        # The default limit is smaller than some messages.
        socket.recv_buffer_size, socket.recv_max_size = _room(job), 0
        socket.listen(job.address(tally.number))
        tally.ready()
        if job.way == "mesh":
            for other in range(tally.number):
                socket.dial(job.address(other), block=False)
        answer = socket.send if job.act == "echo" else None
        tally.loop(socket.recv, answer, plain=job.way == "pair")
        tally.finish()


def _kinds(job: Job) -> tuple[Any, Any]:
    """Return the kinds of socket of the sender and of a receiver."""
    if job.act == "echo" or job.way == "pair":
        return pynng.Pair0, pynng.Pair0
    return {
        "push": (pynng.Push0, pynng.Pull0),
        "publish": (pynng.Pub0, pynng.Sub0),
        "mesh": (pynng.Bus0, pynng.Bus0),
    }[job.way]


def _room(job: Job) -> int:
    return min(_ROOM_MAX, 2 * job.window) if job.is_lossy else CAPACITY
