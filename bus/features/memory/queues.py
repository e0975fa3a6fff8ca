"""The queues of control blocks: of free ones, and of the messages of one recipient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.features.memory.blocks import END, INDIRECT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.features.memory.blocks import ControlBlock
    from bus.features.memory.region import ControlRegion

__all__ = ["BlockSupply", "FreeQueue", "UserQueue"]


class FreeQueue:
    """Free DCBs or free ICBs (MC-5).

    The blocks are linked by ``next_buffer``, as those of a message are, so that a
    chain is released in one step (MC-20). All state is in the control region.

    Args:
        region: the control region.
        at: the position of the control block of the queue.

    Invariants:
    I1. ``length`` blocks are reached from ``head``, the last of them is ``tail``, and
        its ``next_buffer`` is `END`.
    I2. ``head`` and ``tail`` are `END` if and only if ``length`` is 0.
    """

    __slots__ = ("_control", "_region")

    def __init__(self, region: ControlRegion, at: int) -> None:
        self._region = region
        self._control = region.queue(at)

    def __len__(self) -> int:
        return self._control.length

    def __iter__(self) -> Iterator[int]:
        """Yield the indices of the free blocks, from head to tail."""
        index = self._control.head
        while index != END:
            yield index
            index = self._region.block(index).next_buffer

    def build(self, indices: range) -> None:
        """Make these blocks free, in this order; the queue was never used before."""
        self._control.clear()
        if not indices:
            return
        for index in indices:
            self._region.block(index).next_buffer = index + 1
        self._region.block(indices[-1]).next_buffer = END
        self._control.head = indices[0]
        self._control.tail = indices[-1]
        self._control.length = len(indices)

    def lease(self, count: int) -> list[int]:
        """Take blocks from the head; the caller has checked that there are so many."""
        leased: list[int] = []
        if not count:
            return leased
        index = self._control.head
        for _ in range(count):
            leased.append(index)
            index = self._region.block(index).next_buffer
        self._control.head = index
        if index == END:
            self._control.tail = END
        self._control.length -= count
        return leased

    def release(self, head: int, last: int, count: int) -> None:
        """Append a chain of ``count`` blocks at the tail, in their order.

        Each block gets the next generation (MC-22).
        """
        index = head
        for _ in range(count):
            block = self._region.block(index)
            block.raise_generation()
            index = block.next_buffer
        self._region.block(last).next_buffer = END
        tail = self._control.tail
        if tail == END:
            self._control.head = head
        else:
            self._region.block(tail).next_buffer = head
        self._control.tail = last
        self._control.length += count


class UserQueue:
    """The queue of one recipient (MC-6), with the interface of a deque.

    An entry is the head block of a message, a DCB or an ICB. The heads are linked by
    ``next_message``, and no block is the head of two entries. All state is in the
    control region.

    Args:
        region: the control region.
        at: the position of the control block of the queue.

    Invariants: those of `FreeQueue`, with ``next_message`` as the link.
    """

    __slots__ = ("_control", "_region")

    def __init__(self, region: ControlRegion, at: int) -> None:
        self._region = region
        self._control = region.queue(at)

    def __len__(self) -> int:
        return self._control.length

    def __iter__(self) -> Iterator[ControlBlock]:
        """Yield the head blocks, oldest message first."""
        index = self._control.head
        while index != END:
            block = self._region.block(index)
            yield block
            index = block.next_message

    def build(self) -> None:
        """Make the queue empty; it was never used before."""
        self._control.clear()

    def append(self, block: ControlBlock, /) -> None:
        """Append a message; its head block has no next message yet."""
        head, tail = block.index, self._control.tail
        if tail == END:
            self._control.head = head
        else:
            self._region.block(tail).next_message = head
        self._control.tail = head
        self._control.length += 1

    def popleft(self) -> ControlBlock:
        """Remove the oldest message; return its head block.

        Raises:
            IndexError: there is none.
        """
        head = self._control.head
        if head == END:
            raise IndexError("cannot dequeue: the user queue is empty")
        block = self._region.block(head)
        following = block.next_message
        block.next_message = END
        self._control.head = following
        if following == END:
            self._control.tail = END
        self._control.length -= 1
        return block


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
