"""`BufferChains`: messages whose recipients may share some buffers (MC-25 to MC-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.errors import BusFullError
from bus.multicast.control_block import END, HOLDERS_MAX, Mode
from bus.multicast.descriptor import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.multicast.block_supply import BlockSupply
    from bus.multicast.control_region import ControlRegion
    from bus.multicast.data_region import DataRegion

__all__ = ["BufferChains"]


class BufferChains:
    """Builds and releases messages of mode `Mode.BY_BUFFER`.

    A message is a chain of DCBs and extended ICBs. Each DCB counts its holders: the
    chain that has the DCB itself, and the extended ICBs that stand for it. It is freed
    when the last of these is released, whatever happens to its neighbours.

    Args:
        holders_max: the most holders of one buffer (MC-12).
    """

    __slots__ = ("_holders_max", "_region", "_supply")

    def __init__(
        self,
        region: ControlRegion,
        supply: BlockSupply,
        *,
        holders_max: int = HOLDERS_MAX,
    ) -> None:
        self._region = region
        self._supply = supply
        self._holders_max = holders_max

    def demand(self, size: int, holders: int) -> tuple[int, int]:
        """Return the DCBs and ICBs of an original of ``size`` bytes."""
        buffers = self._region.layout.buffers_for(size)
        return buffers, buffers * (holders - 1)

    def build(
        self, payload: memoryview, holders: int, data: DataRegion
    ) -> list[int] | None:
        """Build an original: all its bytes are new."""
        return self.compose([payload], holders, data)

    def compose(
        self, parts: Sequence[memoryview | Piece], holders: int, data: DataRegion
    ) -> list[int] | None:
        """Build a message of new bytes and of pieces of earlier messages.

        Return a head block for each holder. The first has the DCBs of the new bytes;
        the others share these too. Return None, and change nothing, if the blocks are
        not there (MC-16).

        Raises:
            BusFullError: a buffer would have too many holders (MC-12); nothing changed.
        """
        units = self._units(parts)
        shared = [unit for unit in units if isinstance(unit, Piece)]
        self._check_holders(shared, holders)
        new = len(units) - len(shared)
        leased = self._supply.lease(new, len(shared) + len(units) * (holders - 1))
        if leased is None:
            return None
        chain, indirect_blocks = leased
        free_direct, free_indirect = iter(chain), iter(indirect_blocks)
        pieces = [
            unit
            if isinstance(unit, Piece)
            else self._write(next(free_direct), unit, data)
            for unit in units
        ]
        for piece in shared:
            # MC-11: the full count, before any holder can release.
            self._region.direct(piece.buffer).dup += holders
        own = set(chain)
        total = sum(piece.length for piece in pieces)
        heads = []
        for number in range(holders):
            blocks = [
                piece.buffer
                if number == 0 and piece.buffer in own
                else next(free_indirect)
                for piece in pieces
            ]
            self._link(blocks, pieces, holders, total)
            heads.append(blocks[0])
        return heads

    def release(self, head: int) -> None:
        """End the hold of one holder, by the head block of its message."""
        index = head
        while index != END:
            block = self._region.indirect(index)
            # Read before the release, which links the block into a free queue.
            following = block.next_buffer
            if block.is_indirect:
                target = block.target
                self._supply.release(index)
                self._drop(target)
            else:
                self._drop(index)
            index = following

    def _drop(self, index: int) -> None:
        """Count one holder less; free the buffer alone after its last one (MC-27)."""
        block = self._region.direct(index)
        block.dup -= 1
        if block.dup == 0:
            self._supply.release(index)

    def _units(self, parts: Sequence[memoryview | Piece]) -> list[memoryview | Piece]:
        """Cut new bytes to the size of a buffer; a message has one block at least."""
        size = self._region.layout.buffer_bytes
        units: list[memoryview | Piece] = []
        for part in parts:
            if isinstance(part, Piece):
                units.append(part)
            else:
                cuts = range(0, len(part), size)
                units += [part[at : at + size] for at in cuts]
        return units or [memoryview(b"")]

    def _check_holders(self, shared: Sequence[Piece], holders: int) -> None:
        added: dict[int, int] = {}
        for piece in shared:
            added[piece.buffer] = added.get(piece.buffer, 0) + holders
        for buffer, more in added.items():
            if self._region.direct(buffer).dup + more > self._holders_max:
                raise BusFullError(f"buffer {buffer}", self._holders_max, "holders")

    def _write(self, index: int, content: memoryview, data: DataRegion) -> Piece:
        """Write new bytes; a buffer is never written again while it is held (MC-28)."""
        data.write(index, content)
        return Piece(index, 0, len(content), self._region.direct(index).generation)

    def _link(
        self, blocks: list[int], pieces: list[Piece], holders: int, total: int
    ) -> None:
        """Make the chain of one holder."""
        following = [*blocks[1:], END]
        for index, piece, next_buffer in zip(blocks, pieces, following, strict=True):
            if index == piece.buffer:
                self._region.direct(index).begin(
                    dup=holders,
                    bytes_used=piece.length,
                    next_buffer=next_buffer,
                    last_buffer=blocks[-1],
                    mode=Mode.BY_BUFFER,
                    total_bytes=total,
                    buffer_count=len(blocks),
                )
            else:
                self._region.indirect(index).begin(
                    target=piece.buffer,
                    bytes_used=piece.length,
                    data_offset=piece.offset,
                    next_buffer=next_buffer,
                    last_buffer=blocks[-1],
                    mode=Mode.BY_BUFFER,
                    total_bytes=total,
                    buffer_count=len(blocks),
                )
