"""`QueueControlBlock`: the head and the tail of a queue, in the control region.

::

     0  head      u32    the first block; `END` if the queue is empty
     4  tail      u32    the last block; `END` if the queue is empty
     8  length    u32    the number of entries
    12            u32    unused
"""

from __future__ import annotations

from typing import Final

from bus.multicast.control_block import END
from bus.multicast.field import Field

__all__ = ["QUEUE_BYTES", "QueueControlBlock"]

QUEUE_BYTES: Final = 16


class QueueControlBlock:
    """The control block of a free queue or a user queue, at its position (MC-5, MC-6).

    The length is ours; the source has the two ends only.
    """

    __slots__ = ("at", "region")

    head = Field(0)
    tail = Field(4)
    length = Field(8)

    def __init__(self, region: memoryview, at: int) -> None:
        self.region: memoryview = region
        self.at: int = at

    def clear(self) -> None:
        """Make the queue empty."""
        self.head = self.tail = END
        self.length = 0
