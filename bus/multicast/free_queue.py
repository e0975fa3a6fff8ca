"""`FreeQueue`: the free control blocks of one kind, first in, first out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.multicast.control_block import END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.multicast.control_region import ControlRegion

__all__ = ["FreeQueue"]


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
