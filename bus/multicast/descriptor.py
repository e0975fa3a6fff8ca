"""`Descriptor`: the place of a message, and the lease that keeps it there."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Descriptor", "Piece"]


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
