"""`Deadlines`: the heap of deadlines, against a plain scan of all of them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bus.kernel.timers import Deadlines
from specs.clauses import clause


class Waiting(RuleBasedStateMachine):
    """Items that begin to wait, wait longer, and end; many more than are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.until: dict[int, float] = {}
        self.deadlines: Deadlines[int] = Deadlines(self.until.get)

    @rule(item=st.integers(0, 9), deadline=st.integers(0, 20))
    def waits(self, item: int, deadline: float) -> None:
        self.deadlines.add((item, deadline))
        self.until[item] = deadline

    @rule(item=st.integers(0, 9))
    def ends(self, item: int) -> None:
        self.until.pop(item, None)

    @rule(items=st.integers(100, 300))
    def many_wait_and_end(self, items: int) -> None:
        for item in range(1000, 1000 + items):
            self.deadlines.add((item, 5.0))

    @rule(now=st.integers(0, 20), removes=st.booleans())
    def time_passes(self, now: float, *, removes: bool) -> None:
        expected = sorted(at for at in self.until.values() if at <= now)
        found = []
        for item in self.deadlines.due(now):
            found.append(self.until[item])
            if removes:
                del self.until[item]
            else:
                self.until[item] = 100.0
                self.deadlines.add((item, 100.0))
        assert found == expected

    @invariant()
    def the_first_is_known(self) -> None:
        assert self.deadlines.next() == min(self.until.values(), default=None)

    @invariant()
    def what_has_ended_is_forgotten(self) -> None:
        """The heap holds at most twice as many entries as wait, and a constant."""
        assert len(self.deadlines._heap) <= 1000


test_deadlines_agree_with_a_scan = Waiting.TestCase


@clause("BUS-ROUTE-19")
def test_an_interrupted_item_stays_due() -> None:
    until = {"a": 1.0, "b": 2.0}
    deadlines: Deadlines[str] = Deadlines(until.get)
    for item, deadline in until.items():
        deadlines.add((item, deadline))

    for item in deadlines.due(3.0):
        assert item == "a"
        break

    assert list(deadlines.due(3.0)) == ["a", "b"]
    assert list(deadlines.due(3.0)) == []


@clause("BUS-ROUTE-19")
def test_of_many_items_that_begin_to_wait_together_each_becomes_due() -> None:
    """Each has its deadline before the first of them waits."""
    until = dict[int, float]()
    deadlines: Deadlines[int] = Deadlines(until.get)
    together = dict.fromkeys(range(200), 1.0)
    deadlines.add(*together.items())
    until.update(together)

    assert len(list(deadlines.due(1.0))) == 200
