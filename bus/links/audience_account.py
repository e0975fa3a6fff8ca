"""`AudienceAccount`: the account of the notifications queued for remote subscribers.

It covers them from their sending until the comm thread takes them. From then on each
process that subscribes has a queue of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from bus.links.batch_room import BatchRoom
from bus.links.send_batch import SendBatch
from bus.message import Incoming, Kind
from bus.threads.account import Admission

if TYPE_CHECKING:
    import _thread

    from bus.core.local.inbound_run import InboundRun
    from bus.core.local.routing_table import Entry

__all__ = ["AudienceAccount"]


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

    def admit_inside(
        self,
        message: Incoming,
        dropped: list[Incoming | InboundRun],
        lock: _thread.LockType,
    ) -> Admission:
        """Put a message on the account, in the comm thread itself."""
        with lock:
            return self.admit_locked(message, dropped)

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
