"""`Slab`: shared memory for messages up to one size, and the pool that divides it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bus.multicast.layout import PoolLayout
from bus.multicast.loan import Loan
from bus.multicast.placement import Placement
from bus.multicast.pool import Pool
from bus.multicast.shared_memory import SharedMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = ["Slab"]


class Slab:
    """A pool whose buffers lie in shared memory; each message takes one of them.

    So the bytes of a message are contiguous, and its recipient needs one view. The
    control blocks stay in memory of the owner's own: a recipient needs no more than a
    `Placement`.

    The pool has two users more than there are recipients: the owner while it writes a
    loan, and the lost recipients that may still read. The latter release nothing.
    Rejected: control blocks in shared memory, whose generations a recipient compares
    before and after use (MC-22). The user of a view cannot know when to compare.

    Args:
        number: distinguishes the slabs of an arena.
        buffers, buffer_bytes: the number and the size of its buffers.
        recipients: the number of recipients, which are numbered from 0.

    Attributes:
        number, buffer_bytes: the same.
        memory: its memory, which it closes.
        used_at: when a buffer was taken last, as the arena counts its messages.
        abandoned: the messages that lost recipients may still read.

    Raises:
        OSError: the system has no room; see `SharedMemory`.
    """

    __slots__ = (
        "_lost",
        "_writer",
        "abandoned",
        "buffer_bytes",
        "memory",
        "number",
        "pool",
        "used_at",
    )

    def __init__(
        self, number: int, buffers: int, buffer_bytes: int, recipients: int
    ) -> None:
        self._writer: Final = recipients
        self._lost: Final = recipients + 1
        users = recipients + 2
        # An ICB for each user of each buffer, so that none is borrowed (MC-14).
        layout = PoolLayout(buffers, buffer_bytes, buffers * users, users)
        control = bytearray(layout.control_bytes)
        self.number: Final = number
        self.buffer_bytes: Final = buffer_bytes
        self.used_at: int = 0
        self.abandoned: int = 0
        self.memory: Final = SharedMemory(layout.data_bytes)
        try:
            self.pool: Final = Pool(layout, control, self.memory.memory)
        except BaseException:
            self.memory.close()
            raise

    @property
    def size(self) -> int:
        """The bytes of its memory."""
        return self.memory.size

    @property
    def free(self) -> int:
        """The number of buffers without a message."""
        return self.pool.free_buffers

    @property
    def loans(self) -> int:
        """The number of messages that the owner writes in place."""
        return self.pool.holdings(self._writer).leased

    @property
    def is_idle(self) -> bool:
        """True if all its buffers are free."""
        return self.free == self.pool.layout.buffers

    @property
    def is_abandoned(self) -> bool:
        """True if nothing but lost recipients may read it."""
        return bool(self.abandoned) and self.pool.census().leased == self.abandoned

    def publish(
        self, payload: Buffer, recipients: Sequence[int]
    ) -> dict[int, Placement]:
        """Copy a message into a buffer; return its location for each recipient.

        Raises:
            ArenaFullError: there is no room.
        """
        self.pool.publish(payload, recipients)
        return {each: self._lease(each) for each in recipients}

    def lend(self, size: int) -> Loan:
        """Take a buffer for a message that the owner writes in place (MC-37).

        Raises:
            ArenaFullError: there is no room.
        """
        leased = self.pool.reserve(size, self._writer)
        [piece] = leased.pieces
        buffer = self.pool.data.view(piece)
        return Loan(self.number, leased.lease, size, buffer)

    def share(
        self, loan: Loan, recipients: Sequence[int], length: int
    ) -> dict[int, Placement]:
        """Publish the first bytes of a loan, which goes on; return as `publish`.

        Raises:
            StaleLeaseError: the loan has ended.
        """
        self.pool.share(self._writer, loan.lease, recipients)
        return {each: self._lease(each)._replace(length=length) for each in recipients}

    def take_back(self, loan: Loan) -> bool:
        """End a loan; return False if it has ended."""
        if not self.pool.release(self._writer, loan.lease):
            return False
        with suppress(BufferError):  # a view made from it is left
            loan.buffer.release()
        return True

    def release_all(self, recipient: int) -> int:
        """Release all leases of a recipient; return how many."""
        return self.pool.release_all(recipient)

    def abandon(self, recipient: int) -> int:
        """Keep for ever what a lost recipient may still read; return how many."""
        leases = self.pool.leases(recipient)
        for lease in leases:
            self.pool.transfer(recipient, lease, self._lost)
        self.abandoned += len(leases)
        return len(leases)

    def _lease(self, recipient: int) -> Placement:
        # The queue of the recipient held this message alone: each is leased at once.
        leased = self.pool.dequeue(recipient)
        assert leased is not None
        [piece] = leased.pieces
        at = self.pool.layout.buffer_at(piece.buffer) + piece.offset
        return Placement(self.number, leased.lease, at, piece.length)

    def close(self) -> None:
        """Unmap the memory; the mappings of recipients stay."""
        self.pool.close()
        self.memory.close()
