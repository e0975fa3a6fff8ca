"""`Arena`: the shared memory in which one process publishes its large messages."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from bus.errors import ArenaFullError, BusFullError, StaleLeaseError
from bus.multicast.slab import Slab

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

    from bus.multicast.loan import Loan
    from bus.multicast.placement import Placement
    from bus.multicast.shared_memory import SharedMemory

__all__ = ["Arena", "SlabState"]

_KIB: Final = 2**10
_BUFFER_BYTES_MIN: Final = 64 * _KIB
# With few buffers in turn, they stay in the caches: a copy into one of 4 buffers of
# 1 MiB takes 25 us, into one of 16 it takes 41. See docs/explanation/shared-memory.md.
_SLAB_BYTES: Final = 4096 * _KIB
_BUFFERS_MAX: Final = 16


class SlabState(NamedTuple):
    """One slab of an arena at present.

    number: as in `Placement`. buffer_bytes: the size of each buffer.
    buffers, free: all its buffers, and those without a message.
    leases: the messages not released yet; each recipient of a message counts.
    abandoned: those among them that a lost recipient may still read.
    loans: those among them that the owner still writes (MC-37).
    """

    number: int
    buffer_bytes: int
    buffers: int
    free: int
    leases: int
    abandoned: int
    loans: int


class Arena:
    """Slabs of shared memory, made when they are needed, within a limit of bytes.

    A message goes into the smallest buffer that holds it, of 64 KiB or a power of two
    above. The oldest slab with room takes it, so that few buffers are in turn. If the
    limit leaves no room for another slab, idle slabs are closed for it (MC-36).

    A recipient is a number given by `add_recipient`, such as for one link. It may hold
    a share of the bytes (MC-31).

    One thread at a time calls an arena, in the process that made it. No call waits for
    a recipient; to make or to close a slab takes up to 0.3 ms a MiB.

    Args:
        bytes_max: the most bytes of all open slabs. A message has at most the greatest
          power of two within it.
        share: the part of them that one recipient may hold.
        recipients_max: the most recipients at a time.

    Attributes:
        bytes_max: the same.
        held_max: the most bytes that one recipient may hold.
        stray_releases: releases of a lease that the recipient does not have (MC-21).

    Raises:
        ValueError: ``bytes_max`` is less than 64 KiB, ``share`` is not above 0 and at
          most 1, or ``recipients_max`` is less than 1.
    """

    __slots__ = (
        "_closed_slabs",
        "_free_recipients",
        "_held",
        "_last_slab",
        "_messages",
        "_pid",
        "_recipients_max",
        "_slabs",
        "bytes_max",
        "held_max",
        "stray_releases",
    )

    def __init__(
        self, bytes_max: int, *, share: float = 1.0, recipients_max: int = 64
    ) -> None:
        if bytes_max < _BUFFER_BYTES_MIN:
            raise ValueError(
                f"bytes_max must be >= {_BUFFER_BYTES_MIN}, got {bytes_max}"
            )
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {share}")
        if recipients_max < 1:
            raise ValueError(f"recipients_max must be >= 1, got {recipients_max}")
        self.bytes_max: Final = bytes_max
        self.stray_releases: int = 0
        self.held_max: Final = int(share * bytes_max)
        self._recipients_max: Final = recipients_max
        self._pid: Final = os.getpid()
        # First in, first out: a late call for a lost recipient finds no new one soon.
        self._free_recipients: Final = deque(range(recipients_max))
        # The bytes of the buffers that each recipient holds; none for a free number.
        self._held: Final[dict[int, int]] = {}
        # All open slabs by number, so in the order of their age.
        self._slabs: Final[dict[int, Slab]] = {}
        self._closed_slabs: Final[list[int]] = []
        self._last_slab = 0
        self._messages = 0  # counted for `Slab.used_at`

    # Recipients.

    def add_recipient(self) -> int:
        """Return a number for one more recipient.

        Raises:
            BusFullError: there are ``recipients_max``.
        """
        if not self._free_recipients:
            raise BusFullError("the arena", self._recipients_max, "recipients")
        number = self._free_recipients.popleft()
        self._held[number] = 0
        return number

    def remove_recipient(self, recipient: int, *, process_ended: bool) -> int:
        """Release all leases of a recipient whose link is closed; return how many.

        process_ended: False if its process may still read what it has leased. Then
          these buffers are never used again, and their slab is closed once no other
          message is in it (MC-32).

        Raises:
            ValueError: there is no such recipient.
        """
        self._check(recipient)
        count = 0
        for slab in list(self._slabs.values()):
            if not process_ended:
                count += slab.abandon(recipient)
            count += slab.release_all(recipient)
            self._close_if_abandoned(slab)
        del self._held[recipient]
        self._free_recipients.append(recipient)
        return count

    def is_within_share(self, recipient: int, size: int) -> bool:
        """Return True if a recipient may hold one more message of ``size`` bytes.

        Raises:
            ValueError: there is no such recipient.
        """
        return self.held_bytes(recipient) + _buffer_bytes_for(size) <= self.held_max

    def held_bytes(self, recipient: int) -> int:
        """Return the bytes of the buffers that a recipient holds.

        Raises:
            ValueError: there is no such recipient.
        """
        self._check(recipient)
        return self._held[recipient]

    # Messages.

    def publish(
        self, payload: Buffer, recipients: Iterable[int]
    ) -> dict[int, Placement]:
        """Copy a message into the arena once; return its location for each recipient.

        A recipient is missing in the result if the message would exceed its share
        (MC-31). For no recipient nothing is done (MC-13).

        Args:
            payload: any contiguous buffer; it is not used after the call.
            recipients: their numbers; a number that is repeated counts once.

        Raises:
            ArenaFullError: there is no room, in the arena or in the system. No message
              and no lease is changed.
            RuntimeError: this is a forked child of the owner.
            ValueError: there is no such recipient, or the arena is closed.
        """
        view = memoryview(payload).cast("B")
        if _buffer_bytes_for(len(view)) > self.bytes_max:
            # MC-30. It exceeds each share, too, but no recipient could ever get it.
            raise ArenaFullError(len(view), self.bytes_max)
        named = self._within_share(recipients, len(view))
        if not named:
            return {}
        slab = self._slab_for(len(view))
        placements = slab.publish(view, named)
        self._charge(named, slab)
        return placements

    def lend(self, size: int) -> Loan:
        """Take a buffer for a message that the owner writes in place (MC-37).

        Raises:
            ArenaFullError, RuntimeError: as `publish`.
        """
        return self._slab_for(size).lend(size)

    def share(
        self, loan: Loan, recipients: Iterable[int], length: int | None = None
    ) -> dict[int, Placement]:
        """Publish the bytes of a loan, which goes on; return as `publish`.

        The owner must not write these bytes from now on.

        length: of the message, if it is shorter than the buffer of the loan.

        Raises:
            StaleLeaseError: the loan has ended.
            ValueError: there is no such recipient, or ``length`` exceeds the loan.
        """
        length = loan.size if length is None else length
        if not 0 <= length <= loan.size:
            raise ValueError(f"cannot publish {length} bytes of a loan of {loan.size}")
        named = self._within_share(recipients, loan.size)
        slab = self._slabs.get(loan.slab)
        if slab is None:
            raise StaleLeaseError(loan.lease)
        placements = slab.share(loan, named, length)
        self._charge(named, slab)
        return placements

    def take_back(self, loan: Loan) -> bool:
        """End a loan; return False if it has ended.

        Its recipients keep what was shared. Without any, the buffer is free again.
        """
        slab = self._slabs.get(loan.slab)
        if slab is None or not slab.take_back(loan):
            self.stray_releases += 1
            return False
        self._close_if_abandoned(slab)
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
        self._close_if_abandoned(found)
        return True

    def memory(self, slab: int) -> SharedMemory:
        """Return the memory of a slab, to offer it to a recipient.

        Raises:
            ValueError: the slab is closed.
        """
        if slab not in self._slabs:
            raise ValueError(f"slab {slab} of the arena is closed")
        return self._slabs[slab].memory

    def take_closed(self) -> list[int]:
        """Return the slabs closed since the last call.

        As long as a recipient has such a slab mapped, the system keeps its memory.
        """
        taken = self._closed_slabs.copy()
        self._closed_slabs.clear()
        return taken

    def close(self) -> None:
        """Close all slabs, and forget all recipients.

        Messages that recipients have mapped stay readable (MC-33).
        """
        self._free_recipients.clear()
        self._held.clear()
        for slab in list(self._slabs.values()):
            self._close(slab)

    # Inspection.

    @property
    def size(self) -> int:
        """The bytes of all open slabs."""
        return sum(slab.size for slab in self._slabs.values())

    def slabs(self) -> Iterator[SlabState]:
        """Yield the state of each slab, the oldest first."""
        for slab in self._slabs.values():
            yield SlabState(
                slab.number,
                slab.buffer_bytes,
                slab.pool.layout.buffers,
                slab.free,
                slab.pool.census().leased,
                slab.abandoned,
                slab.loans,
            )

    # Slabs.

    def _slab_for(self, size: int) -> Slab:
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"the arena belongs to process {self._pid}: a forked child cannot "
                f"publish in it"
            )
        buffer_bytes = _buffer_bytes_for(size)
        slab = self._open_slab(buffer_bytes) or self._new_slab(buffer_bytes)
        if slab is None:
            raise ArenaFullError(size, self.bytes_max)
        self._messages += 1
        slab.used_at = self._messages
        return slab

    def _open_slab(self, buffer_bytes: int) -> Slab | None:
        for slab in self._slabs.values():
            if slab.buffer_bytes == buffer_bytes and slab.free:
                return slab
        return None

    def _new_slab(self, buffer_bytes: int) -> Slab | None:
        if buffer_bytes > self.bytes_max:
            return None
        best = max(1, min(_BUFFERS_MAX, _SLAB_BYTES // buffer_bytes))
        # A smaller slab is better than to close an idle one, which may be needed soon.
        for buffers in (best, 1):
            if self.size + buffers * buffer_bytes <= self.bytes_max:
                return self._make(buffers, buffer_bytes)
        for buffers in (best, 1):
            if self._make_room(buffers * buffer_bytes):
                return self._make(buffers, buffer_bytes)
        return None

    def _make_room(self, size: int) -> bool:
        """Close idle slabs, the least recently used first, for ``size`` bytes more."""
        idle = [slab for slab in self._slabs.values() if slab.is_idle]
        idle.sort(key=lambda slab: slab.used_at)
        open_bytes = self.size
        if open_bytes - sum(slab.size for slab in idle) + size > self.bytes_max:
            return False
        for slab in idle:
            if open_bytes + size <= self.bytes_max:
                break
            open_bytes -= slab.size
            self._close(slab)
        return True

    def _make(self, buffers: int, buffer_bytes: int) -> Slab | None:
        """Return a new slab, perhaps of one buffer; None if the system has no room."""
        number = self._last_slab + 1
        try:
            slab = Slab(number, buffers, buffer_bytes, self._recipients_max)
        except (OSError, MemoryError):
            return self._make(1, buffer_bytes) if buffers > 1 else None
        self._last_slab = number
        self._slabs[number] = slab
        return slab

    def _close_if_abandoned(self, slab: Slab) -> None:
        if slab.is_abandoned:
            self._close(slab)

    def _close(self, slab: Slab) -> None:
        del self._slabs[slab.number]
        self._closed_slabs.append(slab.number)
        slab.close()

    # Recipients.

    def _within_share(self, recipients: Iterable[int], size: int) -> list[int]:
        named = dict.fromkeys(recipients)
        return [each for each in named if self.is_within_share(each, size)]

    def _charge(self, recipients: Iterable[int], slab: Slab) -> None:
        for recipient in recipients:
            self._held[recipient] += slab.buffer_bytes

    def _check(self, recipient: int) -> None:
        if recipient not in self._held:
            raise ValueError(f"the arena has no recipient {recipient}")


def _buffer_bytes_for(size: int) -> int:
    return max(_BUFFER_BYTES_MIN, 1 << max(0, size - 1).bit_length())
