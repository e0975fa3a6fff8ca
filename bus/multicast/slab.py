"""`Slab`: shared memory for messages up to one size, and the pool that divides it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from bus.multicast.layout import PoolLayout
from bus.multicast.loan import Loan
from bus.multicast.pool import Pool
from bus.multicast.shared_memory import SharedMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = ["Placement", "Slab"]

# With more recipients on average, messages borrow buffers as ICBs (MC-14).
_ICBS_PER_BUFFER: Final = 8


class Placement(NamedTuple):
    """The location of a message for one recipient, and its lease.

    slab, lease: together they name the lease, and are never used twice by an arena.
    at, length: the bytes of the message in the memory of the slab.
    """

    slab: int
    lease: int
    at: int
    length: int


class Slab:
    """A pool whose buffers lie in shared memory; each message takes one of them.

    So the bytes of a message are contiguous, and its recipient needs one view. The
    control blocks stay in memory of the owner's own: a `Placement` says all that a
    recipient needs.

    Rejected: control blocks in shared memory, whose generations a recipient compares
    before and after use (MC-22). A view would have to be checked after each use, which
    its user does not know of. Instead a slab is retired if it may still be read by a
    recipient whose link is lost.

    Args:
        number: distinguishes the slabs of an arena.
        buffers, buffer_bytes: the number and the size of its buffers.
        recipients: the number of recipients, which are numbered from 0.

    Attributes:
        number, buffer_bytes: the same.
        retired: True if it takes no more messages.

    Raises:
        OSError: the system has no room; see `SharedMemory`.
    """

    __slots__ = ("_memory", "_writer", "buffer_bytes", "number", "pool", "retired")

    def __init__(
        self, number: int, buffers: int, buffer_bytes: int, recipients: int
    ) -> None:
        # Enough for one message to all, however few buffers there are.
        icbs = _ICBS_PER_BUFFER * buffers + recipients
        # One more user: the owner itself, while it writes a loan.
        layout = PoolLayout(buffers, buffer_bytes, icbs, recipients + 1)
        self.number: Final = number
        self.buffer_bytes: Final = buffer_bytes
        self.retired: bool = False
        self._writer: Final = recipients
        self._memory: Final = SharedMemory(layout.data_bytes)
        self.pool: Final = Pool(
            layout, bytearray(layout.control_bytes), self._memory.memory
        )

    @property
    def size(self) -> int:
        """The bytes of its memory."""
        return self._memory.size

    @property
    def idle(self) -> bool:
        """True if all its buffers are free."""
        census = self.pool.census()
        return census.free_direct == self.pool.layout.buffers

    def fileno(self) -> int:
        """Return the descriptor of the memory, for a recipient; it stays the slab's."""
        return self._memory.fileno()

    def has_room(self, recipients: int) -> bool:
        """Return True if it can take one more message for that many recipients."""
        return not self.retired and self.pool.has_room(1, recipients)

    def publish(self, payload: Buffer, recipients: Sequence[int]) -> list[Placement]:
        """Copy a message into a buffer; return its place for each recipient, in order.

        Raises:
            ArenaFullError: there is no room.
        """
        self.pool.publish(payload, recipients)
        return [self._lease(recipient) for recipient in recipients]

    def lend(self, size: int) -> Loan:
        """Take a buffer for a message that the owner writes in place (MC-37).

        Raises:
            ArenaFullError: there is no room.
        """
        leased = self.pool.reserve(size, self._writer)
        [piece] = leased.pieces
        buffer = self.pool.data.view(piece)
        return Loan(self.number, leased.lease, size, buffer)

    def publish_loan(
        self, loan: Loan, recipients: Sequence[int], length: int
    ) -> list[Placement]:
        """Publish the first bytes of a loan, which ends; return as `publish`.

        Raises:
            ArenaFullError, StaleLeaseError: as `Pool.share`; the loan is unchanged.
        """
        self.pool.share(self._writer, loan.lease, recipients)
        self.take_back(loan)
        return [
            self._lease(recipient)._replace(length=length) for recipient in recipients
        ]

    def take_back(self, loan: Loan) -> bool:
        """End a loan without publishing it; return False if it has ended."""
        if not self.pool.release(self._writer, loan.lease):
            return False
        with suppress(BufferError):  # a view made from it is left
            loan.buffer.release()
        return True

    def _lease(self, recipient: int) -> Placement:
        # The queue of the recipient held this message alone: each is leased at once.
        leased = self.pool.dequeue(recipient)
        assert leased is not None
        [piece] = leased.pieces
        at = self.pool.layout.buffer_at(piece.buffer) + piece.offset
        return Placement(self.number, leased.lease, at, piece.length)

    def release_all(self, recipient: int) -> int:
        """Release all leases of a recipient; return how many."""
        return self.pool.release_all(recipient)

    def close(self) -> None:
        """Give up the memory; the mappings of recipients stay."""
        self.pool.close()
        self._memory.close()
