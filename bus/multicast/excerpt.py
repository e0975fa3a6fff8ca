"""`Excerpt`: a stretch of one buffer of a held message, for a variant of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from bus.multicast.descriptor import Piece

__all__ = ["Excerpt"]


class Excerpt(Struct, frozen=True):
    """A part of a variant that shares a buffer with the original (MC-25).

    position: which piece of the original's descriptor, from 0.
    offset: the first byte, from the start of that piece.
    length: in bytes; None for the rest of the piece.
    """

    position: int
    offset: int = 0
    length: int | None = None

    def of(self, pieces: Sequence[Piece]) -> Piece:
        """Return the stretch of the buffer, given the pieces of the original.

        Raises:
            ValueError: the original has no such piece, or the piece is shorter.
        """
        if not 0 <= self.position < len(pieces):
            raise ValueError(
                f"cannot take {self}: the original has the pieces 0 to "
                f"{len(pieces) - 1}"
            )
        piece = pieces[self.position]
        rest = piece.length - self.offset
        length = rest if self.length is None else self.length
        if self.offset < 0 or not 0 <= length <= rest:
            raise ValueError(f"cannot take {self}: the piece has {piece.length} bytes")
        return piece._replace(offset=piece.offset + self.offset, length=length)
