"""Both ends of a new connection, by way of brokers that meet.

For tests in which it matters who met whom: the acceptor's broker is called "server",
the connector's "client". Where only the ends matter, `tests.pairs` is shorter. Leaving
a block disconnects both ends and closes the manager.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from queuebroker import Broker, BrokerManager, QueueBroker
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuebroker import Channel, MessageQueue, Observer

__all__ = ["channels", "meet", "meet_bytes", "queues"]


def meet(
    server: QueueBroker, client: QueueBroker, port: int = 1
) -> tuple[MessageQueue, MessageQueue]:
    """Connect two brokers; return the acceptor's end and the connector's."""
    with Threads() as threads:
        accepted = threads.start(server.accept, port)
        connected = client.connect(server.name, port, required=True)
    return accepted.result(), connected


def meet_bytes(
    server: Broker, client: Broker, port: int = 1
) -> tuple[Channel, Channel]:
    """Connect two brokers for bytes; return the acceptor's end and the connector's."""
    with Threads() as threads:
        accepted = threads.start(server.accept, port)
        connected = client.connect(server.name, port, required=True)
    return accepted.result(), connected


@contextmanager
def queues(
    *,
    capacity: int = 64,
    max_message_size: int | None = None,
    strict_half: bool = False,
    observer: Observer | None = None,
) -> Iterator[tuple[MessageQueue, MessageQueue]]:
    """Give the two ends of a queue; the settings are those of the server."""
    with BrokerManager(observer=observer) as manager:
        server = QueueBroker(
            "server",
            manager=manager,
            capacity=capacity,
            max_message_size=max_message_size,
            strict_half=strict_half,
        )
        ends = meet(server, QueueBroker("client", manager=manager))
        with ends[0], ends[1]:
            yield ends


@contextmanager
def channels(
    *, capacity: int = 4096, observer: Observer | None = None
) -> Iterator[tuple[Channel, Channel]]:
    """Give the two ends of a channel; the capacity is that of the server."""
    with BrokerManager(observer=observer) as manager:
        server = Broker("server", manager=manager, capacity=capacity)
        ends = meet_bytes(server, Broker("client", manager=manager))
        with ends[0], ends[1]:
            yield ends
