"""`SlabSet`: the slabs of one arena, made when they are needed, within a limit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from bus.errors import ArenaFullError
from bus.features.memory.blocks import DirectBlock
from bus.features.memory.shared_memory import SharedMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Slab", "SlabSet", "buffer_bytes_for"]


class Slab:
    """Buffers of one size in shared memory; each message takes one of them.

    So the bytes of a message are contiguous, and its recipient needs one view. The DCBs
    are objects of the owner: a recipient needs no more than a `Placement`. Rejected: a
    control region in shared memory, whose generations a recipient compares before and
    after use (MC-22). The user of a view cannot know when to compare.

    Args:
        number: distinguishes the slabs of an arena.
        buffers, buffer_bytes: the number and the size of its buffers.

    Attributes:
        number, buffer_bytes: the same.
        blocks: the DCBs of all its buffers, in the order of their positions.
        free: its free DCBs, as a stack. The last one that became free is leased first,
          since the caches still have its buffer (MC-36).
        memory: its memory, which it closes.
        used_at: when a buffer was taken last, as the arena counts its messages.
        abandoned: the messages that lost recipients may still read; their buffers have
          a holder for ever (MC-32).

    Raises:
        OSError: the system has no room; see `SharedMemory`.
    """

    __slots__ = (
        "abandoned",
        "blocks",
        "buffer_bytes",
        "free",
        "memory",
        "number",
        "used_at",
    )

    def __init__(self, number: int, buffers: int, buffer_bytes: int) -> None:
        self.number: Final = number
        self.buffer_bytes: Final = buffer_bytes
        self.blocks: Final[Sequence[DirectBlock]] = [
            DirectBlock(number, index * buffer_bytes, buffer_bytes)
            for index in range(buffers)
        ]
        self.free: Final[list[DirectBlock]] = [*reversed(self.blocks)]
        self.used_at: int = 0
        self.abandoned: int = 0
        # The last step: memory without a slab would never be closed.
        self.memory: Final = SharedMemory(buffers * buffer_bytes)

    @property
    def size(self) -> int:
        """The bytes of its memory."""
        return self.memory.size

    @property
    def holders(self) -> int:
        """The sum of dup over all its DCBs."""
        return sum(block.dup for block in self.blocks)

    @property
    def is_idle(self) -> bool:
        """True if all its buffers are free."""
        return len(self.free) == len(self.blocks)

    @property
    def is_abandoned(self) -> bool:
        """True if nothing but lost recipients may read it."""
        return bool(self.abandoned) and self.holders == self.abandoned

    def view(self, block: DirectBlock, length: int) -> memoryview:
        """Return a writable view of the first bytes of one of its buffers."""
        return self.memory.memory[block.at : block.at + length]

    def close(self) -> None:
        """Unmap the memory; the mappings of recipients stay."""
        self.memory.close()


_KIB: Final = 2**10
_BUFFER_BYTES_MIN: Final = 64 * _KIB
# Few buffers stay in the caches: a copy into one of 4 buffers of 1 MiB in turn takes
# 25 us, into one of 16 it takes 41. See docs/explanation/shared-memory.md.
_SLAB_BYTES: Final = 4096 * _KIB
_BUFFERS_MAX: Final = 16


class SlabSet:
    """All open slabs of a process, and the choice of one for a message (MC-36).

    Args:
        bytes_max: as for `Arena`.

    Attributes:
        bytes_max: the same.
        by_number: the open slabs, the oldest first.

    Raises:
        ValueError: ``bytes_max`` is less than 64 KiB.
    """

    __slots__ = (
        "_closed",
        "_is_open",
        "_last_slab",
        "_messages",
        "_pid",
        "by_number",
        "bytes_max",
    )

    def __init__(self, bytes_max: int) -> None:
        if bytes_max < _BUFFER_BYTES_MIN:
            raise ValueError(
                f"bytes_max must be >= {_BUFFER_BYTES_MIN}, got {bytes_max}"
            )
        self.bytes_max: Final = bytes_max
        self.by_number: Final[dict[int, Slab]] = {}
        self._pid: Final = os.getpid()
        self._closed: Final[list[int]] = []
        self._is_open = True
        self._last_slab = 0
        self._messages = 0  # counted for `Slab.used_at`

    @property
    def size(self) -> int:
        """The bytes of all open slabs."""
        return sum(slab.size for slab in self.by_number.values())

    def take(self, size: int) -> Slab:
        """Return a slab with a free buffer for a message of ``size`` bytes.

        Raises:
            ArenaFullError, RuntimeError: as `Arena.publish`.
        """
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"the arena belongs to process {self._pid}: a forked child cannot "
                f"publish in it"
            )
        buffer_bytes = buffer_bytes_for(size)
        slab = self._open_slab(buffer_bytes) or self._new_slab(buffer_bytes)
        if slab is None:
            raise ArenaFullError(size, self.bytes_max)
        self._messages += 1
        slab.used_at = self._messages
        return slab

    def _open_slab(self, buffer_bytes: int) -> Slab | None:
        for slab in self.by_number.values():
            if slab.buffer_bytes == buffer_bytes and slab.free:
                return slab
        return None

    def _new_slab(self, buffer_bytes: int) -> Slab | None:
        if not self._is_open or buffer_bytes > self.bytes_max:
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
        idle = [slab for slab in self.by_number.values() if slab.is_idle]
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
            slab = Slab(number, buffers, buffer_bytes)
        except (OSError, MemoryError):
            return self._make(1, buffer_bytes) if buffers > 1 else None
        self._last_slab = number
        self.by_number[number] = slab
        return slab

    def close_abandoned(self) -> None:
        """Close the slabs that nothing but lost recipients may read (MC-32)."""
        for slab in [*self.by_number.values()]:
            if slab.is_abandoned:
                self._close(slab)

    def take_closed(self) -> list[int]:
        """Return the slabs closed since the last call; see `Arena.take_closed`."""
        taken = self._closed.copy()
        self._closed.clear()
        return taken

    def close(self) -> None:
        """Close all slabs, and make no other."""
        self._is_open = False
        for slab in [*self.by_number.values()]:
            self._close(slab)

    def _close(self, slab: Slab) -> None:
        del self.by_number[slab.number]
        self._closed.append(slab.number)
        slab.close()


def buffer_bytes_for(size: int) -> int:
    """Return the size of the buffer that a message of ``size`` bytes takes (MC-36)."""
    return max(_BUFFER_BYTES_MIN, 1 << max(0, size - 1).bit_length())
