"""`Audit`: whether every block is in one place, and counted right (MC-23, MC-40).

It recounts the claims of the queues, the leases and the blocks, and uses none of the
operations that it checks. `PoolAudit` walks along the links of a control region, and
`ArenaAudit` over the objects of the slabs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from bus.features.memory.blocks import END, INDIRECT, BlockFields, Mode

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from bus.features.memory.blocks import ControlBlock, DirectBlock, IndirectBlock
    from bus.features.memory.queues import BlockSupply
    from bus.features.memory.recipients import Recipient
    from bus.features.memory.region import ControlRegion
    from bus.features.memory.slabs import Slab

__all__ = ["ArenaAudit", "Audit", "Census", "PoolAudit"]


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


K = TypeVar("K", bound="Hashable")


class Audit(Generic[K]):
    """The rules for the blocks of either store, each named by a key.

    Attributes:
        found: one line for each violation.
        places: the place of each block that was found in one.
        holders: by DCB, the holders that were found.
    """

    def __init__(self) -> None:
        self.found: Final[list[str]] = []
        self.places: Final[dict[K, str]] = {}
        self.holders: Final[Counter[K]] = Counter()

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note a violation unless a condition holds."""
        if not holds:
            self.found.append(otherwise)

    def claim(self, name: str, key: K, place: str, *, shared: bool = False) -> None:
        """Note the place of a block; a fault if it has another place already."""
        before = self.places.get(key)
        self.places[key] = place
        said = f"{name} is among the {before} and the {place}"
        self.expect(before is None or (shared and before == place), said)

    def expect_sum(self, number: int, counted: int, held: int) -> None:
        """Compare the bytes that a recipient counts with those that it holds."""
        said = f"recipient {number} counts {counted} bytes, and holds {held}"
        self.expect(counted == held, said)


class ArenaAudit(Audit["DirectBlock"]):
    """One walk over all blocks of an arena (MC-40).

    Args:
        slabs: all open ones.
        recipients: by number.
        loans: the DCB of each loan to the owner.
    """

    def __init__(
        self,
        slabs: Iterable[Slab],
        recipients: Mapping[int, Recipient[IndirectBlock]],
        loans: Iterable[DirectBlock],
    ) -> None:
        super().__init__()
        self._slabs = slabs
        self._recipients = recipients
        self.holders.update(loans)

    def faults(self) -> list[str]:
        """Return one line for each violation; call it once."""
        for number, recipient in self._recipients.items():
            targets = [block.target for block in recipient]
            held = sum(target.held_bytes for target in targets)
            self.expect_sum(number, recipient.held_bytes, held)
            self.holders.update(targets)
        for slab in self._slabs:
            self._walk_slab(slab)
        for block in self.holders:
            self.found.append(f"{block} has holders, and its slab is closed")
        return self.found

    def _walk_slab(self, slab: Slab) -> None:
        for block in slab.free:
            self.claim(str(block), block, "free DCBs")
        abandoned = 0
        for block in slab.blocks:
            if block.dup:
                self.claim(str(block), block, "DCBs with holders")
            self.expect(block in self.places, f"{block} is in no place")
            holders = self.holders.pop(block, 0)
            said = f"{block} counts {block.dup} holders, and has {holders}"
            self.expect(block.dup >= holders, said)
            abandoned += block.dup - holders
        counted = f"slab {slab.number} counts {slab.abandoned} abandoned messages"
        self.expect(abandoned == slab.abandoned, f"{counted}, and has {abandoned}")


class PoolAudit(Audit[int]):
    """One walk over all blocks of a pool (MC-23).

    Args:
        region: the control region.
        supply: the free queues and the count of borrowed DCBs.
        recipients: by number.
    """

    def __init__(
        self,
        region: ControlRegion,
        supply: BlockSupply,
        recipients: Mapping[int, Recipient[ControlBlock]],
    ) -> None:
        super().__init__()
        self._region = region
        self._layout = region.layout
        self._supply = supply
        self._recipients = recipients
        # The DCBs that a recipient has itself, and the DCBs that serve as ICBs.
        self._direct: set[int] = set()
        self._borrowed = 0

    def faults(self) -> list[str]:
        """Return one line for each violation; call it once."""
        layout = self._layout
        direct, indirect = range(layout.buffers), range(layout.buffers, layout.blocks)
        self._walk_free("free DCBs", layout.free_direct_at, direct, 0)
        self._walk_free("free ICBs", layout.free_indirect_at, indirect, INDIRECT)
        for user, recipient in self._recipients.items():
            self._walk_recipient(user, recipient)
        for index in range(layout.blocks):
            self.expect(index in self.places, f"block {index} is in no place")
        for index, holders in self.holders.items():
            dup = self._read(index).dup
            said = f"DCB {index} counts {dup} holders, and has {holders}"
            self.expect(dup == holders, said)
        borrowed = self._supply.borrowed
        said = f"{borrowed} DCBs are counted as borrowed, and {self._borrowed} are"
        self.expect(borrowed == self._borrowed, said)
        return self.found

    def _read(self, index: int) -> BlockFields:
        return self._region.block(index).read()

    def _claim(self, index: int, place: str, *, shared: bool = False) -> None:
        self.claim(f"block {index}", index, place, shared=shared)

    def _links(self, index: int, link: str, name: str) -> Iterator[int]:
        """Yield the blocks from one to the end, as far as the links lead to blocks."""
        for _ in range(self._layout.blocks):
            if index == END:
                return
            if index >= self._layout.blocks:
                self.found.append(f"a link of the {name} leads to {index}")
                return
            yield index
            index = getattr(self._read(index), link)
        self.expect(index == END, f"the links of the {name} have no end")

    def _check_queue(self, name: str, at: int, entries: Sequence[int]) -> None:
        queue = self._region.queue(at)
        tail = entries[-1] if entries else END
        self.expect(queue.tail == tail, f"the tail of the {name} is not the last one")
        said = f"{queue.length} {name} are counted, and {len(entries)} are there"
        self.expect(queue.length == len(entries), said)

    def _walk_free(self, name: str, at: int, home: range, code: int) -> None:
        entries = list(self._links(self._region.queue(at).head, "next_buffer", name))
        self._check_queue(name, at, entries)
        for index in entries:
            self._claim(index, name)
            self.expect(index in home, f"block {index} is not at home in the {name}")
            dup = self._read(index).dup
            self.expect(dup == code, f"block {index} of the {name} has dup {dup}")

    def _walk_recipient(self, user: int, recipient: Recipient[ControlBlock]) -> None:
        at, name = self._layout.user_queue_at(user), f"messages queued for {user}"
        queued = list(self._links(self._region.queue(at).head, "next_message", name))
        self._check_queue(name, at, queued)
        leased = [block.index for block in recipient.leases.values()]
        held = 0
        for head in [*queued, *leased]:
            block = self._read(head)
            held += block.buffer_count * self._layout.buffer_bytes
            if block.mode == Mode.WHOLE:
                self._walk_whole(head, block)
            else:
                self._walk_by_buffer(head, block)
        self.expect_sum(user, recipient.held_bytes, held)

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
            self.expect(block == same, said)
        else:
            self._take_direct(index)
        name = f"buffers of the message at DCB {first}"
        chain = list(self._links(first, "next_buffer", name))
        for each in chain:
            self._claim(each, name, shared=True)
        for each in chain[1:]:
            dup = self._read(each).dup
            self.expect(dup == 0, f"DCB {each} is no head, and has dup {dup}")
        self.holders[first] += 1
        self._check_sums(chain, self._read(first), name)

    def _walk_by_buffer(self, index: int, block: BlockFields) -> None:
        name = f"blocks of the message at block {index}"
        chain = list(self._links(index, "next_buffer", name))
        for each in chain:
            fields = self._read(each)
            said = f"block {each} is counted as a whole, unlike its message {index}"
            self.expect(fields.mode == Mode.BY_BUFFER, said)
            buffer = each
            if fields.dup == INDIRECT:
                self._take_indirect(each)
                buffer = fields.target
            else:
                self._take_direct(each)
            self._claim(buffer, _SHARED, shared=True)
            self.holders[buffer] += 1
        self._check_sums(chain, block, name)

    def _take_indirect(self, index: int) -> None:
        self._claim(index, _INDIRECT)
        self._borrowed += self._layout.is_direct(index)

    def _take_direct(self, index: int) -> None:
        twice = index in self._direct
        self.expect(not twice, f"two recipients have the DCB {index} itself")
        self._direct.add(index)

    def _check_sums(self, chain: Sequence[int], head: BlockFields, name: str) -> None:
        """Compare the blocks of a message with what its head says of all of them."""
        blocks = [self._read(index) for index in chain]
        total = sum(block.bytes_used for block in blocks)
        said = f"the {name} have {total} bytes, and should have {head.total_bytes}"
        self.expect(total == head.total_bytes, said)
        said = f"there are {len(chain)} {name}, and should be {head.buffer_count}"
        self.expect(len(chain) == head.buffer_count, said)
        said = f"the {name} do not end with {head.last_buffer}"
        self.expect(chain[-1:] == [head.last_buffer], said)
        for index, block in zip(chain, blocks, strict=True):
            end = block.data_offset + block.bytes_used
            said = f"the bytes of block {index} end at {end}, outside of its buffer"
            self.expect(end <= self._layout.buffer_bytes, said)
