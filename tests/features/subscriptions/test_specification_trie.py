"""`SpecificationTrie`, compared with a scan of all specifications."""

from __future__ import annotations

import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

import bus as package
from bus.features.subscriptions.interests import SpecificationTrie
from bus.model.specification import Specification
from specs.clauses import clause
from tests.strikes import everywhere

if TYPE_CHECKING:
    from tests.strikes import Blow

SEGMENTS = ["a", "b"]
SPECIFICATIONS = st.builds(
    Specification,
    st.lists(st.sampled_from([*SEGMENTS, "*", "**"]), min_size=1, max_size=4).map(
        "/".join
    ),
    machine=st.sampled_from([None, "m"]),
)
NAMES = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=5).map("/".join)
VALUES = st.integers(0, 2)

# The content of a trie, in the order of insertion.
Held = list[tuple[Specification, int]]


class TrieMachine(RuleBasedStateMachine):
    """Values are added and removed; a scan finds the same for any name."""

    def __init__(self) -> None:
        super().__init__()
        self.trie: SpecificationTrie[int] = SpecificationTrie()
        self.held: Held = []

    @rule(specification=SPECIFICATIONS, value=VALUES)
    def add(self, specification: Specification, value: int) -> None:
        self.trie.add(specification, value)
        if (specification, value) not in self.held:
            self.held.append((specification, value))

    @rule(specification=SPECIFICATIONS, value=VALUES)
    def discard(self, specification: Specification, value: int) -> None:
        self.trie.discard(specification, value)
        if (specification, value) in self.held:
            self.held.remove((specification, value))

    @rule(data=st.data())
    def discard_one_that_is_held(self, data: st.DataObject) -> None:
        if self.held:
            self.discard(*data.draw(st.sampled_from(self.held)))

    @rule(name=NAMES)
    def ask(self, name: str) -> None:
        expected = [each for one, each in self.held if one.matches(name)]
        assert self.trie.matching(name) == expected

    @invariant()
    def holds_what_was_added(self) -> None:
        assert len(self.trie) == len(self.held)
        assert set(self.trie._held) == {one for one, _ in self.held}

    def teardown(self) -> None:
        """Check that removed values leave nothing behind, not even nodes."""
        for specification, value in self.held:
            self.trie.discard(specification, value)
        assert not self.trie._held
        assert self.trie._root.onward == {}
        assert self.trie._root.held == {}


@pytest.mark.deep
def test_the_trie_finds_the_same_specifications_as_a_full_scan() -> None:
    run_state_machine_as_test(TrieMachine)


def test_values_come_in_the_order_they_were_added() -> None:
    """For any specifications, and whether or not the values can be compared."""
    trie: SpecificationTrie[object] = SpecificationTrie()
    values = [object() for _ in range(6)]
    patterns = ["a/b", "**", "a/*", "a/b", "**/b", "**"]
    for pattern, value in zip(patterns, values, strict=True):
        trie.add(Specification(pattern), value)

    assert trie.matching("a/b") == values
    assert trie.matching("a/c") == [values[1], values[2], values[5]]


def test_a_value_added_again_keeps_its_place() -> None:
    trie: SpecificationTrie[str] = SpecificationTrie()
    trie.add(Specification("a"), "first")
    trie.add(Specification("a"), "second")

    trie.add(Specification("a"), "first")

    assert trie.matching("a") == ["first", "second"]


def test_a_value_of_two_specifications_comes_for_each() -> None:
    trie: SpecificationTrie[str] = SpecificationTrie()
    trie.add(Specification("a"), "x")
    trie.add(Specification("*"), "x")
    trie.add(Specification("**/**"), "x")

    assert trie.matching("a") == ["x", "x", "x"]
    trie.discard(Specification("*"), "x")
    assert trie.matching("a") == ["x", "x"]


def steps_to_find(trie: SpecificationTrie[int], name: str) -> int:
    """Count the calls that one look-up makes, Python's own included."""
    steps = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal steps
        steps += event in {"call", "c_call"}

    earlier = sys.getprofile()
    sys.setprofile(count)
    try:
        trie.matching(name)
    finally:
        sys.setprofile(earlier)
    return steps


def test_a_name_is_found_among_many_as_among_few() -> None:
    trie: SpecificationTrie[int] = SpecificationTrie()
    trie.add(Specification("a/*/c"), -1)
    trie.add(Specification("**/c"), -2)
    alone = steps_to_find(trie, "a/b/c")

    for number in range(1_000):
        trie.add(Specification(f"other/{number}/*"), number)
        trie.add(Specification(f"a/{number}/**"), number)
        trie.add(Specification(f"**/c/{number}"), number)

    assert trie.matching("a/b/c") == [-1, -2]
    # Python does not count each of its own calls every time.
    assert steps_to_find(trie, "a/b/c") < 2 * alone


@pytest.mark.deep
def test_memory_is_flat_while_specifications_come_and_go() -> None:
    trie: SpecificationTrie[int] = SpecificationTrie()
    trie.add(Specification("kept/*"), -1)

    def churn(count: int) -> None:
        for number in range(count):
            specification = Specification(f"kept/{number}/**/x")
            trie.add(specification, number)
            trie.add(specification, number + 1)
            trie.discard(specification, number)
            trie.discard(specification, number + 1)

    churn(100)  # tables reach their final size
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        churn(10_000)
        grown = sum(
            line.size_diff
            for line in tracemalloc.take_snapshot().compare_to(before, "filename")
            if "specification" in line.traceback[0].filename
        )
    finally:
        tracemalloc.stop()

    assert grown < 10_000  # less than a byte for each added and removed value
    assert list(trie._held) == [Specification("kept/*")]


@clause("BUS-MSG-5")
def test_an_interrupted_addition_hides_no_later_value() -> None:
    """Nothing is left of it once it is removed, whether it was added or not."""

    def case(interrupted: Blow) -> None:
        trie, specification = SpecificationTrie[int](), Specification("news/*")

        interrupted(lambda: trie.add(specification, 1))

        trie.add(specification, 2)
        assert trie.matching("news/x") in ([2], [1, 2])
        trie.discard(specification, 1)
        trie.discard(specification, 2)
        assert trie.is_empty
        assert trie.matching("news/x") == []

    everywhere(case, packages=(package,))


@clause("BUS-DEREG-10")
@pytest.mark.parametrize("again", [False, True])
def test_an_interrupted_removal_is_completed_by_the_next_one(*, again: bool) -> None:
    """Nothing is left, and a value added in between is found.

    again: True if one is.
    """

    def case(interrupted: Blow) -> None:
        trie, specification = SpecificationTrie[int](), Specification("news/*/x")
        trie.add(Specification("news/a"), 0)
        trie.add(specification, 1)

        interrupted(lambda: trie.discard(specification, 1))

        if again:
            trie.add(specification, 2)
            assert 2 in trie.matching("news/a/x")
        trie.discard(specification, 1)
        assert trie.matching("news/a/x") == ([2] if again else [])
        assert trie.holds("news/*/x") is again
        trie.discard(specification, 2)
        assert not trie.holds("news/*/x")
        assert trie.matching("news/a") == [0]

    everywhere(case, packages=(package,))
