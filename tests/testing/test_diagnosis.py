"""From a failed schedule to a short one with the same failure."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import Failure, FailureKind, replay
from tests.testing.bounded import Bounded, GivesUpItsTurn, LooksOnce, program
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def _deadlock_among_many(run: Run) -> None:
    """Two tasks can block each other; three more only make schedules long."""
    first = threading.Lock()
    second = threading.Lock()
    counter = threading.Lock()

    def count() -> None:
        for _ in range(4):
            with counter:
                pass

    def forward() -> None:
        with first, second:
            pass

    def backward() -> None:
        with second, first:
            pass

    run.spawn(count)
    run.spawn(forward)
    run.spawn(count)
    run.spawn(backward)
    run.spawn(count)


def _put_twice(queue: Bounded) -> None:
    queue.put(1)
    queue.put(2)


def _found(faulty: Callable[[Run], object], seed: int) -> Failure:
    return failure_of(faulty, limit=0, random=2_000, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_a_story_of_a_random_failure_has_at_most_one_preemption_if_possible(
    seed: int,
) -> None:
    failure = _found(_deadlock_among_many, seed)

    assert failure.story.count("is stopped here") <= 1
    assert failure.story.count("takes counter") <= 12


@pytest.mark.parametrize(
    "faulty",
    [
        program(LooksOnce, Bounded.close, lambda queue: queue.get()),
        program(
            GivesUpItsTurn,
            lambda queue: queue.get(timeout=5),
            lambda queue: queue.get(),
            _put_twice,
        ),
    ],
    ids=["exception", "deadlock"],
)
def test_a_shortened_schedule_fails_alike(faulty: Callable[[Run], object]) -> None:
    failure = _found(faulty, seed=1)

    with pytest.raises(Failure) as again:
        replay(faulty, failure.schedule)

    assert again.value.kind is failure.kind
    assert not failure.schedule or failure.schedule[-1] != 0
    head = failure.story.splitlines()[0]
    assert again.value.story.splitlines()[0] == head


def test_locks_made_along_the_way_do_not_confuse_the_translation() -> None:
    """Whether an acquire is a choice must not depend on choices after releases."""

    def program(run: Run) -> None:
        guard = threading.Lock()
        made: list[threading.Lock] = []

        def nest() -> None:
            with guard:
                mine = threading.Lock()
                made.append(mine)
            with mine:
                for lock in made:
                    if lock is not mine:
                        with lock:
                            pass

        run.spawn(nest)
        run.spawn(nest)

    found = failure_of(program, random=0)

    assert found.kind is FailureKind.DEADLOCK


@pytest.mark.deep
def test_a_failure_of_the_exhaustive_search_has_a_schedule_for_replay() -> None:
    """That search has no switch points after releases, `replay` has."""
    found = failure_of(_deadlock_among_many, bound=1, random=0)

    with pytest.raises(Failure) as again:
        replay(_deadlock_among_many, found.schedule)

    assert again.value.kind is found.kind
    assert again.value.story == found.story
