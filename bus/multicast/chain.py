"""`pieces_of`: the walk along the blocks of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.multicast.control_block import END, INDIRECT
from bus.multicast.descriptor import Piece

if TYPE_CHECKING:
    from bus.multicast.control_region import ControlRegion

__all__ = ["pieces_of"]


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
