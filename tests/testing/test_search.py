"""Strategies, on synthetic trees of choices: each schedule comes exactly once."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker.testing.scheduling import DivergenceError
from queuebroker.testing.search import Exhaustive, Followed, Forced, RandomWalk, Reduced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queuebroker.testing.scheduling import Strategy

# A tree of choices: at each depth, options and how many of them are free.
Points = list[tuple[int, int]]


@attrs.frozen
class Option:
    """The part of a task that a strategy uses."""

    key: int


TASKS: Any = [Option(key) for key in (11, 12, 13)]

points = st.lists(
    st.integers(1, 3).flatmap(
        lambda options: st.tuples(st.just(options), st.integers(1, options))
    ),
    max_size=6,
)


def _run(strategy: Strategy, tree: Points) -> tuple[int, ...]:
    """Run a program with these choices; a point with one option is no choice."""
    return tuple(
        strategy.choose(TASKS[:options], free, options)
        for options, free in tree
        if options > 1
    )


def _preemptions(schedule: Sequence[int], tree: Points) -> int:
    real = [free for options, free in tree if options > 1]
    return sum(choice >= free for choice, free in zip(schedule, real, strict=True))


@given(tree=points, bound=st.integers(0, 4))
def test_exhaustive_search_takes_every_schedule_up_to_the_bound_once(
    tree: Points, bound: int
) -> None:
    everything = itertools.product(*(range(n) for n, _ in tree if n > 1))
    wanted = {each for each in everything if _preemptions(each, tree) <= bound}
    search = Exhaustive(bound, limit=10_000)

    taken = []
    rounds = []
    for branch in search:
        taken.append(_run(branch, tree))
        rounds.append(search.round)
        search.done(branch)

    assert Counter(taken) == Counter(wanted)
    assert rounds == [_preemptions(each, tree) for each in taken]
    assert search.complete == list(range(bound + 1))


def test_exhaustive_search_stops_at_its_limit() -> None:
    tree = [(3, 3)] * 5
    search = Exhaustive(bound=0, limit=7)

    taken = []
    for branch in search:
        taken.append(_run(branch, tree))
        search.done(branch)

    assert len(set(taken)) == 7
    assert search.complete == []


def test_exhaustive_search_notices_other_options_than_before() -> None:
    search = Exhaustive(bound=2, limit=100)
    branches = iter(search)
    first = next(branches)
    _run(first, [(3, 3), (2, 1)])
    search.done(first)

    second = next(branches)
    with pytest.raises(DivergenceError, match="there are 2 options, the time before"):
        _run(second, [(2, 2)])


def test_forced_choices_are_followed_by_first_options() -> None:
    strategy = Forced([1, 2])

    assert _run(strategy, [(2, 1), (1, 1), (3, 1), (3, 3)]) == (1, 2, 0)
    assert strategy.choices == [1, 2, 0]


def test_a_forced_choice_that_is_not_there_is_an_error_or_the_first_option() -> None:
    two = TASKS[:2]
    with pytest.raises(DivergenceError, match="choice 0 of the schedule is option 2"):
        Forced([2]).choose(two, 1, 2)

    assert Forced([2], lenient=True).choose(two, 1, 2) == 0


def test_followed_tasks_run_in_turn_and_the_blocked_ones_are_skipped() -> None:
    a, b, c = TASKS
    strategy = Followed([(c.key, False), (a.key, False), (b.key, True), (b.key, False)])

    assert strategy.choose([a, b, c], 1, 3) == 2
    assert strategy.choose([c, b], 1, 2) == 1  # no `a`, no early deadline of `b`
    assert strategy.choose([c, b], 1, 2) == 0
    assert strategy.turns == [(c.key, False), (b.key, False), (c.key, False)]


def test_reduced_choices_get_one_more_after_each_release() -> None:
    strategy = Reduced([1, 1])

    two = TASKS[:2]
    strategy.choose(two, 1, 2)
    strategy.choose_after_release(two, 1, 2)
    strategy.choose(two, 1, 2)

    assert strategy.choices == [1, 0, 1]


def test_a_random_walk_is_the_same_for_the_same_seed_and_index() -> None:
    tree = [(3, 1)] * 30

    walks = [_run(RandomWalk(1, index), tree) for index in range(20)]

    assert walks == [_run(RandomWalk(1, index), tree) for index in range(20)]
    assert len(set(walks)) == 20
    assert _run(RandomWalk(2, 0), tree) not in walks


def test_some_random_walks_are_never_hasty_and_some_often() -> None:
    """Else an operation with a timeout would always or never time out."""
    two = TASKS[:2]

    hasty = [RandomWalk(1, index).choose(two, 1, 1) for index in range(200)]

    assert 20 < sum(hasty) < 100
