"""`RelayAccount`: the account of a relay, as its senders see it.

To its senders, a relay is a task like any other, with an account of its own
(BUS-ENT-11). The bound is that of a task's FIFO. It covers the comm thread's inbox and
the relay's queue together; messages on a link are bounded by the window there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from bus.core.local.trace import dropped_by
from bus.links.batch_room import BatchRoom
from bus.message import Kind
from bus.threads.account import Admission
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.core.local.inbound_run import InboundRun
    from bus.core.peer.relay import Relay
    from bus.errors import BusError
    from bus.events import BusReason
    from bus.links.send_batch import SendBatch
    from bus.message import Incoming
    from bus.threads.account import Account, Overflow

__all__ = ["RelayAccount"]


class RelayAccount(BatchRoom):
    """The account of a relay, and its client (`bus.threads.mailbox.Client`).

    Each counter has one writer. ``_posted`` and ``_posted_bytes`` belong to the holder
    of the comm thread's inbox lock, the others to the comm thread.

    Args:
        messages_max, bytes_max: as for `BatchRoom`.
        overflow: the overflow policy of the remote task (BUS-FLOW-6). Under
            `drop-oldest` the relay drops its own oldest messages, which only the comm
            thread may do. Messages not yet moved to it may reach the bound once more;
            this class drops the oldest of those.
        taken: called with a message that the remote process need not keep any longer.
        refuse: sends an error to the remote task whose question was not delivered.
    """

    __slots__ = (
        "_in_inbox",
        "_lock",
        "_moved",
        "_moved_bytes",
        "_refuse",
        "_taken",
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
        super().__init__(
            messages_max=messages_max, bytes_max=bytes_max, overflow=overflow
        )
        self._taken: Final = taken
        self._refuse: Final = refuse
        self._moved = self._moved_bytes = 0
        # Messages in the inbox, oldest first, under `drop-oldest`; guarded by its lock.
        self._in_inbox: deque[Incoming] | None = (
            deque() if overflow == "drop-oldest" else None
        )
        # Guards the next counter, which any thread increments: remote commands that
        # were not delivered, and whose senders cannot be notified.
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self.undelivered: int = 0

    # The account.

    @property
    def account(self) -> RelayAccount:
        """Return this object: it is both client and account."""
        return self

    def admit_locked(
        self, message: Incoming, dropped: list[Incoming | InboundRun]
    ) -> Admission:
        """Admit a message to the account, under the lock of the comm thread's inbox.

        Messages dropped in its favour are appended to ``dropped``.
        """
        size = message._size
        if self.full(size):
            self._reclaim_locked(size)
        if self.full(size):
            if self.overflow == "drop-newest":
                return Admission.DROPPED
            if self._in_inbox is None:
                return Admission.FULL
            while self._in_inbox and self._is_crowded(size):
                dropped.append(self._drop_oldest_locked(self._in_inbox))
        self._posted += 1
        self._posted_bytes += size
        if self._in_inbox is not None:
            self._in_inbox.append(message)
        return Admission.ACCEPTED

    def _drop_oldest_locked(self, coming: deque[Incoming]) -> Incoming:
        oldest = coming.popleft()
        self._posted -= 1
        self._posted_bytes -= oldest._size
        return oldest._drop()

    def take(self, message: Incoming, lock: _thread.LockType) -> bool:
        """Take a message out of the inbox; return False if it was dropped meanwhile."""
        if self._in_inbox is None:
            return True
        with lock:
            if message._dropped:
                return False
            self._in_inbox.remove(message)  # the first
            return True

    def _is_crowded(self, size: int) -> bool:
        """Return True if the messages on the way to the relay reach its bound."""
        coming = self._posted - self._moved
        return coming >= self._messages_max or (
            self._posted_bytes - self._moved_bytes + size > self._bytes_max
            and coming > 0
        )

    def admit_inside(
        self,
        message: Incoming,
        dropped: list[Incoming | InboundRun],
        lock: _thread.LockType,
    ) -> Admission:
        """Admit a message to the account, in the comm thread itself."""
        with lock:
            return self.admit_locked(message, dropped)

    def reserve_locked(
        self, send_batch: SendBatch, need: int, most: int, size: int
    ) -> int:
        """Reserve room for a batch; there is none under `drop-oldest`."""
        if self._in_inbox is not None:
            return 0
        return super().reserve_locked(send_batch, need, most, size)

    def on_batch_moved(self, count: int, size: int) -> None:
        """Note that ``count`` messages of a batch moved into the relay."""
        self._moved += count
        self._moved_bytes += size

    def on_moved(self, messages: Sequence[Incoming]) -> None:
        """Note that messages moved from the inbox into the relay."""
        self._moved += len(messages)
        self._moved_bytes += sum([message._size for message in messages])

    def review(self, relay: Relay) -> None:
        """Count the messages that have left the relay; for the comm thread."""
        # One assignment each: in between, the count of waiting messages may be too
        # high, never too low.
        self._left = self._moved - relay.queued
        self._left_bytes = self._moved_bytes - relay.queued_bytes

    # The client, for any thread: the outcome of messages from the remote task.

    def on_undeliverable(
        self, message: Incoming, error: BusError, reason: BusReason | None = None
    ) -> None:
        """Report a failed delivery to the asking task; count a failed command."""
        if message._report is not None:
            return  # called again after an interrupt
        if message._trace is not None:
            message._trace.record_failed(error, reason, told=message.wants_reply)
        if message.wants_reply:
            self._refuse(message, error)
            message._report = error
        elif message.kind is Kind.COMMAND:
            with self._lock:
                # No call between these lines: an interrupt finds both changes or none.
                self.undelivered += 1
                message._report = error

    def on_overflow(self, message: Incoming) -> None:
        """Do nothing: a task under `disconnect` is disconnected in its own process."""

    def on_dropped(self, message: Incoming) -> None:
        """Note that the receiver's policy dropped a message of the remote task."""
        self._taken(message)
        account: Account = message._account
        error = account.error(f"task {message._to.name!r}")
        self.on_undeliverable(message, error, dropped_by(account.overflow))
