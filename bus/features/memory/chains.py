"""The chains of buffers of messages: whole, or shared by variants (MC-25 to MC-28)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from bus.errors import BusFullError
from bus.features.memory.blocks import END, HOLDERS_MAX, Mode
from bus.features.memory.region import Piece

if TYPE_CHECKING:
    from bus.features.memory.queues import BlockSupply
    from bus.features.memory.region import ControlRegion, DataRegion

__all__ = ["BufferChains", "Excerpt", "WholeChains"]


class WholeChains:
    """Builds and releases messages of mode `Mode.WHOLE`.

    A message is a chain of DCBs. Its head counts the holders: the recipient that has
    the head itself, and the recipients that have an ICB for it.
    """

    __slots__ = ("_region", "_supply")

    def __init__(self, region: ControlRegion, supply: BlockSupply) -> None:
        self._region = region
        self._supply = supply

    def demand(self, size: int, holders: int) -> tuple[int, int]:
        """Return the DCBs and ICBs of a message of ``size`` bytes (MC-9)."""
        return self._region.layout.buffers_for(size), holders - 1

    def build(
        self, payload: memoryview, holders: int, data: DataRegion
    ) -> list[int] | None:
        """Build a message; return a head block for each holder.

        Return None, and change nothing, if the blocks are not there (MC-16).
        """
        leased = self._supply.lease(*self.demand(len(payload), holders))
        if leased is None:
            return None
        chain, indirect_blocks = leased
        self._fill(chain, payload, holders, data)
        head = self._region.block(chain[0]).read()
        for index in indirect_blocks:
            self._region.indirect(index).begin(
                target=chain[0],
                bytes_used=head.bytes_used,
                data_offset=head.data_offset,
                next_buffer=head.next_buffer,
                last_buffer=head.last_buffer,
                mode=Mode.WHOLE,
                total_bytes=head.total_bytes,
                buffer_count=head.buffer_count,
            )
        return [chain[0], *indirect_blocks]

    def release(self, index: int) -> None:
        """End the hold of one holder, by the head block that it has."""
        block = self._region.indirect(index)
        if block.is_indirect:
            head = self._region.direct(block.target)
            # MC-18: first the ICB returns to its queue, then the count falls.
            self._supply.release(index)
        else:
            head = self._region.direct(index)
        head.dup -= 1
        # MC-19: while a holder is left, the chain stays, also if the direct holder was
        # the first to release it.
        if head.dup == 0:
            count = head.buffer_count
            self._supply.release_chain(head.index, head.last_buffer, count)

    def _fill(
        self, chain: list[int], payload: memoryview, holders: int, data: DataRegion
    ) -> None:
        size = self._region.layout.buffer_bytes
        following = [*chain[1:], END]
        for place, (index, next_buffer) in enumerate(
            zip(chain, following, strict=True)
        ):
            content = payload[place * size : (place + 1) * size]
            data.write(index, content)
            self._region.direct(index).begin(
                # MC-11: the full count, before any holder can release.
                dup=0 if place else holders,
                bytes_used=len(content),
                next_buffer=next_buffer,
                last_buffer=chain[-1],
                mode=Mode.WHOLE,
                total_bytes=len(payload),
                buffer_count=len(chain),
            )


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
