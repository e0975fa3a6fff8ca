"""`Account`: how much of what one receiver may have unread is taken, and by what.

One for each task, of its commands, and one for each subscription. A message is on it
from when it is accepted until it is extracted or dropped. The bound is exact, in
messages and in bytes, for any number of senders; to send within a thread takes no lock.

Each number has one writer, so that none needs a lock to be right:

* ``_outside``, ``_dropped``: whoever holds the lock of the inbox of the thread that
  hosts the receiver;
* ``_inside``, ``extracted``, ``_reading``: that thread. Of commands that are read one
  after the other it notes nothing for each: the run itself knows how many were read.

A sender first adds, then looks whether that was too much, and takes it back if so. Of
two who add at once, one under the lock and one without, at least one sees both; the one
without tries again under the lock, and only then believes that it is full.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.core.routing_table import Overflow
from bus.errors import BusFullError

if TYPE_CHECKING:
    import _thread

    from bus.core.command_run import CommandRun
    from bus.core.wire import Lengths
    from bus.message import Incoming

__all__ = ["Account", "Admission", "Overflow"]


class Admission(enum.Enum):
    """What became of a message at its receiver's account."""

    ACCEPTED = "accepted"
    DROPPED = "dropped"  # the receiver's policy is to drop the newest
    FULL = "full"
    GONE = "gone"  # the receiver is not there any more: look again where it is


class Account:
    """What a receiver has unread, and what becomes of what does not fit.

    Args:
        messages_max, bytes_max: the bound; one message always fits if nothing is there.
        overflow: the policy.

    Attributes:
        gap: messages dropped before the oldest that is unread; behind: dropped behind
          all of these, 0 unless the policy is `drop-oldest`. No message that follows
          them tells yet (BUS-FLOW-3).
        extracted, extracted_bytes: what was taken off, but for what was read of a run
          that is being read.
    """

    __slots__ = (
        "_bytes_max",
        "_dropped",
        "_dropped_bytes",
        "_inside",
        "_inside_bytes",
        "_messages_max",
        "_outside",
        "_outside_bytes",
        "_reading",
        "_unread",
        "behind",
        "expired",
        "extracted",
        "extracted_bytes",
        "gap",
        "missed",
        "overflow",
        "returned",
        "turned_away",
    )

    def __init__(
        self, *, messages_max: int, bytes_max: int, overflow: Overflow
    ) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        self.overflow: Final = overflow
        # Plain numbers, not pairs of them: they are counted for every message.
        self._outside = self._outside_bytes = 0
        self._inside = self._inside_bytes = 0
        self.extracted = self.extracted_bytes = 0
        # Of which more was read than is in these.
        self._reading: CommandRun | None = None
        self._dropped = self._dropped_bytes = 0
        # Of those who drop the oldest: what is unread, oldest first, so that it is
        # found. Guarded by the inbox's lock; None for all others.
        self._unread: deque[Incoming] | None = (
            deque() if overflow == "drop-oldest" else None
        )
        self.gap: int = 0
        self.behind: int = 0
        # Extracted, but too late, or to be sent elsewhere; written as ``extracted``.
        self.expired: int = 0
        self.returned: int = 0
        # Never accepted; written under the lock.
        self.turned_away: int = 0
        # Notifications dropped before they reached this process, by their gaps;
        # written by the thread that handles the frames from links.
        self.missed: int = 0

    def error(self, what: str) -> BusFullError:
        """Return what to raise when there is no room, ``what`` being whose this is."""
        if self.unread >= self._messages_max:
            return BusFullError(what, self._messages_max)
        return BusFullError(what, self._bytes_max, "bytes")

    # The books: accepted == delivered + dropped + expired + returned + unread.

    @property
    def accepted(self) -> int:
        """How many messages were ever accepted."""
        return self._outside + self._inside

    @property
    def delivered(self) -> int:
        """How many were handed to a callback."""
        return self._taken_off - self.expired - self.returned

    @property
    def dropped(self) -> int:
        """How many were accepted, and dropped for newer ones."""
        return self._dropped

    @property
    def unread(self) -> int:
        """How many messages are on it now."""
        taken_off = self._taken_off  # first: what is read meanwhile counts as unread
        return self._outside + self._inside - taken_off - self._dropped

    @property
    def _taken_off(self) -> int:
        """How many were extracted by now.

        A look, from any thread: what was settled just between two of its steps would
        count twice, or not at all, so then it looks anew.
        """
        while True:
            reading, extracted = self._reading, self.extracted
            if reading is None:
                return extracted
            count = reading.unsettled
            if self._reading is reading and self.extracted == extracted:
                return extracted + count

    @property
    def unread_bytes(self) -> int:
        """How many bytes these have."""
        taken_off = self._taken_off_bytes
        posted = self._outside_bytes + self._inside_bytes
        return posted - taken_off - self._dropped_bytes

    @property
    def _taken_off_bytes(self) -> int:
        while True:
            reading, extracted = self._reading, self.extracted_bytes
            if reading is None:
                return extracted
            size = reading.unsettled_bytes
            if self._reading is reading and self.extracted_bytes == extracted:
                return extracted + size

    def admit_locked(self, message: Incoming, dropped: list[Incoming]) -> Admission:
        """Put a message on the account; under the lock of the inbox.

        What was dropped for it joins ``dropped``.
        """
        self._outside += 1
        self._outside_bytes += message._size
        unread = self._outside + self._inside - self.extracted - self._dropped
        most = self._outside_bytes + self._inside_bytes - self.extracted_bytes
        fits = unread <= self._messages_max and most <= self._bytes_max
        if fits and self._unread is None and not self.gap:
            return Admission.ACCEPTED
        while self._over():
            if self._unread:
                dropped.append(self._drop_oldest_locked())
                continue
            self._outside -= 1
            self._outside_bytes -= message._size
            if self.overflow == "drop-newest":
                self.turn_away_locked(message)
                return Admission.DROPPED
            return Admission.FULL
        if self._unread is not None:
            self._unread.append(message)
            message.gap += self.behind
            self.behind = 0
        else:
            self._tell_locked(message)
        return Admission.ACCEPTED

    def admit_run_locked(self, sizes: Lengths) -> int:
        """Put on the account as many messages as may be at no cost to others.

        Under the lock of the inbox. Returns how many, from the first; for the next one
        there may be a way by `admit_locked`.

        sizes: of each, in bytes.
        """
        if self._unread is not None or self.gap:
            return 0
        unread = self.unread
        count = min(self._messages_max - unread, sizes.count)
        if count <= 0:
            return 0
        some = sizes.part(0, count)
        size, room = some.total, self._bytes_max - self.unread_bytes
        if size > room:
            count = some.fitting(room)
            if not count and not unread:
                count = 1  # fits, however long, if nothing else is here
            size = some.part(0, count).total
        # First added, then looked at: another one may be added inside meanwhile.
        self._outside += count
        self._outside_bytes += size
        if self._over():
            self._outside -= count
            self._outside_bytes -= size
            return 0
        return count

    def admit_inside(
        self, message: Incoming, dropped: list[Incoming], lock: _thread.LockType
    ) -> Admission:
        """Put a message on the account, in the thread that hosts the receiver."""
        if self.admit_at_once(message):
            return Admission.ACCEPTED
        with lock:
            return self.admit_locked(message, dropped)

    def admit_at_once(self, message: Incoming) -> bool:
        """Put a message on the account at no cost to others, likewise; no lock."""
        if self._unread is not None or self.gap:
            return False
        self._inside += 1
        self._inside_bytes += message._size
        if not self._over():
            return True
        self._inside -= 1
        self._inside_bytes -= message._size
        return False

    @property
    def roomy(self) -> bool:
        """Whether at least half of the room is free; a look, with no lock."""
        return (
            2 * self.unread <= self._messages_max
            and 2 * self.unread_bytes <= self._bytes_max
        )

    def full(self, size: int) -> bool:
        """Whether there is no room for so many bytes more; a look, with no lock."""
        unread = self.unread
        return unread >= self._messages_max or (
            self.unread_bytes + size > self._bytes_max and unread > 0
        )

    def extract(self, message: Incoming, lock: _thread.LockType) -> bool:
        """Take a message off, in the thread that hosts the receiver.

        False if it was dropped meanwhile: it is none any more.
        """
        if self._unread is not None:
            with lock:
                if message._dropped:
                    return False
                # Mostly the oldest; what is sent within the thread overtakes what is
                # being posted by another one.
                self._unread.remove(message)
                self._tell_locked(message)
        self.extracted += 1
        self.extracted_bytes += message._size
        return True

    def begin(self, run: CommandRun, lock: _thread.LockType) -> None:
        """Let what is read of a run from now on be off, in the thread that hosts it.

        lock: of the inbox.
        """
        if self._reading is not None:  # its reader was struck before it was settled
            self.settle(lock)
        self._reading = run

    def settle(self, lock: _thread.LockType) -> None:
        """Note what was read of that run; likewise."""
        run = self._reading
        if run is None:
            return
        count, size = run.unsettled, run.unsettled_bytes
        # One step: neither an interrupt nor who looks for room finds a part of it.
        with lock:
            self.extracted += count
            self.extracted_bytes += size
            run.settled += count
            self._reading = None

    def _over(self) -> bool:
        unread = self._outside + self._inside - self.extracted - self._dropped
        if self._reading is not None:
            unread = self.unread
        return unread > self._messages_max or (
            self.unread_bytes > self._bytes_max and unread > 1
        )

    def _drop_oldest_locked(self) -> Incoming:
        assert self._unread
        oldest = self._unread.popleft()
        whole = replace(oldest)  # for its sender
        oldest._dropped = True
        oldest.payload = None  # what is only passed over later shall hold no memory
        self._dropped += 1
        self._dropped_bytes += oldest._size
        self._miss_oldest_locked(oldest)
        return whole

    def turn_away_locked(self, message: Incoming) -> None:
        """Note that a message is dropped, and not accepted; under the inbox's lock."""
        self.turned_away += 1
        self.miss_newest_locked(1 + message.gap)

    def miss_newest_locked(self, count: int) -> None:
        """Let the next one that is accepted tell that so many are missing; likewise."""
        if self._unread is not None:
            self.behind += count
        else:
            self.gap += count

    def _miss_oldest_locked(self, oldest: Incoming) -> None:
        """Let the next one tell that this is missing, and what this would have told."""
        self.gap += 1 + oldest.gap

    def _tell_locked(self, message: Incoming) -> None:
        """Let a message tell what is missing before it (BUS-FLOW-3)."""
        message.gap += self.gap
        self.gap = 0
