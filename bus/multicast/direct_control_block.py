"""`DirectControlBlock` (DCB): the block that owns the buffer of its index."""

from __future__ import annotations

from bus.multicast.control_block import END, ControlBlock, Mode

__all__ = ["DirectControlBlock"]


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
