"""`DataRegion`: the buffers of a pool, by index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from bus.multicast.descriptor import Piece
    from bus.multicast.layout import PoolLayout

__all__ = ["DataRegion"]


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
