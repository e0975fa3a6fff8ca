"""`BatchRoom`: a bound on messages in the comm thread's inbox, with room for batches.

A batch reserves room for several messages at once. So it needs no lock for each of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.errors import BusFullError

if TYPE_CHECKING:
    from bus.links.send_batch import SendBatch
    from bus.threads.account import Overflow

__all__ = ["BatchRoom"]


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
