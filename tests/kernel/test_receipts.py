"""One number states how far messages were extracted, and never too much."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.kernel.streams.receipts import Receipts
from specs.clauses import clause


@clause("BUS-RELAY-9")
@pytest.mark.parametrize("seed", range(20))
def test_all_messages_up_to_the_reported_number_were_extracted(seed: int) -> None:
    """In any order; only messages above a gap are left out."""
    random = Random(seed)
    numbers = sorted(random.sample(range(1, 100), 20))
    receipts = Receipts()
    for number in numbers:
        receipts.expect(number)
    taken: set[int] = set()

    for number in random.sample(numbers, len(numbers)):
        before = receipts.extracted
        rose = receipts.take(number)
        taken.add(number)
        below = [each for each in numbers if each <= receipts.extracted]
        assert set(below) <= taken
        assert rose == (receipts.extracted > before)
        above = [each for each in numbers if each > receipts.extracted]
        assert not above or above[0] not in taken

    assert receipts.extracted == numbers[-1]


@clause("BUS-RELAY-9")
@given(
    received=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1),
    data=st.data(),
)
def test_many_at_once_are_as_one_after_the_other(
    received: list[tuple[int, int]], data: st.DataObject
) -> None:
    """For arrivals and extractions: in parts of an arrival, in any order."""
    together, singly = Receipts(), Receipts()
    parts: list[tuple[int, int]] = []
    number = 1
    for count, gap in received:
        together.expect(number, count)
        for each in range(number, number + count):
            singly.expect(each)
        cut = data.draw(st.integers(0, count))
        parts += [(number, cut), (number + cut, count - cut)]
        number += count + gap
    parts = [part for part in parts if part[1]]
    if data.draw(st.booleans()):
        parts = data.draw(st.permutations(parts))

    for start, count in parts:
        rose = [singly.take(each) for each in range(start, start + count)]
        assert together.take(start, count) == any(rose)
        assert together.extracted == singly.extracted

    assert not together.unread
    assert not together._taken


@clause("BUS-RELAY-9")
def test_what_follows_a_gap_is_a_range_of_its_own_and_grows() -> None:
    receipts = Receipts()
    for number in (1, 5, 6):
        receipts.expect(number)

    assert [*map(tuple, receipts.unread)] == [(1, 2), (5, 7)]


@clause("BUS-RELAY-9")
def test_once_all_are_settled_no_extraction_of_before_counts() -> None:
    receipts = Receipts()
    receipts.expect(1, 3)
    receipts.take(3)
    receipts.take_all()
    assert receipts.extracted == 3
    receipts.expect(3 + 2, 2)
    receipts.take(5)

    assert not receipts._taken
    assert [*map(tuple, receipts.unread)] == [(6, 7)]
