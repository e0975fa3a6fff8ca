"""`Pool.check`: each kind of damage to a control region is reported."""

from __future__ import annotations

import re

import pytest

from bus.features.memory import Excerpt, Mode
from bus.features.memory.blocks import END
from specs.clauses import clause
from tests.features.memory.support import Site, content_of


def crowded() -> Site:
    """Return a pool with blocks in every state.

    DCBs: 0 and 1 a whole message; 2 and 3 an original; 4 the new bytes of a variant; 5
    borrowed for the variant's second recipient; 6 and 7 free. ICBs: 8 for the whole
    message, 9 and 10 for the variant; none is free.
    """
    site = Site(buffers=8, size=4, icbs=3, users=3)
    site.pool.publish(content_of(7), [0, 1])
    site.pool.publish(content_of(8), [2], mode=Mode.BY_BUFFER)
    lease = site.take(2).lease
    site.pool.publish_variant(2, lease, [b"new", Excerpt(1, 1)], [0, 1])
    assert site.pool.check() == []
    assert site.pool.census() == (2, 5, 1, 0, 3, 4, 1)
    return site


@clause("MC-23")
@pytest.mark.parametrize(
    ("index", "field", "number", "report"),
    [
        (0, "dup", 1, "DCB 0 counts 1 holders, and has 2"),
        (3, "dup", 4, "DCB 3 counts 4 holders, and has 3"),
        (1, "dup", 1, "DCB 1 is no head, and has dup 1"),
        (6, "dup", 1, "block 6 of the free DCBs has dup 1"),
        (1, "bytes_used", 4, "have 8 bytes, and should have 7"),
        (0, "total_bytes", 8, "ICB 8 differs from its DCB 0"),
        (8, "total_bytes", 8, "ICB 8 differs from its DCB 0"),
        (8, "bytes_used", 3, "ICB 8 differs from its DCB 0"),
        (8, "data_offset", 3, "ICB 8 differs from its DCB 0"),
        (8, "next_buffer", END, "ICB 8 differs from its DCB 0"),
        (8, "last_buffer", 0, "ICB 8 differs from its DCB 0"),
        (8, "buffer_count", 1, "ICB 8 differs from its DCB 0"),
        (0, "buffer_count", 3, "and should be 3"),
        (8, "target", 1, "block 1 is among"),
        (1, "data_offset", 2, "the bytes of block 1 end at 5, outside of its buffer"),
        (0, "last_buffer", 0, "do not end with 0"),
        (0, "next_buffer", END, "block 1 is in no place"),
        (0, "next_buffer", 0, "have no end"),
        (1, "next_buffer", 6, "block 6 is among the free DCBs and the buffers"),
        (1, "next_buffer", 99, "leads to 99"),
        (6, "next_buffer", END, "the tail of the free DCBs is not the last one"),
        (7, "next_buffer", 2, "block 2 is among the free DCBs and the"),
        (7, "next_buffer", 8, "block 8 is not at home in the free DCBs"),
        (2, "mode", 0, "is counted as a whole|counts .* holders"),
        (3, "mode", 0, "block 3 is counted as a whole, unlike its message 2"),
        (4, "total_bytes", 5, "should have 5"),
        (0, "next_message", END, "2 messages queued for 0 are counted, and 1"),
        (9, "target", 6, "block 6 is among the free DCBs and the buffers that count"),
    ],
)
def test_a_changed_field_is_reported(
    index: int, field: str, number: int, report: str
) -> None:
    site = crowded()

    setattr(site.pool.control.indirect(index), field, number)

    assert re.search(report, "\n".join(site.pool.check()))


@clause("MC-23")
@pytest.mark.parametrize("field", ["head", "tail", "length"])
@pytest.mark.parametrize("queue", ["free_direct", "free_indirect", "user"])
def test_a_changed_field_of_a_queue_is_reported(queue: str, field: str) -> None:
    site = crowded()
    layout = site.layout
    at = {
        "free_direct": layout.free_direct_at,
        "free_indirect": layout.free_indirect_at,
        "user": layout.user_queue_at(1),
    }[queue]

    setattr(site.pool.control.queue(at), field, 5)

    assert site.pool.check() != []


@clause("MC-23")
def test_counts_outside_of_the_blocks_are_checked_too() -> None:
    site = crowded()
    site.pool._supply.borrowed = 0
    site.pool._recipients[0].held_bytes += 1

    said = site.pool.check()

    assert "0 DCBs are counted as borrowed, and 1 are" in said
    assert "recipient 0 counts 17 bytes, and holds 16" in said


@clause("MC-23")
def test_a_head_that_two_recipients_have_is_reported() -> None:
    site = Site(users=2)
    site.pool.publish(b"abc", [0])
    site.pool.control.direct(0).dup = 2

    site.pool._recipients[1].enqueue(site.pool.control.block(0))

    assert "two recipients have the DCB 0 itself" in site.pool.check()
