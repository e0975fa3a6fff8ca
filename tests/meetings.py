"""Both ends of a new connection, made by brokers that meet; checks of their waiters.

For tests in which the names matter: the acceptor's broker is called "server", the
connector's "client". If only the ends matter, `tests.pairs` is shorter. Leaving a block
disconnects both ends and closes the manager.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from queuebroker import Broker, BrokerManager, QueueBroker
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from queuebroker import Channel, MessageQueue, Observer

__all__ = [
    "accepts_wait",
    "are_a_pair",
    "channels",
    "connects_wait",
    "meet",
    "meet_bytes",
    "nobody_waits",
    "queues",
]


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


def are_a_pair(one: MessageQueue | Channel, other: MessageQueue | Channel) -> None:
    """Check that two ends are the two sides of one connection (QB-RDV-5)."""
    assert type(one) is type(other)
    assert one._connection is other._connection
    assert {one._side, other._side} == {0, 1}
    assert (one.local_name, one.remote_name) == (other.remote_name, other.local_name)


def accepts_wait(broker: Broker | QueueBroker, counts: Mapping[int, int]) -> None:
    """Wait until that many accepts wait at a broker, by port."""
    until(lambda: broker.waiting_accepts() == counts, f"the accepts are not {counts}")


def connects_wait(broker: Broker | QueueBroker, counts: Mapping[int, int]) -> None:
    """Wait until that many connects wait for a broker, by port."""
    until(lambda: broker.waiting_connects() == counts, f"the connects are not {counts}")


def nobody_waits(*brokers: QueueBroker) -> None:
    """Check that all lists are as if no call ever had waited: no trace, no growth."""
    for broker in brokers:
        assert broker.waiting_accepts() == {}
        assert broker.waiting_connects() == {}
        assert broker.outgoing() == {}
        assert len(broker._broker.waiting) == 0
        assert broker._broker.waiting._waiting == {}
        assert broker._broker.departing == {}


@contextmanager
def queues(
    *,
    capacity: int = 64,
    max_message_size: int | None = None,
    strict_half: bool = False,
    observer: Observer | None = None,
) -> Iterator[tuple[MessageQueue, MessageQueue]]:
    """Yield the two ends of a queue; the settings are those of the server."""
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
    """Yield the two ends of a channel; the capacity is that of the server."""
    with BrokerManager(observer=observer) as manager:
        server = Broker("server", manager=manager, capacity=capacity)
        ends = meet_bytes(server, Broker("client", manager=manager))
        with ends[0], ends[1]:
            yield ends
