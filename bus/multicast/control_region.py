"""`ControlRegion`: the control blocks of a pool, by index.

The owner of the pool has a writable region. A recipient may map it read-only, to check
the generations of its descriptors (MC-22).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.multicast.direct_control_block import DirectControlBlock
from bus.multicast.indirect_control_block import IndirectControlBlock
from bus.multicast.queue_control_block import QueueControlBlock

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from bus.multicast.control_block import ControlBlock
    from bus.multicast.layout import PoolLayout

__all__ = ["ControlRegion"]


class ControlRegion:
    """The first ``layout.control_bytes`` bytes of a buffer, as control blocks.

    Raises:
        ValueError: the buffer is too small.
    """

    __slots__ = ("_direct", "_indirect", "_memory", "layout")

    def __init__(self, layout: PoolLayout, memory: Buffer) -> None:
        view = memoryview(memory).cast("B")
        if len(view) < layout.control_bytes:
            raise ValueError(
                f"cannot use a control region of {len(view)} bytes: this layout needs "
                f"{layout.control_bytes}"
            )
        self.layout: PoolLayout = layout
        self._memory = view[: layout.control_bytes]
        # Made once: a publish uses dozens of blocks.
        self._direct = [
            DirectControlBlock(self._memory, layout.block_at(index), index)
            for index in range(layout.buffers)
        ]
        self._indirect = [
            IndirectControlBlock(self._memory, layout.block_at(index), index)
            for index in range(layout.blocks)
        ]

    def clear(self) -> None:
        """Write zeros; only before the first use."""
        self._memory[:] = bytes(len(self._memory))

    def block(self, index: int) -> ControlBlock:
        """Return a block of either kind."""
        return self._indirect[index]

    def direct(self, index: int) -> DirectControlBlock:
        """Return a block as a DCB."""
        return self._direct[index]

    def indirect(self, index: int) -> IndirectControlBlock:
        """Return a block as an ICB; any index, since a DCB may serve as one."""
        return self._indirect[index]

    def queue(self, at: int) -> QueueControlBlock:
        """Return the queue control block at a position of the layout."""
        return QueueControlBlock(self._memory, at)

    def close(self) -> None:
        """Release the buffer; no block may be used any more."""
        self._memory.release()
