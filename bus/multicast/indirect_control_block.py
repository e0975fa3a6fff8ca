"""`IndirectControlBlock` (ICB): a block without a buffer, for one more recipient."""

from __future__ import annotations

from bus.multicast.control_block import END, INDIRECT, ControlBlock, Mode
from bus.multicast.field import Field

__all__ = ["IndirectControlBlock"]


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
