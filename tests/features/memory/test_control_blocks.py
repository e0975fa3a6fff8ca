"""The fields of DCBs and ICBs: each is stored, and none overlaps another."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.features.memory import Mode, PoolLayout
from bus.features.memory.blocks import (
    BLOCK_BYTES,
    END,
    HOLDERS_MAX,
    INDIRECT,
    BlockFields,
    Field,
)
from bus.features.memory.region import ControlRegion
from specs.clauses import clause
from tests.features.memory.support import Site, content_of

if TYPE_CHECKING:
    from bus.features.memory.blocks import ControlBlock

LAYOUT = PoolLayout(buffers=3, buffer_bytes=16, icbs=2, users=1)
WORDS = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, END, END - 1]))
LONGS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 2**64 - 1]))
FIELDS = st.fixed_dictionaries(
    {name: LONGS if name == "total_bytes" else WORDS for name in BlockFields._fields}
)
# As the head of `blocks` draws them.
OFFSETS = {
    "dup": 0,
    "bytes_used": 4,
    "data_offset": 8,
    "next_buffer": 12,
    "last_buffer": 16,
    "next_message": 20,
    "target": 24,
    "mode": 28,
    "total_bytes": 32,
    "buffer_count": 40,
    "generation": 44,
}


def region() -> tuple[ControlRegion, bytearray]:
    memory = bytearray(LAYOUT.control_bytes)
    return ControlRegion(LAYOUT, memory), memory


def stored(memory: bytearray, index: int, name: str) -> int:
    form = "<Q" if name == "total_bytes" else "<I"
    at = LAYOUT.block_at(index) + OFFSETS[name]
    return int(struct.unpack_from(form, memory, at)[0])


def set_all(block: ControlBlock, fields: dict[str, int]) -> None:
    for name, number in fields.items():
        setattr(block, name, number)


def expected(fields: dict[str, int]) -> BlockFields:
    return BlockFields(**fields)


@clause("MC-3")
def test_a_field_is_stored_at_its_offset_in_its_record() -> None:
    memory = bytearray(16)

    @attrs.define
    class Pair:
        region: memoryview
        at: int
        first = Field(0)
        second = Field(4, "<Q")

    pair = Pair(memoryview(memory), 3)

    pair.first, pair.second = 2**32 - 1, 2**64 - 2

    assert memory == bytes(3) + struct.pack("<IQ", pair.first, pair.second) + bytes(1)
    assert (pair.first, pair.second) == (2**32 - 1, 2**64 - 2)


@clause("MC-3")
@given(FIELDS, st.integers(0, 2))
def test_a_dcb_stores_each_of_its_fields(fields: dict[str, int], index: int) -> None:
    """It has no target: an index of another block has no meaning in a DCB."""
    blocks, memory = region()
    block = blocks.direct(index)
    own = {name: number for name, number in fields.items() if name != "target"}

    set_all(block, own)

    assert {name: getattr(block, name) for name in own} == own
    assert {name: stored(memory, index, name) for name in own} == own
    assert block.read() == expected({**own, "target": 0})
    others = bytes(BLOCK_BYTES * (LAYOUT.blocks - 1))
    at = LAYOUT.block_at(index)
    rest = memory[:at] + memory[at + BLOCK_BYTES :]
    assert rest == bytes(LAYOUT.block_at(0)) + others


@clause("MC-4")
@given(FIELDS, st.integers(0, 4))
def test_an_icb_stores_each_of_its_fields(fields: dict[str, int], index: int) -> None:
    """At any index: a DCB may serve as an ICB."""
    blocks, memory = region()
    block = blocks.indirect(index)

    set_all(block, fields)

    assert {name: getattr(block, name) for name in fields} == fields
    assert {name: stored(memory, index, name) for name in fields} == fields
    assert block.read() == expected(fields)
    assert block.is_indirect == (fields["dup"] == INDIRECT)
    names = ("dup", "bytes_used", "data_offset", "next_buffer", "target", "generation")
    assert block.read_piece() == tuple(fields[name] for name in names)


@clause("MC-3")
@given(FIELDS)
def test_a_dcb_that_begins_a_message_is_written_as_a_whole(
    fields: dict[str, int],
) -> None:
    blocks, _ = region()
    block = blocks.direct(1)
    set_all(blocks.indirect(1), fields)
    names = ("dup", "bytes_used", "next_buffer", "last_buffer", "total_bytes")
    given_fields = {name: fields[name] for name in names}

    block.begin(**given_fields, mode=Mode.BY_BUFFER, buffer_count=9)

    assert block.read() == BlockFields(
        **given_fields,
        data_offset=0,
        next_message=END,
        target=END,
        mode=Mode.BY_BUFFER,
        buffer_count=9,
        generation=fields["generation"],
    )


@clause("MC-4")
@given(FIELDS)
def test_an_icb_that_begins_a_message_has_the_reserved_code(
    fields: dict[str, int],
) -> None:
    blocks, _ = region()
    block = blocks.indirect(4)
    set_all(block, fields)
    names = ("bytes_used", "data_offset", "next_buffer", "last_buffer", "target")
    given_fields = {name: fields[name] for name in names}
    given_fields["total_bytes"] = fields["total_bytes"]

    block.begin(**given_fields, mode=Mode.BY_BUFFER, buffer_count=9)

    assert block.is_indirect
    assert block.read() == BlockFields(
        **given_fields,
        dup=INDIRECT,
        next_message=END,
        mode=Mode.BY_BUFFER,
        buffer_count=9,
        generation=fields["generation"],
    )


@clause("MC-4", "MC-12")
def test_no_count_of_holders_can_be_the_reserved_code() -> None:
    assert HOLDERS_MAX < INDIRECT
    assert INDIRECT == 2**32 - 1


@clause("MC-3", "MC-9")
def test_the_blocks_of_a_message_have_these_fields() -> None:
    """Three buffers for two recipients: what the owner writes into each block."""
    site = Site(buffers=4, size=4, icbs=1, users=2)

    site.pool.publish(content_of(9), [0, 1])

    fields = [site.pool.control.block(index).read() for index in (0, 1, 2, 4)]
    # dup, used, offset, next, last, next message, target, mode, total, count, gen.
    assert fields == [
        (2, 4, 0, 1, 2, END, END, 0, 9, 3, 0),
        (0, 4, 0, 2, 2, END, END, 0, 9, 3, 0),
        (0, 1, 0, END, 2, END, END, 0, 9, 3, 0),
        (INDIRECT, 4, 0, 1, 2, END, 0, 0, 9, 3, 0),
    ]


@clause("MC-3", "MC-17")
def test_data_need_not_begin_at_the_start_of_a_buffer() -> None:
    """The offset of a DCB counts: the owner may have kept the first bytes back."""
    site = Site(buffers=2, size=4)
    site.pool.publish(b"abcd", [0])
    head = site.pool.control.direct(0)
    head.data_offset, head.bytes_used = 1, 2

    assert site.reader.read(site.take(0)) == b"bc"


@clause("MC-3")
def test_a_message_may_be_longer_than_a_word_can_count() -> None:
    blocks, memory = region()

    blocks.direct(0).total_bytes = 2**40

    assert stored(memory, 0, "total_bytes") == 2**40
    assert stored(memory, 0, "buffer_count") == 0


@pytest.mark.parametrize("index", [0, 3])
def test_a_fresh_block_is_free(index: int) -> None:
    site = Site(buffers=3, icbs=1)

    block = site.pool.control.block(index)

    assert block.is_indirect == (index == 3)
    assert (block.generation, block.next_buffer) == (0, (1, 2, END, END)[index])
