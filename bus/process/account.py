"""`Account`: the counters of one receiver's unread messages, and its overflow policy.

Each task has an account for its commands, and each subscription has one, too; under
`drop-oldest` it is a `DroppingAccount` (`bus.process.dropping_account`), which takes
the lock for everything. A message is on the account from its acceptance until it is
extracted or dropped. The bound is exact, in messages and in bytes, for any number of
senders. Sending within a thread takes no lock.

Each counter has one writer at a time, so that no counter needs a lock to be correct:

* ``_outside``, ``_dropped``: the thread that holds the lock of the inbox of the host
  thread;
* ``_inside``, ``extracted``, ``_reading``: the thread that hosts the receiver. While it
  reads a run, it updates no counter per message: the run itself knows the number of
  messages read.

A sender first adds its message, then checks the bound, and subtracts the message again
if it is exceeded. If two senders add concurrently, one under the lock and one without
it, at least one of them sees both messages. A sender that finds no room without the
lock retries under the lock, and only the result of the retry counts as full.
"""

from __future__ import annotations

import enum
from collections import deque
from contextlib import nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from bus.errors import BusFullError
from bus.kernel.tasks.runs import InboundRun
from bus.model.message import Incoming
from bus.model.registration import Overflow
from bus.model.snapshot import Counters

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterator, Sequence

    from bus.kernel.wire import Lengths

__all__ = [
    "Account",
    "Admission",
    "Overflow",
    "Place",
    "replaced",
]


# The lock of an inbox, for a caller that holds it.
_HELD: Final[Any] = nullcontext()


class Admission(enum.Enum):
    """The outcome of an attempt to put a message on an account."""

    ACCEPTED = "accepted"
    DROPPED = "dropped"  # the receiver's policy is to drop the newest
    FULL = "full"
    GONE = "gone"  # the receiver has moved or left: look up its host again


class Place(Protocol):
    """A mailbox or an inbox."""

    items: Any


class Account:
    """The bounded account of one receiver's unread messages.

    Args:
        messages_max, bytes_max: the bounds; an empty account accepts any one message.
        overflow: the policy for a message that exceeds a bound.

    Attributes:
        gap: the number of messages dropped before the oldest unread one. No accepted
          message reports them yet (BUS-FLOW-3).
        behind: the number dropped behind all unread ones, likewise unreported; 0 unless
          the policy is `drop-oldest`.
        extracted, extracted_bytes: the messages taken off, except those read from the
          run that is being read.
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
        "behind",
        "expired",
        "extracted",
        "extracted_bytes",
        "gap",
        "missed",
        "overflow",
        "refused",
        "returned",
    )

    def __init__(
        self, *, messages_max: int, bytes_max: int, overflow: Overflow
    ) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        self.overflow: Final = overflow
        # Plain integers, not pairs of them: every message updates them.
        self._outside = self._outside_bytes = 0
        self._inside = self._inside_bytes = 0
        self.extracted = self.extracted_bytes = 0
        # The run being read, whose reads ``extracted`` does not yet include.
        self._reading: InboundRun | None = None
        self._dropped = self._dropped_bytes = 0
        self.gap: int = 0
        self.behind: int = 0
        # Extracted, but too late, or to be sent elsewhere; written by the same thread
        # as ``extracted``, under the inbox's lock: see `discard`.
        self.expired: int = 0
        self.returned: int = 0
        # Never accepted; written under the inbox's lock.
        self.refused: int = 0
        # Notifications dropped before they reached this process, as their gaps report;
        # written by the thread that handles the frames from links.
        self.missed: int = 0

    def error(self, what: str) -> BusFullError:
        """Return the error to raise for a full account; ``what`` names its owner."""
        if self.unread >= self._messages_max:
            return BusFullError(what, self._messages_max)
        return BusFullError(what, self._bytes_max, "bytes")

    # The balance: accepted == delivered + dropped + expired + returned + unread.

    @property
    def accepted(self) -> int:
        """The number of messages accepted so far."""
        return self._outside + self._inside

    @property
    def delivered(self) -> int:
        """The number of messages handed to a callback."""
        return self._taken_off - self.expired - self.returned

    @property
    def dropped(self) -> int:
        """The number of accepted messages that were dropped for newer ones."""
        return self._dropped

    @property
    def unread(self) -> int:
        """The number of messages on the account now."""
        taken_off = self._taken_off  # first: one read meanwhile still counts as unread
        return self._outside + self._inside - taken_off - self._dropped

    @property
    def _taken_off(self) -> int:
        """The number of messages extracted so far; readable in any thread, no lock.

        A concurrent `settle` could make some reads count twice, or not at all. If this
        detects one, it reads again.
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
        """The size of the unread messages in bytes."""
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

    def counters(self, lock: _thread.LockType) -> Counters:
        """Return counters that balance, and of which no sum ever falls (BUS-FLOW-9).

        lock: the inbox's lock. Under it, only the thread that hosts the receiver
          counts, and all that this thread does without the lock is to deliver messages,
          and to admit one from itself.
        """
        with lock:
            # The messages that have left first: none is counted that was not accepted.
            taken_off, taken_off_bytes = self._taken_off, self._taken_off_bytes
            accepted = self._outside + self._inside
            size = self._outside_bytes + self._inside_bytes
            dropped, refused = self._dropped, self.refused
            expired, returned = self.expired, self.returned
            unread = accepted - taken_off - dropped
            unread_bytes = size - taken_off_bytes - self._dropped_bytes
        if unread > 1 and (
            unread > self._messages_max or unread_bytes > self._bytes_max
        ):
            # That thread has added a message, and is about to find that it exceeds a
            # bound, and to subtract it.
            accepted, unread = accepted - 1, unread - 1
            unread_bytes = min(unread_bytes, self._bytes_max)
        return Counters(
            accepted=accepted,
            delivered=taken_off - expired - returned,
            dropped=dropped,
            expired=expired,
            returned=returned,
            unread=unread,
            unread_bytes=unread_bytes,
            refused=refused,
        )

    def admit_locked(
        self,
        message: Incoming,
        dropped: list[Incoming | InboundRun],  # noqa: ARG002 # `DroppingAccount` needs it
    ) -> Admission:
        """Put a message on the account; the caller holds the inbox's lock.

        Each message dropped for it is appended to ``dropped``, or each run of which no
        message is left.

        After an interrupt the message is not on the account. No interrupt is raised
        between the return and the end of the next call in C. So the caller puts the
        message into the inbox by one such call. The same holds for all methods that
        admit messages.
        """
        self._outside += 1
        self._outside_bytes += message._size
        # Too high while a run is being read; if it does not fit, `_over` counts again.
        unread = self._outside + self._inside - self.extracted - self._dropped
        most = self._outside_bytes + self._inside_bytes - self.extracted_bytes
        fits = unread <= self._messages_max and most <= self._bytes_max
        if fits and not self.gap:
            return Admission.ACCEPTED
        self._outside -= 1
        self._outside_bytes -= message._size
        if not self._add_locked(1, message._size):
            if self.overflow == "drop-newest":
                self.refuse_locked(message)
                return Admission.DROPPED
            return Admission.FULL
        # The receiver learns of the gap by this message (BUS-FLOW-3).
        message.gap += self.gap
        self.gap = 0
        return Admission.ACCEPTED

    def admit_run_locked(self, sizes: Lengths) -> int:
        """Put messages on the account, as many as fit without a drop.

        The caller holds the inbox's lock. Return the number accepted, from the first.
        `admit_locked` may still accept the next one.

        sizes: the size of each message in bytes.
        """
        count, size = self._fitting(sizes)
        return count if count and self._add_locked(count, size) else 0

    def _fitting(self, sizes: Lengths) -> tuple[int, int]:
        """Return how many of the first messages fit now, and their size in bytes."""
        unread = self.unread
        count = min(self._messages_max - unread, sizes.count)
        if self.gap or count <= 0:
            return 0, 0
        some = sizes.part(0, count)
        size, room = some.total, self._bytes_max - self.unread_bytes
        if size > room:
            count = some.fitting(room)
            if not count and not unread:
                count = 1  # an empty account accepts a message of any length
            size = some.part(0, count).total
        return count, size

    def _add_locked(self, count: int, size: int) -> bool:
        """Add messages to the account; return False, and add none, if it has no room.

        It adds first, then checks: the host thread may add one without the lock
        meanwhile.
        """
        over = True
        try:
            self._outside += count
            self._outside_bytes += size
            over = self._over()
        finally:  # an interrupt of the check, too, leaves no room taken
            if over:
                self._outside -= count
                self._outside_bytes -= size
        return not over

    def admit_inbound_locked(self, run: InboundRun) -> InboundRun | None:
        """Move the first messages of a run to the account, as many as fit.

        Return them as a run, or None if there are none. The caller holds the inbox's
        lock. None fits if the first one must report a gap.
        """
        count, size = self._fitting(run.lengths)
        if not count:
            return None
        some, rest = run.split(count)
        some._account = self
        if not self._add_locked(count, size):
            return None
        run.payloads, run.lengths, run._unread, run.number = rest
        return some

    def trim_locked(self, dropped: list[Incoming | InboundRun]) -> None:
        """Drop the messages by which a run exceeds a bound: only `DroppingAccount`."""

    def admit_at_once(
        self,
        message: Incoming,
        lock: _thread.LockType,  # noqa: ARG002 # `DroppingAccount` needs it
    ) -> bool:
        """Put a message on the account without a drop; return False if it is full.

        Only the thread that hosts the receiver may call this. It also returns False if
        a gap is to be reported.

        lock: the inbox's lock, which only policy `drop-oldest` needs.
        """
        if self.gap:
            return False
        self._inside += 1
        self._inside_bytes += message._size
        unread = self._outside + self._inside - self.extracted - self._dropped
        if unread <= 1:  # an empty account accepts any one message
            return True
        over = True
        try:
            over = self._over()
        finally:  # an interrupt of the check, too, leaves no room taken
            if over:
                self._inside -= 1
                self._inside_bytes -= message._size
        return not over

    def withdraw(
        self,
        message: Incoming,
        lock: _thread.LockType,  # noqa: ARG002 # `DroppingAccount` needs it
    ) -> None:
        """Undo `admit_at_once`, after an interrupt, in the same thread.

        lock: the inbox's lock.
        """
        self._inside -= 1
        self._inside_bytes -= message._size

    @property
    def is_half_free(self) -> bool:
        """True if at least half of the room is free; takes no lock."""
        return (
            2 * self.unread <= self._messages_max
            and 2 * self.unread_bytes <= self._bytes_max
        )

    def full(self, size: int) -> bool:
        """Return True if a message of ``size`` bytes does not fit; takes no lock."""
        unread = self.unread
        return unread >= self._messages_max or (
            unread > 0 and self.unread_bytes + size > self._bytes_max
        )

    def extract(
        self,
        message: Incoming,
        lock: _thread.LockType,  # noqa: ARG002 # `DroppingAccount` needs it
    ) -> bool:
        """Take a message off the account, in the thread that hosts the receiver.

        Return False if it was dropped meanwhile, and so is off the account already.
        """
        self.extracted += 1
        self.extracted_bytes += message._size
        return True

    def discard(
        self,
        message: Incoming,
        lock: _thread.LockType,
        end: Literal["expired", "returned"],
    ) -> bool:
        """As `extract`, for a message that no callback gets; count its end, too.

        Both are one step for a holder of the lock. Otherwise a report in between would
        count the message as delivered, and the next one would not.
        """
        with lock:
            if not self.extract(message, _HELD):
                return False
            if end == "expired":
                self.expired += 1
            else:
                self.returned += 1
        return True

    def read(
        self,
        run: InboundRun,
        reference: object,
        lock: _thread.LockType,  # noqa: ARG002 # `DroppingAccount` needs it
    ) -> Iterator[Incoming]:
        """Return an iterator of messages for a callback; each step reads one.

        reference: that of each message. lock: the inbox's lock.
        """
        return run.read(reference)

    def unpack_locked(self, run: InboundRun, place: Place) -> None:
        """Replace a run by its unread messages, at least one; they stay on the account.

        Only the thread that hosts the receiver may call this, with the inbox's lock.

        place: has the run among its items.
        """
        rest, end = run.unpacked()
        items = replaced(place.items, run, rest)
        # No call between these lines: an interrupt finds both changes or none.
        run.payloads, run.lengths, run._unread = end
        place.items = items

    def begin(self, run: InboundRun, lock: _thread.LockType) -> None:
        """Start to count the reads from a run, in the thread that hosts the receiver.

        lock: the inbox's lock.
        """
        if self._reading is not None:  # an interrupt came before the last `settle`
            self.settle(lock)
        self._reading = run

    def settle(self, lock: _thread.LockType) -> None:
        """Add the reads from the current run to the counters, in the same thread."""
        run = self._reading
        if run is None:
            return
        count, size = run.unsettled, run.unsettled_bytes
        # One step: neither an interrupt nor a sender under the lock sees a part of it.
        with lock:
            self.extracted += count
            self.extracted_bytes += size
            run.settled += count
            self._reading = None

    def _over(self) -> bool:
        # Too high while a run is being read. Too low only if the host thread, which
        # takes no lock, has admitted a message since the caller added its own: then
        # both fitted together at that time.
        unread = self._outside + self._inside - self.extracted - self._dropped
        if unread <= 1:
            return False  # an empty account accepts any one message
        if self._reading is not None:
            unread = self.unread
        most = self._outside_bytes + self._inside_bytes - self.extracted_bytes
        return unread > self._messages_max or (
            # The first is cheaper, and never too low.
            most > self._bytes_max
            and self.unread_bytes > self._bytes_max
            and unread > 1
        )

    def refuse_locked(self, message: Incoming) -> None:
        """Count a message that is dropped before acceptance; under the inbox's lock."""
        self.refused += 1
        self.miss_newest_locked(1 + message.gap)

    def miss_newest_locked(self, count: int) -> None:
        """Count messages that the next accepted one reports as missing.

        The caller holds the inbox's lock.
        """
        self.gap += count


def replaced(
    items: deque[Any], run: InboundRun, rest: Sequence[Incoming]
) -> deque[Any]:
    """Return a copy of a FIFO with messages in the place of their run."""
    at = items.index(run)
    return deque(chain(islice(items, at), rest, islice(items, at + 1, None)))
