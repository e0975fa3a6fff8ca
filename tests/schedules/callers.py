"""Brokers and callers for scenarios of the rendezvous, and their final check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker import BrokerManager, MessageQueue, QueueBroker
from tests.schedules.outcome import outcome

if TYPE_CHECKING:
    from queuebroker.testing import Run, Spawned

__all__ = ["accepting", "brokers", "connecting", "met", "talk"]


def brokers(names: str = "ab") -> list[QueueBroker]:
    manager = BrokerManager()
    return [QueueBroker(name, manager=manager, capacity=1) for name in names]


def talk(left: MessageQueue, right: MessageQueue) -> None:
    """Check that these are the two ends of one connection, and disconnect both."""
    left.send(b"from left")
    right.send(b"from right")
    assert right.receive() == b"from left"
    assert left.receive() == b"from right"
    left.disconnect()
    right.disconnect()


def accepting(
    run: Run,
    broker: QueueBroker,
    *,
    timeout: float | None = None,
    exclusive: bool = False,
) -> Spawned[MessageQueue]:
    """Accept on port 1 in a thread."""
    return run.spawn(
        lambda: broker.accept(1, timeout=timeout, exclusive=exclusive), name="accept"
    )


def connecting(
    run: Run, broker: QueueBroker, *, timeout: float | None = None
) -> Spawned[MessageQueue]:
    """Connect to port 1 of broker "a" in a thread."""
    return run.spawn(
        lambda: broker.connect("a", 1, timeout=timeout, required=True), name="connect"
    )


def met(call: Spawned[MessageQueue]) -> MessageQueue:
    end = outcome(call)
    assert isinstance(end, MessageQueue)
    return end
