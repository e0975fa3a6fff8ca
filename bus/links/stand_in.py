"""`StandIn`: a relay, as those see it who post to it; and what waits in it, counted.

To them it is a task like any other, with an account of its own (BUS-ENT-11). The bound
is that of a task's FIFO, and holds for what is in the inbox of the comm thread and in
the queue of the relay together: what was put on a link is bounded by the window there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.core.trace import dropped_by
from bus.errors import BusFullError
from bus.message import Kind
from bus.threads.account import Admission
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.core.relay import Relay
    from bus.errors import BusError
    from bus.events import BusReason
    from bus.links.burst import Burst
    from bus.message import Incoming
    from bus.threads.account import Account, Overflow

__all__ = ["StandIn"]


class StandIn:
    """The account of a relay, and its client (`bus.threads.mailbox.Client`).

    Each number has one writer: ``_posted``, ``_posted_bytes`` whoever holds the lock of
    the comm thread's inbox; the others the comm thread.

    Args:
        messages_max, bytes_max: the bound; one message always fits if nothing waits.
        overflow: what becomes of what does not fit, as the far task says (BUS-FLOW-6).
          For newer ones the relay itself drops the oldest, which only the comm thread
          can; what was not yet moved there may be as much again, and is dropped here.
        taken: told of a message that the far process need not keep any more.
        refuse: tells who asked there that nobody gets it here.
    """

    __slots__ = (
        "_bursts",
        "_bytes_max",
        "_coming",
        "_left",
        "_left_bytes",
        "_lock",
        "_messages_max",
        "_moved",
        "_moved_bytes",
        "_posted",
        "_posted_bytes",
        "_refuse",
        "_taken",
        "overflow",
        "undelivered",
    )

    def __init__(
        self,
        *,
        messages_max: int,
        bytes_max: int,
        overflow: Overflow,
        taken: Callable[[Incoming], object],
        refuse: Callable[[Incoming, BusError], object],
    ) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        self.overflow: Final = overflow
        self._taken: Final = taken
        self._refuse: Final = refuse
        self._posted = self._posted_bytes = 0
        self._moved = self._moved_bytes = 0
        self._left = self._left_bytes = 0
        # What lies in the inbox, oldest first, where it may be dropped; under its lock.
        self._coming: deque[Incoming] | None = (
            deque() if overflow == "drop-oldest" else None
        )
        # Those for which room is taken; under that lock, too.
        self._bursts: Final[set[Burst]] = set()
        # Guards the next, which any thread counts up: what came from there, and it
        # cannot be told that nobody got it.
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self.undelivered: int = 0

    # The account.

    @property
    def account(self) -> StandIn:
        """What waits in it: this is both."""
        return self

    @property
    def unread(self) -> int:
        """How many messages wait here."""
        return self._posted - self._left

    def error(self, what: str) -> BusFullError:
        """Return what to raise when there is no room, ``what`` being whose this is."""
        if self.unread >= self._messages_max:
            return BusFullError(what, self._messages_max)
        return BusFullError(what, self._bytes_max, "bytes")

    def full(self, size: int) -> bool:
        """Whether there is no room for so many bytes more; a look, with no lock."""
        unread = self.unread
        return unread >= self._messages_max or (
            self._posted_bytes - self._left_bytes + size > self._bytes_max
            and unread > 0
        )

    def admit_locked(self, message: Incoming, dropped: list[Incoming]) -> Admission:
        """Put a message on the account; under the lock of the comm thread's inbox.

        What was dropped for it joins ``dropped``.
        """
        size = message._size
        if self.full(size):
            self._reclaim_locked(size)
        if self.full(size):
            if self.overflow == "drop-newest":
                return Admission.DROPPED
            if self._coming is None:
                return Admission.FULL
            while self._coming and self._crowded(size):
                dropped.append(self._drop_oldest_locked(self._coming))
        self._posted += 1
        self._posted_bytes += size
        if self._coming is not None:
            self._coming.append(message)
        return Admission.ACCEPTED

    def _drop_oldest_locked(self, coming: deque[Incoming]) -> Incoming:
        oldest = coming.popleft()
        whole = replace(oldest)  # for its sender
        oldest._dropped = True
        oldest.payload = None  # what is only passed over later shall hold no memory
        self._posted -= 1
        self._posted_bytes -= oldest._size
        return whole

    def arrives(self, message: Incoming, lock: _thread.LockType) -> bool:
        """Take a message out of the inbox; False if it was dropped meanwhile."""
        if self._coming is None:
            return True
        with lock:
            if message._dropped:
                return False
            self._coming.remove(message)  # the first
            return True

    def _crowded(self, size: int) -> bool:
        """Whether as much as may wait in the relay waits on its way there."""
        coming = self._posted - self._moved
        return coming >= self._messages_max or (
            self._posted_bytes - self._moved_bytes + size > self._bytes_max
            and coming > 0
        )

    def admit_inside(
        self, message: Incoming, dropped: list[Incoming], lock: _thread.LockType
    ) -> Admission:
        """Put a message on the account, in the comm thread itself."""
        with lock:
            return self.admit_locked(message, dropped)

    def reserve_locked(self, burst: Burst, need: int, most: int, size: int) -> int:
        """Take room for a burst: for ``need`` messages, if possible for ``most``.

        Each is counted as ``size`` bytes. Returns for how many, 0 if these do not fit.
        Under the lock of the comm thread's inbox.
        """
        if self._coming is not None:
            return 0
        given = self._free(most, size)
        if given < need:
            self._reclaim_locked(size)
            given = self._free(most, size)
        if given < need:
            return 0
        self._bursts.add(burst)
        # Last: no interrupt comes between this and that the burst has it.
        self._posted += given
        self._posted_bytes += given * size
        return given

    def release_locked(self, burst: Burst, unused: int, unused_bytes: int) -> None:
        """Give room back that a burst did not need, and has no more; likewise."""
        self._posted -= unused
        self._posted_bytes -= unused_bytes
        self._bursts.discard(burst)

    def _free(self, most: int, size: int) -> int:
        messages = self._messages_max - self.unread
        length = self._bytes_max - (self._posted_bytes - self._left_bytes)
        return min(most, messages, length // size)

    def _reclaim_locked(self, size: int) -> None:
        """Take back what bursts have and do not use: nobody is refused for that.

        size: of what needs it. Where bytes are not what is short, a burst that has used
        its room up has nothing to give, and what it holds need not be counted.
        """
        short = self._posted_bytes - self._left_bytes + size > self._bytes_max
        for burst in list(self._bursts):
            if short or burst.spare or not burst.room:
                self.reclaim_locked(burst)

    def reclaim_locked(self, burst: Burst) -> None:
        """Take back what a burst has and does not use; under that lock."""
        unused, unused_bytes = burst.reclaim_locked()
        self._posted -= unused
        self._posted_bytes -= unused_bytes
        if not burst.room:  # its sender was interrupted, and may never use it
            self._bursts.discard(burst)

    def moved_alike(self, count: int, size: int) -> None:
        """Note that messages of a burst went into the relay, and their size."""
        self._moved += count
        self._moved_bytes += size

    def moved(self, messages: Sequence[Incoming]) -> None:
        """Note that messages went from the inbox into the relay; their sizes, too."""
        self._moved += len(messages)
        self._moved_bytes += sum([message._size for message in messages])

    def review(self, relay: Relay) -> None:
        """See how much has left the relay since; in the comm thread."""
        # One assignment each: in between, too much seems to wait, never too little.
        self._left = self._moved - relay.queued
        self._left_bytes = self._moved_bytes - relay.queued_bytes

    # The client, in any thread: what became of what the far task has sent.

    def failed(
        self, message: Incoming, error: BusError, reason: BusReason | None = None
    ) -> None:
        """Tell who asked that nobody gets it; others know only that it was taken."""
        if message._trace is not None:
            message._trace.failed(error, reason, told=message.wants_reply)
        if message.wants_reply:
            self._refuse(message, error)
        elif message.kind is Kind.COMMAND:
            with self._lock:
                self.undelivered += 1

    def overflowed(self, message: Incoming) -> None:
        """Do nothing: who asks to be cut off is cut off where it is."""

    def was_dropped(self, message: Incoming) -> None:
        """Note that what the far task has sent was dropped for something newer."""
        self._taken(message)
        account: Account = message._account
        error = account.error(f"task {message._to.name!r}")
        self.failed(message, error, dropped_by(account.overflow))
