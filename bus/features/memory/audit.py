"""`Audit`: whether every block of a pool is in one place, and counted right (MC-23).

It recounts what the queues and the blocks of the control region claim. It uses none of
the operations that it checks, only the leases of each recipient.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from bus.features.memory.blocks import END, INDIRECT, BlockFields, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bus.features.memory.queues import BlockSupply
    from bus.features.memory.recipient import Recipient
    from bus.features.memory.region import ControlRegion

__all__ = ["Audit", "Census"]


class Census(NamedTuple):
    """The numbers of blocks, and of messages not released yet (MC-23).

    free_direct, chained, borrowed: DCBs that are free, that hold data of a message,
      and that serve as ICBs. Together they are all DCBs.
    free_indirect, indirect: ICBs that are free, and that are in use.
    queued, leased: messages in user queues, and dequeued ones; each recipient of a
      message counts.
    """

    free_direct: int
    chained: int
    borrowed: int
    free_indirect: int
    indirect: int
    queued: int
    leased: int


_SHARED: Final = "buffers that count their holders"
_INDIRECT: Final = "blocks in use as ICB"


class Audit:
    """One walk over all blocks of a pool.

    Args:
        region: the control region.
        supply: the free queues and the count of borrowed DCBs.
        recipients: the queues and the leases.
    """

    def __init__(
        self,
        region: ControlRegion,
        supply: BlockSupply,
        recipients: Sequence[Recipient],
    ) -> None:
        self._region = region
        self._layout = region.layout
        self._supply = supply
        self._recipients = recipients
        self._faults: list[str] = []
        self._places: dict[int, str] = {}
        # By DCB: the holders that it should count, and whether one has the DCB itself.
        self._holders: Counter[int] = Counter()
        self._direct: set[int] = set()
        self._borrowed = 0

    def faults(self) -> list[str]:
        """Return one line for each violation; call it once."""
        layout = self._layout
        direct, indirect = range(layout.buffers), range(layout.buffers, layout.blocks)
        self._walk_free("free DCBs", layout.free_direct_at, direct, 0)
        self._walk_free("free ICBs", layout.free_indirect_at, indirect, INDIRECT)
        for user, recipient in enumerate(self._recipients):
            self._walk_recipient(user, recipient)
        for index in range(layout.blocks):
            self._expect(index in self._places, f"block {index} is in no place")
        for index, holders in self._holders.items():
            dup = self._read(index).dup
            said = f"DCB {index} counts {dup} holders, and has {holders}"
            self._expect(dup == holders, said)
        borrowed = self._supply.borrowed
        said = f"{borrowed} DCBs are counted as borrowed, and {self._borrowed} are"
        self._expect(borrowed == self._borrowed, said)
        return self._faults

    def _read(self, index: int) -> BlockFields:
        return self._region.block(index).read()

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._faults.append(otherwise)

    def _claim(self, index: int, place: str, *, shared: bool = False) -> None:
        """Note the place of a block; a fault if it has another place already."""
        before = self._places.get(index)
        self._places[index] = place
        said = f"block {index} is among the {before} and the {place}"
        self._expect(before is None or (shared and before == place), said)

    def _links(self, index: int, link: str, name: str) -> Iterator[int]:
        """Yield the blocks from one to the end, as far as the links lead to blocks."""
        for _ in range(self._layout.blocks):
            if index == END:
                return
            if index >= self._layout.blocks:
                self._faults.append(f"a link of the {name} leads to {index}")
                return
            yield index
            index = getattr(self._read(index), link)
        self._expect(index == END, f"the links of the {name} have no end")

    def _check_queue(self, name: str, at: int, entries: Sequence[int]) -> None:
        queue = self._region.queue(at)
        tail = entries[-1] if entries else END
        self._expect(queue.tail == tail, f"the tail of the {name} is not the last one")
        said = f"{queue.length} {name} are counted, and {len(entries)} are there"
        self._expect(queue.length == len(entries), said)

    def _walk_free(self, name: str, at: int, home: range, code: int) -> None:
        entries = list(self._links(self._region.queue(at).head, "next_buffer", name))
        self._check_queue(name, at, entries)
        for index in entries:
            self._claim(index, name)
            self._expect(index in home, f"block {index} is not at home in the {name}")
            dup = self._read(index).dup
            self._expect(dup == code, f"block {index} of the {name} has dup {dup}")

    def _walk_recipient(self, user: int, recipient: Recipient) -> None:
        at, name = self._layout.user_queue_at(user), f"messages queued for {user}"
        queued = list(self._links(self._region.queue(at).head, "next_message", name))
        self._check_queue(name, at, queued)
        buffers = total_bytes = 0
        for head in [*queued, *recipient.leased_blocks]:
            block = self._read(head)
            buffers += block.buffer_count
            total_bytes += block.total_bytes
            if block.mode == Mode.WHOLE:
                self._walk_whole(head, block)
            else:
                self._walk_by_buffer(head, block)
        counted = (recipient.buffers, recipient.total_bytes)
        said = f"recipient {user} counts {counted}, and holds {(buffers, total_bytes)}"
        self._expect(counted == (buffers, total_bytes), said)

    def _walk_whole(self, index: int, block: BlockFields) -> None:
        first = index
        if block.dup == INDIRECT:
            self._take_indirect(index)
            first = block.target
            head = self._read(first)
            same = head._replace(
                dup=INDIRECT,
                next_message=block.next_message,
                target=first,
                generation=block.generation,
            )
            said = f"ICB {index} differs from its DCB {first}"
            self._expect(block == same, said)
        else:
            self._take_direct(index)
        name = f"buffers of the message at DCB {first}"
        chain = list(self._links(first, "next_buffer", name))
        for each in chain:
            self._claim(each, name, shared=True)
        for each in chain[1:]:
            dup = self._read(each).dup
            self._expect(dup == 0, f"DCB {each} is no head, and has dup {dup}")
        self._holders[first] += 1
        self._check_sums(chain, self._read(first), name)

    def _walk_by_buffer(self, index: int, block: BlockFields) -> None:
        name = f"blocks of the message at block {index}"
        chain = list(self._links(index, "next_buffer", name))
        for each in chain:
            fields = self._read(each)
            said = f"block {each} is counted as a whole, unlike its message {index}"
            self._expect(fields.mode == Mode.BY_BUFFER, said)
            buffer = each
            if fields.dup == INDIRECT:
                self._take_indirect(each)
                buffer = fields.target
            else:
                self._take_direct(each)
            self._claim(buffer, _SHARED, shared=True)
            self._holders[buffer] += 1
        self._check_sums(chain, block, name)

    def _take_indirect(self, index: int) -> None:
        self._claim(index, _INDIRECT)
        self._borrowed += self._layout.is_direct(index)

    def _take_direct(self, index: int) -> None:
        twice = index in self._direct
        self._expect(not twice, f"two recipients have the DCB {index} itself")
        self._direct.add(index)

    def _check_sums(self, chain: Sequence[int], head: BlockFields, name: str) -> None:
        """Compare the blocks of a message with what its head says of all of them."""
        blocks = [self._read(index) for index in chain]
        total = sum(block.bytes_used for block in blocks)
        said = f"the {name} have {total} bytes, and should have {head.total_bytes}"
        self._expect(total == head.total_bytes, said)
        said = f"there are {len(chain)} {name}, and should be {head.buffer_count}"
        self._expect(len(chain) == head.buffer_count, said)
        said = f"the {name} do not end with {head.last_buffer}"
        self._expect(chain[-1:] == [head.last_buffer], said)
        for index, block in zip(chain, blocks, strict=True):
            end = block.data_offset + block.bytes_used
            said = f"the bytes of block {index} end at {end}, outside of its buffer"
            self._expect(end <= self._layout.buffer_bytes, said)
