"""`MissingTable` against a plain set of numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from bus.kernel.streams.incoming_stream import MissingTable
from specs.clauses import clause

NEAR = st.integers(0, 60)


class MissingTableMachine(RuleBasedStateMachine):
    """Numbers are skipped at the upper end, and arrive or are dropped anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.table = MissingTable()
        self.plain: set[int] = set()
        self.end = 0

    @rule(skip=st.integers(0, 5), width=st.integers(0, 6))
    def append(self, skip: int, width: int) -> None:
        start = self.end + skip
        self.table.append(start, start + width)
        self.plain.update(range(start, start + width))
        self.end = start + width

    @rule(number=NEAR)
    def remove(self, number: int) -> None:
        assert self.table.remove(number) is (number in self.plain)
        self.plain.discard(number)

    @rule(floor=NEAR)
    def drop_below(self, floor: int) -> None:
        below = {number for number in self.plain if number < floor}
        assert self.table.drop_below(floor) == len(below)
        self.plain -= below

    @rule()
    def drop_lowest(self) -> None:
        if self.table:
            lowest = set(range(*next(iter(self.table))))
            assert self.table.drop_lowest() == len(lowest)
            self.plain -= lowest

    @invariant()
    def agrees(self) -> None:
        ranges = list(self.table)
        assert [n for start, stop in ranges for n in range(start, stop)] == sorted(
            self.plain
        )
        assert all(start < stop for start, stop in ranges)
        assert all(a[1] < b[0] for a, b in pairwise(ranges))
        assert self.table.count == len(self.plain)
        assert self.table.lowest == min(self.plain, default=None)
        assert all((n in self.table) is (n in self.plain) for n in range(self.end + 2))


def test_the_table_holds_the_same_numbers_as_a_set() -> None:
    run_state_machine_as_test(MissingTableMachine)


@clause("AMO-11")
def test_a_gap_costs_the_same_however_wide_it_is() -> None:
    """A jump of 2**40 is one entry; any number in it is found and removed."""
    table = MissingTable()

    table.append(1, 2**40)

    assert len(table) == 1
    assert table.remove(2**39)
    assert list(table) == [(1, 2**39), (2**39 + 1, 2**40)]
    assert table.count == 2**40 - 2
