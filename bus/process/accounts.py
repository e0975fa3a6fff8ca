"""The bounds on the messages that tasks have posted for other processes.

A `RelayAccount` is the account of a relay. To its senders, a relay is a task like any
other (BUS-ENT-11). The bound is that of a task's FIFO. It covers the comm thread's
inbox and the relay's queue together; messages on a link are bounded by the window
there.

The `AudienceAccount` is that of the notifications for remote subscribers, from their
sending until the comm thread takes them. From then on each process that subscribes has
a queue of its own.

Both are a `BatchRoom`: a batch reserves room for several messages at once, and so needs
no lock for each of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from bus.errors import BusFullError
from bus.kernel.trace import dropped_by
from bus.model.message import Incoming, Kind
from bus.process.account import Admission
from bus.process.send_batch import SendBatch

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.errors import BusError
    from bus.kernel.peer.relay import Relay
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import InboundRun
    from bus.model.events import BusReason
    from bus.process.account import Account, Overflow

__all__ = ["AudienceAccount", "BatchRoom", "RelayAccount"]


class BatchRoom:
    """The bound of one destination, and the room that batches have reserved.

    Each counter has one writer at a time. ``_posted`` and ``_posted_bytes`` include the
    reserved room and belong to the holder of the inbox's lock. ``_left`` and
    ``_left_bytes`` are of the messages that no longer count.

    Args:
        messages_max, bytes_max: the bound; one message always fits if none is waiting.
        overflow: the policy for a message that exceeds it (BUS-FLOW-6).
    """

    __slots__ = (
        "_bytes_max",
        "_left",
        "_left_bytes",
        "_messages_max",
        "_posted",
        "_posted_bytes",
        "_send_batches",
        "overflow",
    )

    def __init__(
        self, *, messages_max: int, bytes_max: int, overflow: Overflow
    ) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        self.overflow: Final = overflow
        self._posted = self._posted_bytes = 0
        self._left = self._left_bytes = 0
        # The batches with reserved room; guarded by the inbox's lock.
        self._send_batches: Final[set[SendBatch]] = set()

    @property
    def unread(self) -> int:
        """The number of waiting messages, with the reserved room."""
        return self._posted - self._left

    def error(self, what: str) -> BusFullError:
        """Return the error to raise for lack of room; ``what`` names the receiver."""
        if self.unread >= self._messages_max:
            return BusFullError(what, self._messages_max)
        return BusFullError(what, self._bytes_max, "bytes")

    def full(self, size: int) -> bool:
        """Return True if there is no room for ``size`` bytes; takes no lock."""
        unread = self.unread
        return unread >= self._messages_max or (
            self._posted_bytes - self._left_bytes + size > self._bytes_max
            and unread > 0
        )

    # Under the lock of the inbox.

    def reserve_locked(
        self, send_batch: SendBatch, need: int, most: int, size: int
    ) -> int:
        """Reserve room for ``need`` to ``most`` messages of a batch.

        Each counts as ``size`` bytes. Returns the number of messages, 0 if ``need`` of
        them do not fit.
        """
        given = self._free(most, size)
        if given < need:
            self._reclaim_locked(size)
            given = self._free(most, size)
        if given < need:
            return 0
        self._note_locked(send_batch)
        # Last: no interrupt comes between this and the batch's own count.
        self._posted += given
        self._posted_bytes += given * size
        return given

    def _note_locked(self, send_batch: SendBatch) -> None:
        """Note that a batch is about to get room."""
        self._send_batches.add(send_batch)

    def release_locked(
        self, send_batch: SendBatch, unused: int, unused_bytes: int
    ) -> int:
        """Release the unused room of a batch as it is taken.

        Returns the number of messages dropped before its first one.
        """
        self._posted -= unused
        self._posted_bytes -= unused_bytes
        self._send_batches.discard(send_batch)
        return 0

    def reclaim_locked(self, send_batch: SendBatch) -> None:
        """Reclaim the unused room of a batch."""
        unused, unused_bytes = send_batch.reclaim_locked()
        self._posted -= unused
        self._posted_bytes -= unused_bytes
        if not send_batch.room:  # its sender was interrupted, and may never use it
            self._send_batches.discard(send_batch)

    def _reclaim_locked(self, size: int) -> None:
        """Reclaim the unused room of batches, so that it causes no refusal.

        size: the length of the message that needs room. If bytes are not short, a batch
          without spare room releases nothing, and its payloads need not be counted.
        """
        short = self._posted_bytes - self._left_bytes + size > self._bytes_max
        for send_batch in list(self._send_batches):
            if short or send_batch.spare or not send_batch.room:
                self.reclaim_locked(send_batch)

    def _free(self, most: int, size: int) -> int:
        messages = self._messages_max - self.unread
        length = self._bytes_max - (self._posted_bytes - self._left_bytes)
        return min(most, messages, length // size)


class AudienceAccount(BatchRoom):
    """One bound for all notifications queued for remote subscribers (BUS-FLOW-3).

    If there is no room, the oldest one is dropped. A subscriber of one notifier need
    not subscribe to another, so each notifier has its own gap.

    dropped: the number of those dropped, in all.
    bypassed: the number of those that the threads of their tasks have sent themselves;
      the exchange's lock guards it.
    """

    __slots__ = ("_gaps", "_waiting", "bypassed", "dropped")

    def __init__(self, *, messages_max: int, bytes_max: int) -> None:
        super().__init__(
            messages_max=messages_max, bytes_max=bytes_max, overflow="drop-oldest"
        )
        # All below is guarded by the inbox's lock. The messages and batches in the
        # inbox, oldest first: a dict, from which each can be removed at once.
        self._waiting: Final[dict[Incoming | SendBatch, None]] = {}
        # Weak keys: a notifier that has left sends no notification to carry its gap.
        # Each gap is a list of one number, which changes without a call.
        self._gaps: Final[WeakKeyDictionary[Entry, list[int]]] = WeakKeyDictionary()
        self.dropped: int = 0
        self.bypassed: int = 0

    @property
    def delivered(self) -> int:
        """The number of notifications that have left for the relays or the links."""
        return self._left + self.bypassed

    @property
    def waiting(self) -> tuple[int, int]:
        """The number of waiting notifications, and their length in bytes.

        Without the reserved room; a snapshot, from any thread.
        """
        count, size = self._posted - self._left, self._posted_bytes - self._left_bytes
        for batch in list(self._send_batches):
            payloads = batch.payloads[:]
            count -= batch.room - len(payloads)
            size -= batch.room_bytes - sum(map(len, payloads))
        return count, size

    def admit_locked(
        self, message: Incoming, dropped: list[Incoming | InboundRun]
    ) -> Admission:
        """Put a message on the account; ``dropped`` is as for `Account.admit_locked`.

        The caller holds the inbox's lock.
        """
        size = message._size
        if self.full(size):
            self._reclaim_locked(size)
        while self._waiting and self.full(size):
            self._drop_oldest_locked(dropped)
        self._posted += 1
        self._posted_bytes += size
        self._waiting[message] = None
        return Admission.ACCEPTED

    def has_gap(self, source: Entry) -> bool:
        """Return True if the next notification of a task must report a gap.

        It takes no lock: a gap that arises meanwhile is behind that notification.
        """
        return source in self._gaps

    def _drop_oldest_locked(self, dropped: list[Incoming | InboundRun]) -> None:
        oldest = next(iter(self._waiting))
        if isinstance(oldest, SendBatch):
            if not (oldest.payloads and oldest.room):
                oldest.steady = False
                del self._waiting[oldest]
                return
            whole = Incoming(
                Kind.NOTIFICATION,
                None,
                _source=oldest.source,
                _to=oldest.to,
                _account=self,
            )
            gap = self._gaps.setdefault(whole._source, [0])
            payload, size = oldest.drop_oldest_locked()
            # No call between these lines: see there.
            self._posted -= 1
            self._posted_bytes -= size
            self.dropped += 1
            gap[0] += 1
            whole.payload, whole._size = payload, size
        else:
            whole = replace(oldest)  # a copy with the payload, for the sender's error
            size = whole._size
            gap = self._gaps.setdefault(whole._source, [0])
            # No call between these lines: an interrupt finds all changes or none.
            oldest._dropped = True
            oldest.payload = None
            del self._waiting[oldest]
            self._posted -= 1
            self._posted_bytes -= size
            self.dropped += 1
            gap[0] += 1
        dropped.append(whole)

    def _note_locked(self, send_batch: SendBatch) -> None:
        super()._note_locked(send_batch)
        self._waiting.setdefault(send_batch)

    def reclaim_locked(self, send_batch: SendBatch) -> None:
        """Reclaim the unused room of a batch; see `BatchRoom`."""
        super().reclaim_locked(send_batch)
        if not (send_batch.room or send_batch.posted):
            self._waiting.pop(send_batch, None)  # as there: interrupted

    def release_locked(
        self, send_batch: SendBatch, unused: int, unused_bytes: int
    ) -> int:
        """Take a batch off the account; see `BatchRoom`."""
        super().release_locked(send_batch, unused, unused_bytes)
        self._waiting.pop(send_batch, None)
        self._left += send_batch.room - unused
        self._left_bytes += send_batch.room_bytes - unused_bytes
        if send_batch.room == unused or not self._gaps:
            return 0
        return self._gaps.pop(send_batch.source, [0])[0]

    def extract(self, message: Incoming, lock: _thread.LockType) -> bool:
        """Take a message off the account; return False if it was dropped meanwhile."""
        with lock:
            if message._dropped:
                return False
            del self._waiting[message]
            self._left += 1
            self._left_bytes += message._size
            if self._gaps:
                message.gap = self._gaps.pop(message._source, [0])[0]
            return True


class RelayAccount(BatchRoom):
    """The account of a relay, and its client (`bus.process.mailbox.Client`).

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
        "_moved",
        "_moved_bytes",
        "_refuse",
        "_taken",
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
        # No call from here to the return, as in `Account.admit_locked`.
        self._posted += 1
        self._posted_bytes += size
        if self._in_inbox is not None:
            self._in_inbox += (message,)
        return Admission.ACCEPTED

    def _drop_oldest_locked(self, coming: deque[Incoming]) -> Incoming:
        oldest = coming[0]
        whole = replace(oldest)  # a copy with the payload, for the sender's error
        # No call between these lines: an interrupt finds all changes or none.
        oldest._dropped = True
        oldest.payload = None
        del coming[0]
        self._posted -= 1
        self._posted_bytes -= oldest._size
        return whole

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
        """Report a failed delivery to the asking task."""
        if message._report is not None:
            return  # called again after an interrupt
        if message._trace is not None:
            message._trace.record_failed(error, reason, told=message.wants_reply)
        if message.wants_reply:
            self._refuse(message, error)
        message._report = error  # last

    def on_overflow(self, message: Incoming) -> None:
        """Do nothing: a task under `disconnect` is disconnected in its own process."""

    def on_dropped(self, message: Incoming) -> None:
        """Note that the receiver's policy dropped a message of the remote task."""
        self._taken(message)
        account: Account = message._account
        error = account.error(f"task {message._to.name!r}")
        self.on_undeliverable(message, error, dropped_by(account.overflow))
