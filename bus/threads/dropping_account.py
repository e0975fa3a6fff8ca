"""`DroppingAccount`: an account that drops its oldest unread message if it is full.

It keeps its unread messages in a queue of its own. The mailbox and the inbox keep their
entries, and skip the dropped ones.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.core.local.inbound_run import InboundRun
from bus.message import Incoming
from bus.threads.account import Account, Admission

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterator

    from bus.core.wire import Lengths
    from bus.registration import Overflow

__all__ = ["DroppingAccount", "new_account"]


def new_account(*, messages_max: int, bytes_max: int, overflow: Overflow) -> Account:
    """Return an account for a policy; the arguments are those of `Account`."""
    kind = DroppingAccount if overflow == "drop-oldest" else Account
    return kind(messages_max=messages_max, bytes_max=bytes_max, overflow=overflow)


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
        self._waiting: Final[deque[Incoming | InboundRun]] = deque()
        # What the next message reports if an interrupt keeps the one being read from
        # its callback.
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

    def admit_inbound_locked(
        self, run: InboundRun, dropped: list[Incoming | InboundRun]
    ) -> InboundRun | None:
        """Put a run of notifications on the account, as a whole; see `Account`."""
        if self.behind or not run.subscriptions:
            return None
        some = run.take(len(run))
        some._account = self
        waiting = self._waiting
        while waiting and not waiting[0]:  # a run whose messages are all read
            waiting.popleft()
        self._outside += len(some)
        self._outside_bytes += some.lengths.total
        waiting.append(some)
        while waiting and self._over():
            self._drop_oldest_locked(dropped)
        return some

    def admit_at_once(self, message: Incoming, lock: _thread.LockType) -> bool:
        """Put a message on the account if it drops none; see `Account`."""
        with lock:
            if self.full(message._size):
                return False
            self.admit_locked(message, [])
            return True

    def extract(self, message: Incoming, lock: _thread.LockType) -> bool:
        """Take a message off the account; see `Account.extract`."""
        with lock:
            if message._dropped:
                return False
            # Usually the oldest. But a message sent within the thread may overtake one
            # that another thread is posting.
            self._waiting.remove(message)
            self._report_gap_locked(message)
        return super().extract(message, lock)

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

    def rest_of(self, run: InboundRun, lock: _thread.LockType) -> list[Incoming]:
        """Take the unread messages out of a run; see `Account.rest_of`."""
        with lock:
            rest = run.rest()
            waiting = list(self._waiting)
            self._waiting.clear()
            for each in waiting:
                self._waiting.extend(rest if each is run else (each,))
            return rest

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
