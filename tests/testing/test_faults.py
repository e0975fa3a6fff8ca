"""The classic faults are found fast; correct programs pass an exhaustive search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import Failure, FailureKind, explore, replay
from tests.testing.bounded import (
    Bounded,
    Closed,
    ForgetsTheOthers,
    GivesUpItsTurn,
    LooksOnce,
    LooksTwice,
    OneForBoth,
    program,
)
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from queuebroker.testing import Run


def put(queue: Bounded) -> None:
    queue.put("item")


def put_twice(queue: Bounded) -> None:
    queue.put("first")
    queue.put("second")


def put_thrice(queue: Bounded) -> None:
    put_twice(queue)
    queue.put("third")


def get(queue: Bounded) -> None:
    queue.get()


def get_twice(queue: Bounded) -> None:
    queue.get()
    queue.get()


def get_thrice(queue: Bounded) -> None:
    get_twice(queue)
    queue.get()


def get_in_time(queue: Bounded) -> None:
    queue.get(timeout=5)


def close(queue: Bounded) -> None:
    queue.close()


def put_and_close(queue: Bounded) -> None:
    queue.put("item")
    queue.close()


# Program, failure, and the schedules in which an exhaustive search must find it.
FAULTS = {
    "one condition for both sides": (
        program(OneForBoth, get, get, put, put),
        FailureKind.LOST_WAKEUP,
        10,
    ),
    "if for while": (program(LooksOnce, get, get, put, put), FailureKind.EXCEPTION, 50),
    "look and sleep in two steps": (
        program(LooksTwice, get, put),
        FailureKind.LOST_WAKEUP,
        10,
    ),
    "closing wakes one": (
        program(ForgetsTheOthers, get, get, close),
        FailureKind.LOST_WAKEUP,
        1,
    ),
    "a timeout eats a wake-up": (
        program(GivesUpItsTurn, get_in_time, get, put_twice),
        FailureKind.DEADLOCK,
        4_000,
    ),
}

# Actors, schedules with 0, 1, 2 preemptions, classes.
RIGHT = {
    "put; get": ((put, get), [4, 13, 32], 2),
    "2 put; 2 get": ((put_twice, get_twice), [4, 30, 120], 8),
    "3 put; 3 get": ((put_thrice, get_thrice), [4, 46, 256], 22),
    "get; get; close": ((get, get, close), [15, 139, 672], 10),
    "put, close; get; get": ((put_and_close, get, get), [35, 313, 1770], 24),
    "2 put; get; get": ((put_twice, get, get), [28, 337, 2063], 28),
    "timed get; get; 2 put": ((get_in_time, get, put_twice), [31, 438, 3142], 58),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", FAULTS)
def test_exhaustive_search_finds_the_fault(name: str) -> None:
    faulty, kind, schedules = FAULTS[name]

    found = failure_of(faulty, random=0, limit=schedules)

    assert found.kind is kind


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FAULTS)
def test_random_search_finds_the_fault(name: str, seed: int) -> None:
    faulty, _, _ = FAULTS[name]

    with pytest.raises(Failure):
        explore(faulty, limit=0, random=400, seed=seed)


@pytest.mark.deep
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_replayed_every_time(name: str) -> None:
    faulty, kind, _ = FAULTS[name]
    found = failure_of(faulty, limit=0, random=2_000, seed=0)
    schedule = found.schedule

    again = []
    for _ in range(40):
        with pytest.raises(Failure) as replayed:
            replay(faulty, schedule)
        again.append(replayed.value)

    assert {failure.kind for failure in again} == {kind}
    assert {failure.story for failure in again} == {
        found.story.replace(f"\nseed: {found.seed}", "")
    }


@pytest.mark.deep
@pytest.mark.parametrize("name", RIGHT)
def test_the_right_queue_passes_every_schedule_up_to_the_bound(name: str) -> None:
    actors, counts, classes = RIGHT[name]

    report = explore(program(Bounded, *actors), bound=2, random=0)

    assert report.exhausted
    assert [each.schedules for each in report.rounds] == counts
    assert report.classes == classes


def test_a_timeout_does_not_mask_a_lost_wake_up() -> None:
    """With a timeout every task ends; the lost wake-up is still reported."""

    def close_one_of_two(run: Run) -> None:
        queue = ForgetsTheOthers()
        for _ in range(2):
            run.spawn(_get_or_give_up, queue)
        run.settle()
        queue.close()

    found = failure_of(close_one_of_two)

    assert found.kind is FailureKind.LOST_WAKEUP


def _get_or_give_up(queue: Bounded) -> None:
    with pytest.raises((TimeoutError, Closed)):
        queue.get(timeout=5)
