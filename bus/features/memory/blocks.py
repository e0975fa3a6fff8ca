"""The control blocks, in two stores: bytes of a control region, and objects.

A DCB owns one buffer; an ICB stands for one more recipient of its message.

=========  ======================  ===============
block      in a control region     object
=========  ======================  ===============
DCB        `DirectControlBlock`    `DirectBlock`
ICB        `IndirectControlBlock`  `IndirectBlock`
=========  ======================  ===============

Both kinds of block have the same interface for the queue and the leases of a recipient:
see `HeldBlock`. A pool has the first store, which a recipient can read. An arena has
the second: only its owner reads the blocks, and its messages have one buffer each, so a
block needs no links.

`ControlBlock`: 48 bytes of the control region, at a position that follows from the
index of the block. All numbers are little-endian and unsigned::

     0  dup             u32    the holders; all ones in an indirect block
     4  bytes_used      u32    bytes of the message in the buffer
     8  data_offset     u32    where these begin in the buffer
    12  next_buffer     u32    the next block of the message, or of a free queue
    16  last_buffer     u32    the last block of the message
    20  next_message    u32    the head of the next message of a user queue
    24  target          u32    of an indirect block: the direct block it stands for
    28  mode            u32    how the message is counted and freed: see `Mode`
    32  total_bytes     u64    bytes of the message
    40  buffer_count    u32    buffers of the message
    44  generation      u32    how often the block became free

A link is the index of a block; `END` stands for no block.

`QueueControlBlock`: the head and the tail of a queue, in the control region.

::

     0  head      u32    the first block; `END` if the queue is empty
     4  tail      u32    the last block; `END` if the queue is empty
     8  length    u32    the number of entries
    12            u32    unused
"""

from __future__ import annotations

import enum
from struct import Struct
from typing import Final, NamedTuple, Protocol

import msgspec

__all__ = [
    "BLOCK_BYTES",
    "END",
    "HOLDERS_MAX",
    "INDIRECT",
    "QUEUE_BYTES",
    "BlockFields",
    "ControlBlock",
    "DirectBlock",
    "DirectControlBlock",
    "Field",
    "IndirectBlock",
    "IndirectControlBlock",
    "Mode",
    "QueueControlBlock",
    "Record",
]


class Record(Protocol):
    """Bytes of the control region that begin at a fixed position."""

    @property
    def region(self) -> memoryview:
        """The control region."""
        ...

    @property
    def at(self) -> int:
        """The position of the first byte."""
        ...


class Field:
    """A little-endian number of a record, read and written in place.

    Args:
        offset: its position in the record, in bytes.
        form: its format, as for `struct`.
    """

    __slots__ = ("_offset", "_pack", "_unpack")

    def __init__(self, offset: int, form: str = "<I") -> None:
        number = Struct(form)
        self._offset = offset
        self._pack = number.pack_into
        self._unpack = number.unpack_from

    def __get__(self, record: Record, owner: type | None = None) -> int:
        number: int = self._unpack(record.region, record.at + self._offset)[0]
        return number

    def __set__(self, record: Record, number: int) -> None:
        self._pack(record.region, record.at + self._offset, number)


# The end code of a link: no block has this index.
END: Final = 2**32 - 1
# The dup code that marks a block as indirect: no DCB counts so many holders (MC-12).
INDIRECT: Final = 2**32 - 1
HOLDERS_MAX: Final = INDIRECT - 1

_BLOCK: Final = Struct("<8IQII")
BLOCK_BYTES: Final = _BLOCK.size
# Without the generation: a message that takes the block leaves it as it is.
_MESSAGE: Final = Struct("<8IQI")
# The fields of `ControlBlock.read_piece`.
_PIECE: Final = Struct("<4I8xI16xI")
_GENERATIONS: Final = 2**32


class Mode(enum.IntEnum):
    """How a message is counted and freed; the same for the life of its chain (MC-27).

    WHOLE: the head counts the holders, and the chain is freed in one step (MC-20).
    BY_BUFFER: each buffer counts its holders, and is freed alone (MC-26).
    """

    WHOLE = 0
    BY_BUFFER = 1


class BlockFields(NamedTuple):
    """All fields of a block, in the order of its bytes."""

    dup: int
    bytes_used: int
    data_offset: int
    next_buffer: int
    last_buffer: int
    next_message: int
    target: int
    mode: int
    total_bytes: int
    buffer_count: int
    generation: int


class ControlBlock:
    """A block at its position in the control region, direct or indirect.

    It is a view: it keeps no state of its own.

    index: the index of the block; at: its position in ``region``, in bytes.
    buffer_bytes: the size of each buffer.
    """

    __slots__ = ("at", "buffer_bytes", "index", "region")

    dup = Field(0)
    bytes_used = Field(4)
    data_offset = Field(8)
    next_buffer = Field(12)
    last_buffer = Field(16)
    next_message = Field(20)
    mode = Field(28)
    total_bytes = Field(32, "<Q")
    buffer_count = Field(40)
    generation = Field(44)

    def __init__(
        self, region: memoryview, at: int, index: int, buffer_bytes: int
    ) -> None:
        self.region: memoryview = region
        self.at: int = at
        self.index: int = index
        self.buffer_bytes: int = buffer_bytes

    @property
    def held_bytes(self) -> int:
        """The size of all buffers of the message, by its head block."""
        return self.buffer_count * self.buffer_bytes

    @property
    def is_indirect(self) -> bool:
        """True while the block has the reserved code (MC-4)."""
        return self.dup == INDIRECT

    def read(self) -> BlockFields:
        """Return all fields at once, which is faster than one after another."""
        return BlockFields._make(_BLOCK.unpack_from(self.region, self.at))

    def read_piece(self) -> tuple[int, int, int, int, int, int]:
        """Return the fields of the walk along a message, and no others.

        These are dup, bytes_used, data_offset, next_buffer, target and generation.
        """
        dup, used, offset, following, target, generation = _PIECE.unpack_from(
            self.region, self.at
        )
        return dup, used, offset, following, target, generation

    def raise_generation(self) -> None:
        """Make all descriptors stale that name the block (MC-22).

        The number is 0 again after 2**32 uses. A descriptor of that age is still
        refused by its lease id, which has 64 bits.
        """
        self.generation = (self.generation + 1) % _GENERATIONS

    def _write_message(self, *fields: int) -> None:
        """Write all fields but the generation, in the order of `BlockFields`."""
        _MESSAGE.pack_into(self.region, self.at, *fields)


class DirectControlBlock(ControlBlock):
    """The control block of one buffer (MC-3).

    ``dup`` of a free block is 0. In a chain of mode `Mode.WHOLE` the head counts the
    holders of the message, and the other blocks count nothing.
    """

    __slots__ = ()

    def begin(
        self,
        *,
        dup: int,
        bytes_used: int,
        next_buffer: int,
        last_buffer: int,
        mode: Mode,
        total_bytes: int,
        buffer_count: int,
    ) -> None:
        """Become part of a message, with its data at the start of the buffer."""
        self._write_message(
            dup,
            bytes_used,
            0,  # the data offset
            next_buffer,
            last_buffer,
            END,  # no next message: the block is not in a user queue yet
            END,  # no target
            mode,
            total_bytes,
            buffer_count,
        )


class IndirectControlBlock(ControlBlock):
    """A block that stands for a DCB (MC-4).

    The ICB of a whole message stands for the head of the chain, and continues with the
    second block of the chain. An *extended* ICB (MC-25) stands for any one DCB, and
    continues with a block of its own message.

    target: the index of the DCB.
    """

    __slots__ = ()

    target = Field(24)

    def begin(
        self,
        *,
        target: int,
        bytes_used: int,
        data_offset: int,
        next_buffer: int,
        last_buffer: int,
        mode: Mode,
        total_bytes: int,
        buffer_count: int,
    ) -> None:
        """Become part of a message; the data are in the buffer of ``target``."""
        self._write_message(
            INDIRECT,
            bytes_used,
            data_offset,
            next_buffer,
            last_buffer,
            END,  # no next message: the block is not in a user queue yet
            target,
            mode,
            total_bytes,
            buffer_count,
        )


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


class DirectBlock:
    """The DCB of one buffer of a slab, as an object.

    It is made with its slab, and serves one message after another.

    Attributes:
        slab: the number of the slab.
        at: the position of its buffer in the memory of the slab, in bytes.
        held_bytes: the size of its buffer.
        dup: the holders: the leases and the queues of recipients, the loan of the
          owner, and the messages that lost recipients may still read. While there is
          none, the block is free.
    """

    __slots__ = ("at", "dup", "held_bytes", "slab")

    def __init__(self, slab: int, at: int, held_bytes: int) -> None:
        self.slab: Final = slab
        self.at: Final = at
        self.held_bytes: Final = held_bytes
        self.dup: int = 0

    def __str__(self) -> str:
        return f"the DCB at {self.at} of slab {self.slab}"


class IndirectBlock(msgspec.Struct, eq=False, gc=False):
    """The ICB of one recipient of a message in a slab, as an object.

    The allocator of Python is the free queue of these blocks, so the number of
    recipients has no limit.

    target: the DCB that it stands for. length: the bytes of the message.
    held_bytes: as of the DCB.
    """

    target: DirectBlock
    length: int
    held_bytes: int
