"""`Slab`: shared memory for messages up to one size, divided into buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.multicast.shared_memory import SharedMemory
from bus.multicast.slab_buffer import SlabBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Slab"]


class Slab:
    """Buffers of one size in shared memory; each message takes one of them.

    So the bytes of a message are contiguous, and its recipient needs one view. The
    holders of a buffer are counted by a Python object of the owner: a recipient needs
    no more than a `Placement`. Rejected: the control blocks of a `Pool`. Only the owner
    reads them, and they cost 11 us of a recipient's 15 us. Rejected as well: control
    blocks in shared memory, whose generations a recipient compares before and after use
    (MC-22). The user of a view cannot know when to compare.

    Args:
        number: distinguishes the slabs of an arena.
        buffers, buffer_bytes: the number and the size of its buffers.

    Attributes:
        number, buffer_bytes: the same.
        buffers: all its buffers, in the order of their places.
        free: a stack of those without a holder. The last one that became free is taken
          first, since the caches still have it (MC-36).
        memory: its memory, which it closes.
        used_at: when a buffer was taken last, as the arena counts its messages.
        abandoned: the messages that lost recipients may still read; their buffers have
          a holder for ever (MC-32).

    Raises:
        OSError: the system has no room; see `SharedMemory`.
    """

    __slots__ = (
        "abandoned",
        "buffer_bytes",
        "buffers",
        "free",
        "memory",
        "number",
        "used_at",
    )

    def __init__(self, number: int, buffers: int, buffer_bytes: int) -> None:
        self.number: Final = number
        self.buffer_bytes: Final = buffer_bytes
        self.buffers: Final[Sequence[SlabBuffer]] = [
            SlabBuffer(number, index * buffer_bytes, buffer_bytes)
            for index in range(buffers)
        ]
        self.free: Final[list[SlabBuffer]] = [*reversed(self.buffers)]
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
        """The number of holders of all buffers."""
        return sum(buffer.holders for buffer in self.buffers)

    @property
    def is_idle(self) -> bool:
        """True if all its buffers are free."""
        return len(self.free) == len(self.buffers)

    @property
    def is_abandoned(self) -> bool:
        """True if nothing but lost recipients may read it."""
        return bool(self.abandoned) and self.holders == self.abandoned

    def view(self, buffer: SlabBuffer, length: int) -> memoryview:
        """Return a writable view of the first bytes of one of its buffers."""
        return self.memory.memory[buffer.at : buffer.at + length]

    def close(self) -> None:
        """Unmap the memory; the mappings of recipients stay."""
        self.memory.close()
