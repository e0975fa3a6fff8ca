"""Which slots hold their record."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st

from bus.journal.format import MARK_OFFSET, RECORD_BYTES, mark
from bus.journal.slots import invalid_slots, marks

# The record whose mark is the last before the marks begin again.
LAST_BEFORE_WRAP = next(
    n for n in itertools.count(2**32 - 2 - 0x51424A31) if mark(n) == 2**32 - 1
)


def slots(first_n: int, count: int, wrong: set[int] = frozenset()) -> memoryview:  # type: ignore[assignment] # read only
    """Slots with nothing but marks; ``wrong`` ones have their neighbour's."""
    data = bytearray(count * RECORD_BYTES)
    for slot in range(count):
        shown = mark(first_n + slot + (slot in wrong))
        struct.pack_into("<I", data, slot * RECORD_BYTES + MARK_OFFSET, shown)
    return memoryview(data)


@given(st.integers(0, 2**64 - 1) | st.integers(LAST_BEFORE_WRAP - 50, LAST_BEFORE_WRAP))
def test_marks_are_those_of_the_records(first_n: int) -> None:
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
