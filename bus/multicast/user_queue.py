"""`UserQueue`: the messages that wait for one recipient, first in, first out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.multicast.control_block import END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.multicast.control_region import ControlRegion

__all__ = ["UserQueue"]


class UserQueue:
    """The queue of one recipient (MC-6).

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

    def __iter__(self) -> Iterator[int]:
        """Yield the head blocks, oldest message first."""
        index = self._control.head
        while index != END:
            yield index
            index = self._region.block(index).next_message

    def build(self) -> None:
        """Make the queue empty; it was never used before."""
        self._control.clear()

    def enqueue(self, head: int) -> None:
        """Append a message; its head block has no next message yet."""
        tail = self._control.tail
        if tail == END:
            self._control.head = head
        else:
            self._region.block(tail).next_message = head
        self._control.tail = head
        self._control.length += 1

    def dequeue(self) -> int | None:
        """Remove the oldest message; return its head block, None if there is none."""
        head = self._control.head
        if head == END:
            return None
        block = self._region.block(head)
        following = block.next_message
        block.next_message = END
        self._control.head = following
        if following == END:
            self._control.tail = END
        self._control.length -= 1
        return head
