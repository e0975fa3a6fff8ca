"""`WholeChains`: messages that every recipient gets unchanged (MC-7 to MC-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.multicast.control_block import END, Mode

if TYPE_CHECKING:
    from bus.multicast.block_supply import BlockSupply
    from bus.multicast.control_region import ControlRegion
    from bus.multicast.data_region import DataRegion

__all__ = ["WholeChains"]


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
