"""`PoolLayout`: the positions of buffers and control blocks in the two regions.

The data region is an array of buffers of one size. The control region holds the queue
control blocks first, then the direct control blocks (DCBs), then the indirect ones
(ICBs)::

    control region   | queues: 2 + users | DCBs: one per buffer | ICBs |
    data region      | buffer 0 | buffer 1 | ... |

Every position is a function of an index, so no pointer into the data is stored (MC-2).
The control region can be mapped and read without the data region (MC-1).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from bus.multicast.control_block import BLOCK_BYTES, END
from bus.multicast.queue_control_block import QUEUE_BYTES

__all__ = ["PoolLayout"]

_FREE_DIRECT: Final = 0
_FREE_INDIRECT: Final = 1
_USERS: Final = 2
_BUFFER_BYTES_MAX: Final = 2**32 - 1  # a length is an unsigned 32-bit number


class PoolLayout(Struct, frozen=True):
    """The sizes of a pool, and the positions that follow from them.

    buffers: the number of buffers, and of DCBs.
    buffer_bytes: the size of each buffer; for mappings of single buffers, a multiple
      of the page size.
    icbs: the number of ICBs. May be 0: then DCBs are borrowed in their place (MC-14).
    users: the number of user queues, one per recipient.

    Raises:
        ValueError: a number is out of range.
    """

    buffers: int
    buffer_bytes: int
    icbs: int
    users: int

    def __post_init__(self) -> None:
        for name, least in (("buffers", 1), ("buffer_bytes", 1), ("icbs", 0)):
            _check_least(name, getattr(self, name), least)
        _check_least("users", self.users, 1)
        if self.buffer_bytes > _BUFFER_BYTES_MAX:
            got = self.buffer_bytes
            raise ValueError(f"buffer_bytes must be <= {_BUFFER_BYTES_MAX}, got {got}")
        if self.blocks > END:
            raise ValueError(f"buffers + icbs must be <= {END}, got {self.blocks}")

    @property
    def blocks(self) -> int:
        """The number of control blocks; DCBs have the lower indices."""
        return self.buffers + self.icbs

    @property
    def data_bytes(self) -> int:
        """The size of the data region."""
        return self.buffers * self.buffer_bytes

    @property
    def control_bytes(self) -> int:
        """The size of the control region."""
        return self.block_at(self.blocks)

    @property
    def free_direct_at(self) -> int:
        """The position of the control block of the free DCB queue."""
        return _FREE_DIRECT * QUEUE_BYTES

    @property
    def free_indirect_at(self) -> int:
        """The position of the control block of the free ICB queue."""
        return _FREE_INDIRECT * QUEUE_BYTES

    def user_queue_at(self, user: int) -> int:
        """Return the position of the control block of a user queue."""
        return (_USERS + user) * QUEUE_BYTES

    def block_at(self, index: int) -> int:
        """Return the position of a control block in the control region."""
        return self.user_queue_at(self.users) + index * BLOCK_BYTES

    def buffer_at(self, index: int) -> int:
        """Return the position of the buffer of a DCB in the data region (MC-2)."""
        return index * self.buffer_bytes

    def is_direct(self, index: int) -> bool:
        """Return True if a block was built as a DCB, whatever it serves as (MC-15)."""
        return index < self.buffers

    def buffers_for(self, size: int) -> int:
        """Return how many buffers a message of ``size`` bytes takes (MC-7).

        An empty message takes one as well: it needs a block that stands for it.
        """
        return max(1, -(-size // self.buffer_bytes))


def _check_least(name: str, got: int, least: int) -> None:
    if got < least:
        raise ValueError(f"{name} must be >= {least}, got {got}")
