"""This project's queues, with default arguments: between threads, and processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.job import CAPACITY, Job, Sender
from benchmarks.tally import Tally
from queuebroker import (
    BrokerManager,
    MessageQueue,
    Observer,
    QueueBroker,
)
from queuebroker.sockets import SocketQueueBroker

if TYPE_CHECKING:
    from benchmarks.rendezvous import Doors
    from benchmarks.threads import Link

_BATCHES = 4  # of the job, in one bulk call


@contextmanager
def queues(
    capacity: int, observer: Observer | None = None
) -> Iterator[tuple[MessageQueue, MessageQueue]]:
    """Open one connection; return both its ends."""
    with BrokerManager(observer=observer) as manager:
        far = QueueBroker("far", manager=manager, capacity=capacity)
        near = QueueBroker("near", manager=manager)
        accepted, connected = meet(far, near)
        with accepted, connected:
            yield connected, accepted


@contextmanager
def link(capacity: int) -> Iterator[Link]:
    """Open one connection between two threads."""
    with queues(capacity) as (near, far):
        yield (near.send, near.receive), (far.send, far.receive)


@contextmanager
def doors(pairs: int) -> Iterator[list[Doors]]:
    """Open ``pairs`` ports of one broker, for connects from another broker."""
    with BrokerManager() as manager:
        host = QueueBroker("host", manager=manager)
        guest = QueueBroker("guest", manager=manager)
        connect = partial(guest.connect, host.name, required=True)
        yield [
            (partial(host.accept, port), partial(connect, port))
            for port in range(pairs)
        ]


def meet(host: QueueBroker, guest: QueueBroker) -> tuple[MessageQueue, MessageQueue]:
    """Connect ``guest`` to ``host``; return the accepted end and the other."""
    accepted: list[MessageQueue] = []
    acceptor = threading.Thread(target=lambda: accepted.append(host.accept(0)))
    acceptor.start()
    connected = guest.connect(host.name, 0, required=True)
    acceptor.join()
    return accepted[0], connected


def near(job: Job) -> Sender:
    """Connect, with one system call for each single send."""
    broker = SocketQueueBroker("near", capacity=CAPACITY)
    queue = broker.connect(job.address(), 1, required=True)

    def ask(message: bytes) -> bytes:
        queue.send(message)
        return queue.receive()

    def stream(message: bytes, end: float) -> int:
        messages, sent = [message] * (_BATCHES * job.batch), 0
        while perf_counter() < end:
            queue.send_many(messages)
            sent += _BATCHES
        return sent

    return Sender(queue.send, broker.close, ask, stream if job.act == "bulk" else None)


def far(job: Job, tally: Tally) -> None:
    """Accept one connection, and receive."""
    with SocketQueueBroker("far", listen=job.address(), capacity=CAPACITY) as broker:
        tally.ready()
        queue = broker.accept(1)
        if job.act == "bulk":
            tally.loop_many(queue.receive_many)
        else:
            answer = queue.send if job.act == "echo" else None
            tally.loop(queue.receive, answer, plain=job.way == "pair")
        tally.finish()
