"""`DroppingAccount`: the account of a receiver that drops its oldest unread message.

It keeps its unread messages in a queue of its own. The mailbox and the inbox keep their
entries, and skip the dropped ones.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bus.kernel.tasks.runs import InboundRun
from bus.model.message import Incoming
from bus.process.account import Account, Admission, Place, replaced

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterator

    from bus.kernel.wire import Lengths
    from bus.model.registration import Overflow

__all__ = ["DroppingAccount", "new_account"]


class DroppingAccount(Account):
    """The account of a receiver with the policy `drop-oldest` (BUS-FLOW-3).

    The lock of the inbox of the host thread guards all of it. So each message that is
    read behind dropped ones reports exactly these as its gap.
    """

    __slots__ = ("_unseen", "_waiting")

    def __init__(
        self, *, messages_max: int, bytes_max: int, overflow: Overflow
    ) -> None:
        super().__init__(
            messages_max=messages_max, bytes_max=bytes_max, overflow=overflow
        )
        # The unread messages, oldest first. A run stays until it is at the front and
        # has no unread message.
        self._waiting: deque[Incoming | InboundRun] = deque()
        # The gap that the next message reports if an interrupt keeps the one being read
        # from its callback.
        self._unseen: int = 0

    def admit_locked(
        self, message: Incoming, dropped: list[Incoming | InboundRun]
    ) -> Admission:
        """Put a message on the account; see `Account.admit_locked`."""
        waiting, size = self._waiting, message._size
        while waiting and self.full(size):
            self._drop_oldest_locked(dropped)
        # No call from here to the return: an interrupt finds the message not on the
        # account, or in the inbox, too.
        waiting += (message,)
        self._outside += 1
        self._outside_bytes += size
        message.gap += self.behind
        self.behind = 0
        return Admission.ACCEPTED

    def admit_run_locked(self, _: Lengths) -> int:
        """Return 0: commands are admitted one by one (`Account.admit_run_locked`).

        Each command that is dropped is reported to its sender.
        """
        return 0

    def admit_inbound_locked(self, run: InboundRun) -> InboundRun | None:
        """Move a run of notifications to the account, as a whole; see `Account`.

        Then the caller trims the account.
        """
        if self.behind or not run.subscriptions:
            return None
        count = len(run)
        some, rest = run.split(count)
        some._account = self
        waiting = self._waiting
        while waiting and not waiting[0]:  # a run whose messages are all read
            waiting.popleft()
        waiting += (some,)  # no call from here to the return, as in `admit_locked`
        self._outside += count
        self._outside_bytes += some.lengths.total
        run.payloads, run.lengths, run._unread, run.number = rest
        return some

    def trim_locked(self, dropped: list[Incoming | InboundRun]) -> None:
        """Drop the oldest messages beyond a bound, as `admit_locked` does."""
        while self._waiting and self._over():
            self._drop_oldest_locked(dropped)

    def admit_at_once(self, message: Incoming, lock: _thread.LockType) -> bool:
        """Put a message on the account if it drops none; see `Account`."""
        try:
            with lock:
                if self.full(message._size):
                    return False
                self.admit_locked(message, [])
                return True
        except BaseException:  # an interrupt, perhaps behind the admission
            self.withdraw(message, lock)
            raise

    def withdraw(self, message: Incoming, lock: _thread.LockType) -> None:
        """Undo `admit_at_once`, if it was done; see `Account`."""
        with lock:
            waiting = deque(each for each in self._waiting if each is not message)
            if len(waiting) < len(self._waiting):
                self._waiting = waiting
                self._outside -= 1
                self._outside_bytes -= message._size
                # Not only that gap: another thread may have missed more since.
                self.behind += message.gap
                message.gap = 0

    def extract(self, message: Incoming, lock: _thread.LockType) -> bool:
        """Take a message off the account; see `Account.extract`."""
        with lock:
            if message._dropped:
                return False
            # Usually the oldest. But a message sent within the thread may overtake one
            # that another thread is posting.
            waiting = self._waiting
            at = 0 if waiting[0] is message else waiting.index(message)
            # No call between these lines: an interrupt finds all changes or none.
            del waiting[at]
            message.gap += self.gap
            self.gap = 0
            self.extracted += 1
            self.extracted_bytes += message._size
            return True

    def read(
        self, run: InboundRun, reference: object, lock: _thread.LockType
    ) -> Iterator[Incoming]:
        """Read a run; see `Account.read`.

        Each step takes the lock: another thread may drop messages of the run meanwhile.
        """
        source, to, subscriptions = run.source, run._to, run.subscriptions
        kind, unread = run.kind, run._unread
        while True:
            with lock:
                payload = next(unread, None)
                if payload is None:
                    return
                size = len(payload)
                # No call between these lines: an interrupt before them leaves the
                # message to `settle`, as one of the next lines leaves ``_unseen``.
                run.settled += 1
                self.extracted += 1
                self.extracted_bytes += size
                gap = self.gap
                self._unseen = gap + 1
                self.gap = 0
            message = Incoming(
                kind,
                payload,
                reference,
                source,
                to,
                self,
                gap=gap,
                subscriptions=subscriptions,
            )
            self._unseen = 0
            yield message

    def settle(self, lock: _thread.LockType) -> None:
        """End the reads from the current run; see `Account.settle`.

        A message that an interrupt kept from its callback is reported as missing.
        """
        with lock:
            run = self._reading
            if run is None:
                return
            count, size = run.unsettled, run.unsettled_bytes
            # No call between these lines.
            run.settled += count
            self._dropped += count
            self._dropped_bytes += size
            self.gap += count + self._unseen
            self._unseen = 0
            self._reading = None

    def unpack_locked(self, run: InboundRun, place: Place) -> None:
        """Replace a run by its unread messages; see `Account.unpack_locked`."""
        rest, end = run.unpacked()
        items = replaced(place.items, run, rest)
        waiting = replaced(self._waiting, run, rest)
        # No call between these lines: an interrupt finds all changes or none.
        run.payloads, run.lengths, run._unread = end
        place.items = items
        self._waiting = waiting

    def miss_newest_locked(self, count: int) -> None:
        """Count messages that the next accepted one reports; see `Account`."""
        self.behind += count

    def _drop_oldest_locked(self, dropped: list[Incoming | InboundRun]) -> None:
        oldest = self._waiting[0]
        if isinstance(oldest, InboundRun):
            if oldest:
                size = len(oldest.payloads[oldest.at])
                # No call before the last of these lines, after which all is done.
                oldest.settled += 1
                self._dropped += 1
                self._dropped_bytes += size
                self.gap += 1
                next(oldest._unread)
            if not oldest:
                oldest.payloads = ()  # frees the memory: the reader only skips the run
                del self._waiting[0]
                dropped.append(oldest)
            return
        whole = replace(oldest)  # a copy with the payload, for the sender's error
        # No call between these lines: an interrupt finds all of these changes or none.
        oldest._dropped = True
        oldest.payload = None
        del self._waiting[0]
        self._dropped += 1
        self._dropped_bytes += oldest._size
        # The next message reports this one, and its own gap.
        self.gap += 1 + oldest.gap
        dropped.append(whole)


def new_account(*, messages_max: int, bytes_max: int, overflow: Overflow) -> Account:
    """Return an account for a policy; the arguments are those of `Account`."""
    kind = DroppingAccount if overflow == "drop-oldest" else Account
    return kind(messages_max=messages_max, bytes_max=bytes_max, overflow=overflow)
