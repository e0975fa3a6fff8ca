"""Our own contestant: `queuebroker`, with default arguments."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.workloads import Doors, End, Link
from queuebroker import BrokerManager, MessageQueue, Observer, QueueBroker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["doors", "link", "meet", "queues"]


@contextmanager
def queues(
    capacity: int, observer: Observer | None = None
) -> Iterator[tuple[MessageQueue, MessageQueue]]:
    """Open one connection; return both its ends."""
    with BrokerManager(observer=observer) as manager:
        far = QueueBroker("far", manager=manager, capacity=capacity)
        near = QueueBroker("near", manager=manager)
        accepted, connected = meet(far, near, port=0)
        with accepted, connected:
            yield connected, accepted


@contextmanager
def link(capacity: int) -> Iterator[Link]:
    """Open one connection as a `Link`."""
    with queues(capacity) as (near, far):
        yield Link(End(near.send, near.receive), End(far.send, far.receive))


@contextmanager
def doors(pairs: int) -> Iterator[Sequence[Doors]]:
    """Open ``pairs`` ports of one broker, for connects from another broker."""
    with BrokerManager() as manager:
        host = QueueBroker("host", manager=manager)
        guest = QueueBroker("guest", manager=manager)
        connect = partial(guest.connect, host.name, required=True)
        yield [
            Doors(partial(host.accept, port), partial(connect, port))
            for port in range(pairs)
        ]


def meet(
    host: QueueBroker, guest: QueueBroker, port: int
) -> tuple[MessageQueue, MessageQueue]:
    """Connect ``guest`` to ``host``; return the accepted end and the other."""
    accepted: list[MessageQueue] = []
    acceptor = threading.Thread(target=lambda: accepted.append(host.accept(port)))
    acceptor.start()
    connected = guest.connect(host.name, port, required=True)
    acceptor.join()
    return accepted[0], connected
