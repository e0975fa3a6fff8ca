"""`PoolLayout`: the positions of buffers and control blocks in the two regions.

The data region is an array of buffers of one size. The control region holds the queue
control blocks first, then the direct control blocks (DCBs), then the indirect ones
(ICBs)::

    control region   | queues: 2 + users | DCBs: one per buffer | ICBs |
    data region      | buffer 0 | buffer 1 | ... |

Every position is a function of an index, so no pointer into the data is stored (MC-2).
The control region can be mapped and read without the data region (MC-1).

`ControlRegion` has the control blocks by index, and `DataRegion` the buffers. The owner
of the pool has writable regions. A recipient may map the control region read-only, to
check the generations of its descriptors (MC-22).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from bus.features.memory.blocks import (
    BLOCK_BYTES,
    END,
    INDIRECT,
    QUEUE_BYTES,
    DirectControlBlock,
    IndirectControlBlock,
    QueueControlBlock,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from bus.features.memory.blocks import ControlBlock

__all__ = [
    "ControlRegion",
    "DataRegion",
    "Descriptor",
    "Piece",
    "PoolLayout",
    "pieces_of",
]

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
        """Return True if a block was built as a DCB, for any present use (MC-15)."""
        return index < self.buffers

    def buffers_for(self, size: int) -> int:
        """Return how many buffers a message of ``size`` bytes takes (MC-7).

        An empty message takes one as well: it needs a block that stands for it.
        """
        return max(1, -(-size // self.buffer_bytes))


def _check_least(name: str, got: int, least: int) -> None:
    if got < least:
        raise ValueError(f"{name} must be >= {least}, got {got}")


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
            DirectControlBlock(
                self._memory, layout.block_at(index), index, layout.buffer_bytes
            )
            for index in range(layout.buffers)
        ]
        self._indirect = [
            IndirectControlBlock(
                self._memory, layout.block_at(index), index, layout.buffer_bytes
            )
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


class Piece(NamedTuple):
    """A stretch of one buffer.

    buffer: the index of the buffer; offset, length: in bytes, within the buffer.
    generation: that of its DCB; another number there means that the buffer was freed.
    """

    buffer: int
    offset: int
    length: int
    generation: int


class Descriptor(NamedTuple):
    """The location of a message of one recipient.

    lease: the id to release the message with; unique for the life of the pool (MC-21).
    pieces: the stretches that make up the message, in order.
    total_bytes: the length of the message.
    """

    lease: int
    pieces: tuple[Piece, ...]
    total_bytes: int


class DataRegion:
    """The first ``layout.data_bytes`` bytes of a buffer, as buffers of one size.

    Raises:
        ValueError: the buffer is too small.
    """

    __slots__ = ("_layout", "_memory")

    def __init__(self, layout: PoolLayout, memory: Buffer) -> None:
        view = memoryview(memory).cast("B")
        if len(view) < layout.data_bytes:
            raise ValueError(
                f"cannot use a data region of {len(view)} bytes: this layout needs "
                f"{layout.data_bytes}"
            )
        self._layout = layout
        self._memory = view[: layout.data_bytes]

    def write(self, index: int, content: memoryview) -> None:
        """Write bytes at the start of a buffer; they must fit into it."""
        at = self._layout.buffer_at(index)
        self._memory[at : at + len(content)] = content

    def view(self, piece: Piece) -> memoryview:
        """Return a view of a piece of a message."""
        at = self._layout.buffer_at(piece.buffer) + piece.offset
        return self._memory[at : at + piece.length]

    def close(self) -> None:
        """Release the buffer.

        Views that were given out stay valid, and keep the memory mapped.
        """
        self._memory.release()


def pieces_of(region: ControlRegion, head: int) -> tuple[Piece, ...]:
    """Return the pieces of the message whose head block this is (MC-17).

    An indirect block has its own offset and length, and the buffer of its target.
    """
    pieces = []
    index = head
    while index != END:
        block = region.block(index)
        dup, used, offset, following, target, generation = block.read_piece()
        if dup == INDIRECT:
            generation = region.block(target).generation
            pieces.append(Piece(target, offset, used, generation))
        else:
            pieces.append(Piece(index, offset, used, generation))
        index = following
    return tuple(pieces)
