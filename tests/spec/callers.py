"""Two brokers, and calls of both roles that meet at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker import BrokerManager, MessageQueue, QueueBroker

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["calls", "two_brokers"]


def two_brokers() -> tuple[QueueBroker, QueueBroker]:
    """Return the brokers "b" and "a" of a new manager."""
    manager = BrokerManager()
    return QueueBroker("b", manager=manager), QueueBroker("a", manager=manager)


def calls(
    b: QueueBroker, a: QueueBroker, *, accepts: bool
) -> tuple[Callable[..., MessageQueue], Callable[..., MessageQueue]]:
    """Return a call in one role, and the opposite one; both take a timeout."""

    def accept(timeout: float | None = None) -> MessageQueue:
        return b.accept(1, timeout=timeout)

    def connect(timeout: float | None = None) -> MessageQueue:
        return a.connect("b", 1, timeout=timeout, required=True)

    return (accept, connect) if accepts else (connect, accept)
