"""Faults injected into one channel, to show that they are found and named.

A faulty buffer replaces a queue's own from outside: the library has no hook for it. It
misbehaves once, with one message, and then works correctly. Faults affect content,
which is recorded. Content that does not match its digest is sent again, and an
unfinished file goes to another worker, so that the result is right nevertheless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker.channel.circular_buffer import CircularBufferQueue
from queuebroker.channel.queue_connection import Message
from queuebroker.observer import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import MessageQueue
    from queuebroker.channel.queue_connection import QueueConnection
    from queuebroker.channel.side import Side

__all__ = ["DEEDS", "FAULTS", "plant_fault"]


class _Faulty(CircularBufferQueue[Message]):
    """A buffer that takes over another's content, lock and waiters."""

    __slots__ = ("_connection", "_held", "_planted", "_side")

    def __init__(self, connection: QueueConnection, side: Side) -> None:
        replaced = connection.flows[side].buffer
        super().__init__(replaced.capacity, lock=connection.lock)
        self.room, self.arrived = replaced.room, replaced.arrived
        # A subclass of the same buffer class: it may take over private parts.
        self._messages = replaced._messages
        self._pulled, self.discarded = replaced.pulled(), replaced.discarded
        self._connection = connection
        self._side: Side = side
        self._planted = False
        self._held: Message | None = None


class _Lost(_Faulty):
    """Reports one message as stored without storing it."""

    __slots__ = ()

    def push_locked(self, message: Message) -> bool:
        if not self._planted and not self.full():
            self._planted = True
            return True
        return super().push_locked(message)


class _Duplicate(_Faulty):
    """Stores one message twice."""

    __slots__ = ()

    def push_locked(self, message: Message) -> bool:
        stored = super().push_locked(message)
        if stored and not self._planted:
            self._planted = super().push_locked(message)
        return stored


class _Reorder(_Faulty):
    """Holds one message back until the next has passed it."""

    __slots__ = ()

    def push_locked(self, message: Message) -> bool:
        if not self._planted and not self.full():
            self._planted, self._held = True, message
            return True
        stored = super().push_locked(message)
        if stored and self._held is not None and super().push_locked(self._held):
            self._held = None
        return stored


class _Half(_Faulty):
    """Disconnects its own end during a receive, and delivers nevertheless."""

    __slots__ = ()

    def pull_locked(self) -> Message | None:
        message = super().pull_locked()
        if not self._planted:
            self._planted = True
            self._connection.close_locked(self._side, None, Reason.NONE)
        return message


FAULTS: Final[dict[str, Callable[[QueueConnection, Side], _Faulty]]] = {
    "lost": _Lost,
    "duplicate": _Duplicate,
    "reorder": _Reorder,
    "half": _Half,
}

# The effect of each, for people.
DEEDS: Final[dict[str, str]] = {
    "lost": "one message is lost",
    "duplicate": "one message is received twice",
    "reorder": "one message is overtaken by the next",
    "half": "an end disconnects during a receive, and still receives a message",
}


def plant_fault(fault: str, end: MessageQueue) -> None:
    """Make the buffer that ``end`` receives from misbehave once."""
    connection, side = end._connection, end._side  # no hook, see above
    with connection.lock:
        connection.flows[side].buffer = FAULTS[fault](connection, side)
