"""Which slots hold their record."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.journal.format import (
    MARK_OFFSET,
    RECORD,
    RECORD_BYTES,
    Record,
    impossible_slots,
    invalid_slots,
    mark,
    marks,
)

# The record with the last mark before the marks start over.
LAST_BEFORE_WRAP = next(
    n for n in itertools.count(2**32 - 2 - 0x51424A31) if mark(n) == 2**32 - 1
)


def slots(first_n: int, count: int, wrong: set[int] = frozenset()) -> memoryview:  # type: ignore[assignment] # read only
    """Return slots with marks only; ``wrong`` ones have their neighbour's."""
    data = bytearray(count * RECORD_BYTES)
    for slot in range(count):
        shown = mark(first_n + slot + (slot in wrong))
        struct.pack_into("<I", data, slot * RECORD_BYTES + MARK_OFFSET, shown)
    return memoryview(data)


@given(st.integers(0, 2**64 - 1) | st.integers(LAST_BEFORE_WRAP - 50, LAST_BEFORE_WRAP))
def test_marks_in_bulk_match_the_marks_of_single_records(first_n: int) -> None:
    assert list(marks(first_n, 60)) == [mark(first_n + i) for i in range(60)]


@given(
    st.integers(0, 2**40) | st.integers(LAST_BEFORE_WRAP - 50, LAST_BEFORE_WRAP),
    st.integers(0, 120),
    st.sets(st.integers(0, 119)),
)
def test_exactly_the_wrong_slots_are_named(
    first_n: int, count: int, wrong: set[int]
) -> None:
    data = slots(first_n, count, wrong)

    found = invalid_slots(data, first_n, count)

    assert found == sorted(slot for slot in wrong if slot < count)


def test_wrong_slots_are_found_in_every_chunk() -> None:
    wrong = {0, 4095, 4096, 8191, 9999}

    assert invalid_slots(slots(7, 10_000, wrong), 7, 10_000) == sorted(wrong)


def test_an_empty_slot_is_not_valid() -> None:
    assert invalid_slots(memoryview(bytes(3 * RECORD_BYTES)), 0, 3) == [0, 1, 2]


def records(count: int, **numbers: int) -> memoryview:
    """Return records from 5 on; the fourth and the last have wrong numbers."""
    fields = dict.fromkeys(Record._fields, 0)
    whole = [Record(**fields | {"n": 5 + slot}) for slot in range(count)]
    for slot in (3, count - 1):
        whole[slot] = whole[slot]._replace(**numbers)
    return memoryview(b"".join(RECORD.pack(*record) for record in whole))


@pytest.mark.parametrize(
    ("field", "number"),
    [
        *[("n", 0), ("n", 2**63), ("mono", 2**61), ("mono", -(2**61) - 1)],
        *[("seq", 2**62), ("mid", 2**64 - 1)],
    ],
)
def test_impossible_numbers_are_found(field: str, number: int) -> None:
    data = records(5000, **{field: number})

    assert impossible_slots(data, 5, 5000) == [3, 4999]


@pytest.mark.parametrize(
    "numbers",
    [
        *[{"mono": 2**61 - 1}, {"mono": -(2**61)}],
        *[{"seq": 2**62 - 1}, {"mid": 2**62 - 1}, {"flow": 2**64 - 1}],
    ],
)
def test_a_possible_number_passes(numbers: dict[str, int]) -> None:
    assert impossible_slots(records(10, **numbers), 5, 10) == []
