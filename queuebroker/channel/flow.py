"""`Flow`: one direction of a connection; the connection's lock guards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from queuebroker.waiting.parking import WaitList

__all__ = ["Buffer", "Flow"]


class Buffer(Protocol):
    """The part of a buffer, of messages or of bytes, that a connection uses."""

    capacity: int
    discarded: int
    ended: bool
    room: WaitList
    arrived: WaitList

    def __len__(self) -> int: ...
    def full(self) -> bool: ...
    def empty(self) -> bool: ...
    def drained(self) -> bool: ...
    def pulled(self) -> int: ...
    def discard_locked(self) -> None: ...
    def wake_locked(self) -> None: ...
    def wake_all_locked(self) -> None: ...
    def recover_locked(self) -> None: ...


B = TypeVar("B", bound=Buffer)


class Flow(Generic[B]):
    """One direction of a connection: its buffer and its counters (QB-BOOK-1).

    Units are messages, or bytes on a Channel. The buffer counts the units that leave
    it. The number accepted is derived from that, so that the accounts balance by
    construction.
    """

    __slots__ = ("buffer", "half_disconnected", "last_receive_noted", "last_send_noted")

    def __init__(self, buffer: B) -> None:
        self.buffer: B = buffer
        # Sent after the receiver had disconnected, and never accepted.
        self.half_disconnected: int = 0
        # The sequence numbers of the last SEND and the last RECEIVE that the observer
        # was given.
        self.last_send_noted: int = 0
        self.last_receive_noted: int = 0

    @property
    def received(self) -> int:
        """Number of units received."""
        return self.buffer.pulled()

    @property
    def discarded(self) -> int:
        """Number of units that were unread when the receiver disconnected."""
        return self.buffer.discarded

    @property
    def accepted(self) -> int:
        """Number of units stored for the receiver."""
        return self.received + self.discarded + len(self.buffer)
