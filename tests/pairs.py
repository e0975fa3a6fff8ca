"""Both ends of a new connection, without a rendezvous and without a thread.

Tests of a connection's operations do not need a rendezvous; under the explorer that
would only multiply the schedules. Leaving the block disconnects both ends, since an end
that is collected while connected causes a warning.

The gates of the lock-free buffers exist, as if each side had sent before. Otherwise the
first message would take the lock, and a scenario with two messages would hardly cover
the path without it. `STAGE` sets another stage.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from queuebroker import Broker, BrokerManager, Channel, MessageQueue
from queuebroker.lockfree.fast_queue import FastMessageQueue
from queuebroker.meeting.meet import pair
from queuebroker.meeting.rendezvous import Kind, RdV, RdVState, Terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuebroker.observer import Observer

__all__ = ["channel_pair", "look_away", "loose_queue_pair", "queue_pair"]

PORT = 7

# Stage of the lock-free buffers: their gates exist; both ends use them, as after a
# receive that found nothing; as a rendezvous leaves them.
STAGE: Literal["open", "taken", "fresh"] = "open"


def look_away(*_: object) -> None:
    """Do nothing, as an observer: it makes an end one of the locked kind."""


@contextmanager
def queue_pair(
    capacity: int = 1,
    *,
    limit: int | None = None,
    strict: tuple[bool, bool] = (False, False),
    observer: Observer | None = None,
) -> Iterator[tuple[MessageQueue, MessageQueue]]:
    """Yield the acceptor's end, of broker "a", and the connector's, of broker "b"."""
    left, right = loose_queue_pair(
        capacity, limit=limit, strict=strict, observer=observer
    )
    try:
        yield left, right
    finally:
        left.disconnect()
        right.disconnect()


def loose_queue_pair(
    capacity: int = 1,
    *,
    limit: int | None = None,
    strict: tuple[bool, bool] = (False, False),
    observer: Observer | None = None,
) -> tuple[MessageQueue, MessageQueue]:
    """Return two ends that no other code holds or disconnects."""
    left, right = _pair(Kind.QUEUE, capacity, limit, strict, observer)
    assert isinstance(left, MessageQueue)
    assert isinstance(right, MessageQueue)
    for end in (left, right):
        if isinstance(end, FastMessageQueue) and STAGE != "fresh":
            buffers, side = end._lock_free.buffers, end._side
            end._outward, end._inward = buffers[1 - side], buffers[side]
            if STAGE == "open":
                end._inward.open_locked()
    return left, right


@contextmanager
def channel_pair(
    capacity: int = 1,
    *,
    strict: tuple[bool, bool] = (False, False),
    observer: Observer | None = None,
) -> Iterator[tuple[Channel, Channel]]:
    """Yield the acceptor's end, of broker "a", and the connector's, of broker "b"."""
    left, right = _pair(Kind.CHANNEL, capacity, None, strict, observer)
    assert isinstance(left, Channel)
    assert isinstance(right, Channel)
    try:
        yield left, right
    finally:
        left.disconnect()
        right.disconnect()


def _pair(
    kind: Kind,
    capacity: int,
    limit: int | None,
    strict: tuple[bool, bool],
    observer: Observer | None,
) -> tuple[MessageQueue | Channel, MessageQueue | Channel]:
    manager = BrokerManager(observer=observer)
    acceptor, connector = (
        RdV(state, broker, broker.name, kind, PORT, Terms(capacity, limit, one_strict))
        for state, broker, one_strict in zip(
            (RdVState.WAITING_ACCEPT, RdVState.WAITING_CONNECT),
            (Broker("a", manager=manager), Broker("b", manager=manager)),
            strict,
            strict=True,
        )
    )
    _, left, right = pair(acceptor, connector, manager.watch)
    return left, right
