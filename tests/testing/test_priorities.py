"""Random priorities: faults that a random walk hardly finds, and repeatability."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, explore
from tests.testing.failing import failure_of
from tests.testing.programs import taking_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def _deep(steps: int) -> Callable[[Run], None]:
    """A fault of depth 3: one task is preempted once, the other once much later.

    All but the last step of the second must run between two steps of the first; a
    random walk would have to choose the second every time.
    """

    def program(run: Run) -> None:
        lock = threading.Lock()
        done: list[str] = []

        def step(what: str) -> None:
            with lock:
                done.append(what)

        def first() -> None:
            step("begin")
            step("end")

        def second() -> None:
            for _ in range(steps):
                step("step")
            step("last")

        run.spawn(first)
        run.spawn(second)
        run.join()
        window = done[done.index("begin") + 1 : done.index("end")]
        assert window != ["step"] * steps

    return program


def _finders(program: Callable[[Run], None], seeds: int, **options: Any) -> int:
    """Return with how many seeds a fault is found."""
    found = 0
    for seed in range(seeds):
        try:
            explore(program, limit=0, seed=seed, **options)
        except Failure:
            found += 1
    return found


@pytest.mark.deep
def test_a_fault_of_depth_3_is_found_that_a_random_walk_does_not_meet() -> None:
    """Of 10 seeds with 400 schedules each; for that fault k is about 40, n is 3."""
    deep = _deep(10)

    assert _finders(deep, 10, random=400) == 0
    assert _finders(deep, 10, random=0, pct=400, depth=3) >= 5
    assert _finders(deep, 10, random=0, pct=400, depth=1) == 0


@pytest.mark.deep
def test_where_no_task_has_to_be_left_alone_for_long_it_is_no_better() -> None:
    shallow = _deep(2)

    assert _finders(shallow, 10, random=100) == 10
    assert _finders(shallow, 10, random=0, pct=100) < 10


def _orders(**options: Any) -> list[list[str]]:
    orders: list[list[str]] = []
    explore(taking_turns(orders), limit=0, random=0, **options)
    return orders[1:]  # the first run is to count its steps


def test_the_same_seed_gives_the_same_runs() -> None:
    assert _orders(pct=30, seed=7) == _orders(pct=30, seed=7)
    assert _orders(pct=30, seed=7) != _orders(pct=30, seed=8)
    assert _orders(seed="7:pct:4") == [_orders(pct=30, seed=7)[4]]


def test_without_changes_each_task_runs_for_as_long_as_it_can() -> None:
    orders = {tuple(order) for order in _orders(pct=100, depth=1)}

    assert len(orders) == 6
    assert all(order == tuple(sorted(order, key=order.index)) for order in orders)


def test_a_failure_tells_the_seed_that_repeats_it() -> None:
    found = failure_of(_deep(2), limit=0, random=0, pct=500, seed=3)
    again = failure_of(_deep(2), seed=found.seed)

    assert found.seed.startswith("3:pct:")
    assert again.schedule == found.schedule


def test_a_task_that_polls_in_a_loop_does_not_starve_the_others() -> None:
    def program(run: Run) -> None:
        done: list[int] = []
        run.spawn(done.append, 1)
        while not done:
            time.sleep(0)

    assert explore(program, limit=0, random=0, pct=50).pct == 50


def test_a_deadline_passes_early_in_some_runs_and_not_in_others() -> None:
    early: set[bool] = set()

    def program(run: Run) -> None:
        event = threading.Event()
        run.spawn(event.set)
        early.add(not event.wait(1))

    explore(program, limit=0, random=0, pct=50)

    assert early == {False, True}


@pytest.mark.parametrize("options", [{"depth": 0}, {"pct": -1}, {"seed": "1:x:2"}])
def test_wrong_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        explore(_deep(1), **options)
