"""`Arena`: the shared memory in which one process publishes its large messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bus.errors import ArenaFullError, BusFullError, StaleLeaseError
from bus.multicast.slab import Placement, Slab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from bus.multicast.loan import Loan

__all__ = ["Arena", "SlabState"]

_KIB: Final = 2**10
_BUFFER_BYTES_MIN: Final = 64 * _KIB
# With few buffers, those in turn stay in the caches: into one of 4 buffers of 1 MiB a
# copy takes half as long as into one of 16. See docs/explanation/shared-memory.md.
_SLAB_BYTES: Final = 4096 * _KIB
_BUFFERS_MAX: Final = 16
_BUFFERS_MIN: Final = 2


class SlabState(NamedTuple):
    """One slab of an arena at present.

    number: as in `Placement`. buffer_bytes: the size of each buffer.
    buffers, free: all its buffers, and those that hold no message.
    leases: the messages not released yet; each recipient of a message counts.
    retired: True if it takes no more messages.
    """

    number: int
    buffer_bytes: int
    buffers: int
    free: int
    leases: int
    retired: bool


class Arena:
    """Slabs of shared memory, made when they are needed, within a limit of bytes.

    A message goes into the smallest buffers that hold it, of 64 KiB or a power of two
    above. The oldest slab with room takes it, so that few buffers are in turn. If the
    limit leaves no room for another slab, idle slabs are closed for it (MC-36).

    A recipient is a number given by `add_recipient`, such as for one link. It may hold
    a share of the bytes; what it holds beyond that is not published to it (MC-31).

    One thread at a time calls an arena, and no call waits.

    Args:
        bytes_max: the most bytes of all slabs.
        share: the part of them that one recipient may hold, above 0 and at most 1.
        recipients_max: the most recipients at a time.

    Attributes:
        bytes_max: the same.
        stray_releases: releases of a lease that the recipient does not have (MC-21).
    """

    __slots__ = (
        "_closed",
        "_closed_slabs",
        "_free_recipients",
        "_held",
        "_held_max",
        "_last_slab",
        "_recipients_max",
        "_slabs",
        "bytes_max",
        "stray_releases",
    )

    def __init__(
        self, bytes_max: int, *, share: float = 1.0, recipients_max: int = 256
    ) -> None:
        self.bytes_max: Final = bytes_max
        self._held_max: Final = int(share * bytes_max)
        self.stray_releases: int = 0
        self._recipients_max: Final = recipients_max
        self._free_recipients: Final = list(range(recipients_max - 1, -1, -1))
        # The bytes of the buffers that each recipient holds; none for a free number.
        self._held: Final[dict[int, int]] = {}
        # All open slabs by number, so in the order of their age.
        self._slabs: Final[dict[int, Slab]] = {}
        self._last_slab = 0
        self._closed_slabs: Final[list[int]] = []
        self._closed = False

    # Recipients.

    def add_recipient(self) -> int:
        """Return a number for one more recipient.

        Raises:
            BusFullError: there are ``recipients_max``.
        """
        if not self._free_recipients:
            raise BusFullError("the arena", self._recipients_max, "recipients")
        number = self._free_recipients.pop()
        self._held[number] = 0
        return number

    def remove_recipient(self, recipient: int, *, ended: bool) -> int:
        """Release all leases of a recipient whose link is closed; return how many.

        ended: True if its process has ended. If not, it may still read what it has
          leased. So the slabs of these messages are retired: they take no more
          messages, and their memory is given up once the others have released theirs.
          What the recipient has mapped stays its own (MC-32).

        Raises:
            ValueError: there is no such recipient.
        """
        self._check(recipient)
        count = 0
        for slab in list(self._slabs.values()):
            lost = slab.release_all(recipient)
            count += lost
            if lost and not ended:
                slab.retired = True
            self._close_if_retired(slab)
        del self._held[recipient]
        self._free_recipients.append(recipient)
        return count

    def may_hold(self, recipient: int, size: int) -> bool:
        """Return True if a message of ``size`` bytes is within a recipient's share.

        Raises:
            ValueError: there is no such recipient.
        """
        self._check(recipient)
        return self._held[recipient] + _class_of(size) <= self._held_max

    # Messages.

    def publish(self, payload: Buffer, recipients: Sequence[int]) -> list[Placement]:
        """Copy a message into the arena once; return its place for each recipient.

        The caller has asked `may_hold`. For no recipient nothing is done (MC-13).

        Args:
            payload: any contiguous buffer; it is not used after the call.

        Raises:
            ArenaFullError: there is no room, in the arena or in the system.
            ValueError: there is no such recipient.
        """
        for recipient in recipients:
            self._check(recipient)
        if not recipients:
            return []
        view = memoryview(payload).cast("B")
        slab = self._slab_for(len(view), len(recipients))
        placements = slab.publish(view, recipients)
        for recipient in recipients:
            self._held[recipient] += slab.buffer_bytes
        return placements

    def lend(self, size: int) -> Loan:
        """Take a buffer for a message that the owner writes in place (MC-37).

        Raises:
            ArenaFullError: there is no room, in the arena or in the system.
        """
        return self._slab_for(size, 1).lend(size)

    def publish_loan(
        self, loan: Loan, recipients: Sequence[int], length: int | None = None
    ) -> list[Placement]:
        """Publish a loan, which ends; return its place for each recipient.

        The caller has asked `may_hold`. For no recipient the buffer is free again.

        length: of the message, if it is shorter than the buffer of the loan.

        Raises:
            ArenaFullError: there are not enough blocks; the loan is unchanged.
            StaleLeaseError: the loan has ended.
            ValueError: there is no such recipient, or ``length`` exceeds the loan.
        """
        for recipient in recipients:
            self._check(recipient)
        length = loan.size if length is None else length
        if not 0 <= length <= loan.size:
            raise ValueError(f"cannot publish {length} bytes of a loan of {loan.size}")
        slab = self._slabs.get(loan.slab)
        if slab is None:
            raise StaleLeaseError(loan.lease)
        placements = slab.publish_loan(loan, recipients, length)
        for recipient in recipients:
            self._held[recipient] += slab.buffer_bytes
        self._close_if_retired(slab)
        return placements

    def take_back(self, loan: Loan) -> bool:
        """End a loan without publishing it; return False if it has ended."""
        slab = self._slabs.get(loan.slab)
        if slab is None or not slab.take_back(loan):
            self.stray_releases += 1
            return False
        self._close_if_retired(slab)
        return True

    def release(self, recipient: int, slab: int, lease: int) -> bool:
        """End a lease; return False if this recipient does not have it (MC-21).

        Raises:
            ValueError: there is no such recipient.
        """
        self._check(recipient)
        found = self._slabs.get(slab)
        if found is None or not found.pool.release(recipient, lease):
            self.stray_releases += 1
            return False
        self._held[recipient] -= found.buffer_bytes
        self._close_if_retired(found)
        return True

    def fileno(self, slab: int) -> int:
        """Return the descriptor of a slab's memory, to hand it to a recipient.

        Raises:
            ValueError: the slab is closed.
        """
        if slab not in self._slabs:
            raise ValueError(f"slab {slab} of the arena is closed")
        return self._slabs[slab].fileno()

    def take_closed(self) -> list[int]:
        """Return the slabs closed since the last call.

        As long as a recipient has such a slab mapped, the system keeps its memory.
        """
        taken = self._closed_slabs.copy()
        self._closed_slabs.clear()
        return taken

    def close(self) -> None:
        """Give up all memory; what recipients have mapped stays readable (MC-33)."""
        self._closed = True
        for slab in list(self._slabs.values()):
            self._close(slab)

    # Inspection.

    @property
    def size(self) -> int:
        """The bytes of all slabs."""
        return sum(slab.size for slab in self._slabs.values())

    def held(self, recipient: int) -> int:
        """Return the bytes of the buffers that a recipient holds.

        Raises:
            ValueError: there is no such recipient.
        """
        self._check(recipient)
        return self._held[recipient]

    def slabs(self) -> Iterator[SlabState]:
        """Yield the state of each slab, the oldest first."""
        for slab in self._slabs.values():
            census = slab.pool.census()
            yield SlabState(
                slab.number,
                slab.buffer_bytes,
                slab.pool.layout.buffers,
                census.free_direct,
                census.leased,
                slab.retired,
            )

    # Slabs.

    def _slab_for(self, size: int, recipients: int) -> Slab:
        buffer_bytes = _class_of(size)
        for slab in self._slabs.values():
            if slab.buffer_bytes == buffer_bytes and slab.has_room(recipients):
                return slab
        buffers = max(_BUFFERS_MIN, min(_BUFFERS_MAX, _SLAB_BYTES // buffer_bytes))
        for count in (buffers, 1):
            if self._make_room(count * buffer_bytes):
                return self._open(count, buffer_bytes, size)
        raise ArenaFullError(size, self.bytes_max)

    def _make_room(self, size: int) -> bool:
        """Close idle slabs, the oldest first, until ``size`` bytes more are allowed."""
        idle = [slab for slab in self._slabs.values() if slab.idle]
        if self._closed or self.size - sum(map(_size, idle)) + size > self.bytes_max:
            return False
        for slab in idle:
            if self.size + size <= self.bytes_max:
                break
            self._close(slab)
        return True

    def _open(self, buffers: int, buffer_bytes: int, size: int) -> Slab:
        number = self._last_slab + 1
        try:
            slab = Slab(number, buffers, buffer_bytes, self._recipients_max)
        except OSError as error:
            raise ArenaFullError(size, self.bytes_max) from error
        self._last_slab = number
        self._slabs[number] = slab
        return slab

    def _close_if_retired(self, slab: Slab) -> None:
        if slab.retired and slab.idle:
            self._close(slab)

    def _close(self, slab: Slab) -> None:
        del self._slabs[slab.number]
        self._closed_slabs.append(slab.number)
        slab.close()

    def _check(self, recipient: int) -> None:
        if recipient not in self._held:
            raise ValueError(f"the arena has no recipient {recipient}")


def _class_of(size: int) -> int:
    """Return the size of the buffer that a message takes."""
    return max(_BUFFER_BYTES_MIN, 1 << (size - 1).bit_length() if size else 0)


def _size(slab: Slab) -> int:
    return slab.size
