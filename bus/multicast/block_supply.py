"""`BlockSupply`: the two free queues, and the DCBs borrowed as ICBs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.multicast.control_block import INDIRECT
from bus.multicast.free_queue import FreeQueue

if TYPE_CHECKING:
    from bus.multicast.control_region import ControlRegion

__all__ = ["BlockSupply"]


class BlockSupply:
    """All free blocks of a pool: a block is leased here, and returned here.

    free_direct, free_indirect: the free DCBs and the free ICBs.
    borrowed: how many DCBs serve as ICBs at present (MC-14).
    """

    __slots__ = ("_region", "borrowed", "free_direct", "free_indirect")

    def __init__(self, region: ControlRegion) -> None:
        layout = region.layout
        self._region = region
        self.free_direct: FreeQueue = FreeQueue(region, layout.free_direct_at)
        self.free_indirect: FreeQueue = FreeQueue(region, layout.free_indirect_at)
        self.borrowed: int = 0

    def build(self) -> None:
        """Make all blocks free; the region was never used before."""
        layout = self._region.layout
        self.free_direct.build(range(layout.buffers))
        self.free_indirect.build(range(layout.buffers, layout.blocks))
        for index in range(layout.buffers, layout.blocks):
            self._region.block(index).dup = INDIRECT

    def has(self, direct: int, indirect: int) -> bool:
        """Return True if so many blocks can be leased at once."""
        lacking = max(0, indirect - len(self.free_indirect))
        return direct + lacking <= len(self.free_direct)

    def lease(self, direct: int, indirect: int) -> tuple[list[int], list[int]] | None:
        """Take so many DCBs and ICBs, or none at all if there are not enough (MC-16).

        If ICBs are short, free DCBs serve in their place (MC-14).
        """
        if not self.has(direct, indirect):
            return None
        chain = self.free_direct.lease(direct)
        own = min(indirect, len(self.free_indirect))
        borrowed = indirect - own
        self.borrowed += borrowed
        indirect_blocks = self.free_indirect.lease(own) + self.free_direct.lease(
            borrowed
        )
        return chain, indirect_blocks

    def release_chain(self, head: int, last: int, count: int) -> None:
        """Return a chain of DCBs in one step (MC-20)."""
        self.free_direct.release(head, last, count)

    def release(self, index: int) -> None:
        """Return one block to the queue that it was built into (MC-15).

        The index decides, not the dup code: a borrowed DCB has the code of an ICB, and
        among the ICBs its buffer would be lost.
        """
        if not self._region.layout.is_direct(index):
            self.free_indirect.release(index, index, 1)
            return
        block = self._region.block(index)
        if block.is_indirect:
            self.borrowed -= 1
            block.dup = 0
        self.free_direct.release(index, index, 1)
