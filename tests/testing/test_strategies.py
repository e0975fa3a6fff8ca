"""Schedules that Hypothesis draws: they find faults, and shrink to short stories."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import queuebroker
from queuebroker.testing import Failure, FailureKind, replay
from queuebroker.testing.search import Schedule
from queuebroker.testing.strategies import schedules
from tests.testing import bounded
from tests.testing.bounded import Bounded, LooksOnce, LooksTwice

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

repeatable = settings(
    derandomize=True,
    database=None,
    max_examples=2_000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)


def _fails(program: Callable[[Run], None], schedule: Schedule) -> bool:
    try:
        replay(program, schedule)
    except Failure:
        return True
    return False


def _get(queue: Bounded) -> None:
    queue.get()


def _put(queue: Bounded) -> None:
    queue.put("item")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("make", "actors", "switches"),
    [(LooksTwice, [_get, _put], 1), (LooksOnce, [_get, _get, _put, _put], 4)],
)
def test_a_fault_is_found_and_its_schedule_shrinks(
    make: type[Bounded], actors: list[Callable[[Bounded], None]], switches: int
) -> None:
    program = bounded.program(make, *actors)

    smallest = find(schedules(), lambda s: _fails(program, s), settings=repeatable)

    assert sum(map(bool, smallest)) <= switches
    with pytest.raises(Failure) as found:
        replay(program, smallest)
    with pytest.raises(Failure) as again:
        replay(program, found.value.schedule)
    assert again.value.story == found.value.story


@pytest.mark.deep
@settings(repeatable, max_examples=100)
@given(items=st.lists(st.integers(), max_size=3), schedule=schedules())
def test_a_test_draws_a_schedule_together_with_the_items_of_its_program(
    items: list[int], schedule: Schedule
) -> None:
    def program(run: Run) -> None:
        queue = Bounded()
        received: list[object] = []

        def put() -> None:
            for item in items:
                queue.put(item)

        def get() -> None:
            received.extend(queue.get() for _ in items)

        run.spawn(put)
        run.spawn(get)
        run.join()
        assert received == items

    assert replay(program, schedule).schedules == 1


@pytest.mark.deep
@settings(repeatable, max_examples=200)
@given(schedules(switches=3, gap=2, options=2))
def test_a_drawn_schedule_keeps_to_its_limits(schedule: Schedule) -> None:
    assert sum(map(bool, schedule)) <= 3
    assert set(schedule) <= {0, 1, 2}
    assert len(schedule) <= 9
    assert not schedule or schedule[-1]


def test_a_choice_that_a_program_does_not_have_is_to_go_on() -> None:
    """Only in a drawn schedule: in a given one it means another program."""

    def program(run: Run) -> None:
        run.spawn(threading.Lock)
        raise LookupError

    with pytest.raises(Failure) as caught:
        replay(program, Schedule([7, 7, 7]))
    assert caught.value.kind is FailureKind.EXCEPTION
    assert caught.value.schedule == []

    with pytest.raises(Failure) as caught:
        replay(program, [7, 7, 7])
    assert caught.value.kind is FailureKind.NONDETERMINISTIC


@pytest.mark.parametrize(
    "wrong", [{"switches": -1}, {"gap": -1}, {"options": 0}], ids=str
)
def test_wrong_limits_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be >="):
        schedules(**wrong)


def test_no_other_module_imports_hypothesis() -> None:
    folder = Path(queuebroker.__file__).parent
    imports = re.compile(r"^\s*(?:from|import) hypothesis\b", re.MULTILINE)

    found = [path for path in folder.rglob("*.py") if imports.search(path.read_text())]

    assert [path.name for path in found] == ["strategies.py"]
