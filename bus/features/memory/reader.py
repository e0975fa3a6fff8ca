"""`Reader`: the side of a recipient of a pool, which only reads."""

from __future__ import annotations

from typing_extensions import Buffer

from bus.errors import StaleLeaseError, WireError
from bus.features.memory.region import ControlRegion, DataRegion, Descriptor, PoolLayout
from queuebroker.closable import Uncopyable

__all__ = ["Reader"]


class Reader(Uncopyable):
    """Reads messages by their descriptors.

    A descriptor is stale once the owner has freed one of its buffers, for instance
    because it declared the recipient dead. The generation of each buffer tells, so the
    reader checks it before and after use (MC-22).

    Args:
        layout: that of the pool.
        control, data: the regions; they may be read-only.

    Raises:
        ValueError: a region is too small for the layout.
    """

    __slots__ = ("_control", "_data", "_layout")

    def __init__(self, layout: PoolLayout, control: Buffer, data: Buffer) -> None:
        self._layout = layout
        self._control = ControlRegion(layout, control)
        self._data = DataRegion(layout, data)

    def read(self, descriptor: Descriptor) -> bytes:
        """Return a copy of the message.

        Raises:
            StaleLeaseError: a buffer was freed, before the copy or during it.
            WireError: the descriptor names memory outside of the buffers.
        """
        content = b"".join(self.views(descriptor))
        # The owner may have reused a buffer during the copy: then `content` is mixed.
        self.check(descriptor)
        return content

    def views(self, descriptor: Descriptor) -> list[memoryview]:
        """Return the pieces without copying them.

        After use, call `check`: until then the owner may free the buffers, if it
        declares this recipient dead.

        Raises:
            StaleLeaseError: a buffer was freed.
            WireError: the descriptor names memory outside of the buffers.
        """
        self.check(descriptor)
        return [self._data.view(piece).toreadonly() for piece in descriptor.pieces]

    def check(self, descriptor: Descriptor) -> None:
        """Do nothing if every buffer still holds this message.

        Raises:
            StaleLeaseError: a buffer was freed.
            WireError: the descriptor names memory outside of the buffers.
        """
        layout = self._layout
        for piece in descriptor.pieces:
            if not (
                layout.is_direct(piece.buffer)
                and piece.offset + piece.length <= layout.buffer_bytes
            ):
                raise WireError(f"a descriptor names memory outside of it: {piece}")
            if self._control.block(piece.buffer).generation != piece.generation:
                raise StaleLeaseError(descriptor.lease)

    def close(self) -> None:
        """Release both regions; views that were given out stay valid."""
        self._control.close()
        self._data.close()
