"""Switch points inside of lines: the faults they find, and the code they split."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import Failure, FailureKind, explore, replay
from tests.testing import bounded
from tests.testing.bounded import Bounded
from tests.testing.failing import failure_of, unnumbered
from tests.testing.lost_update import Counter, counting

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def test_a_lost_update_is_found_where_each_bytecode_is_a_switch_point() -> None:
    found = failure_of(counting, bytecode=[Counter.add], random=0)

    assert found.kind is FailureKind.EXCEPTION
    assert explore(counting, random=50).exhausted


def test_one_preemption_is_needed_for_it_and_counted() -> None:
    """It is a preemption like any other: without one the search finds nothing."""
    assert explore(counting, bytecode=[Counter.add], bound=0, random=0).exhausted
    assert "add is stopped here" in failure_of(counting, bytecode=[Counter.add]).story


LOST_UPDATE = """
exception: main raised LostUpdateError()

1  main   starts add                      lost_update  run.spawn(counter.add)
2  main   starts add-2                    lost_update  run.spawn(counter.add)
3  main   waits for the end of all tasks  lost_update  run.join()
4  add    comes to STORE_ATTR n           lost_update  self.n += 1
   -- add is stopped here; add-2 goes on --
5  add-2  runs                            lost_update  self.n += 1
6  add-2  ends
7  add    does STORE_ATTR n               lost_update  self.n += 1
8  add    ends
9  main   ends with LostUpdateError

raised at:
  lost_update in counting  raise LostUpdateError
tests.testing.lost_update.LostUpdateError

replay with: replay(program, [0, 0, 0, 0, 0, 1], bytecode=[Counter.add])
"""


def test_a_story_names_line_and_instruction() -> None:
    with pytest.raises(Failure) as caught:
        replay(counting, [0, 0, 0, 0, 0, 1], bytecode=[Counter.add])

    assert unnumbered(caught.value.story) == LOST_UPDATE.strip()


@pytest.mark.parametrize("how", ["exhaustive", "random"])
def test_the_schedule_and_the_seed_of_a_failure_repeat_it(how: str) -> None:
    part = {"random": 0} if how == "exhaustive" else {"limit": 0}
    found = failure_of(counting, bytecode=[Counter], seed=1, **part)

    with pytest.raises(Failure) as again:
        replay(counting, found.schedule, bytecode=[Counter])

    assert (
        again.value.story.partition("replay with")[0]
        == (found.story.partition("replay with")[0])
    )
    if how == "random":
        assert failure_of(counting, bytecode=[Counter], seed=found.seed).schedule == (
            found.schedule
        )


def test_to_check_and_then_to_act_is_two_steps() -> None:
    made: list[int] = []

    def get_or_make(cache: dict[str, object]) -> None:
        if "key" not in cache:
            made.append(1)
            cache["key"] = object()

    def program(run: Run) -> None:
        made.clear()
        cache: dict[str, object] = {}
        run.spawn(get_or_make, cache)
        run.spawn(get_or_make, cache)
        run.join()
        assert len(made) == 1

    assert explore(program, random=20).exhausted
    assert failure_of(program, bytecode=[get_or_make]).kind is FailureKind.EXCEPTION


@pytest.mark.deep
def test_a_call_of_a_c_function_is_one_step() -> None:
    def add(items: list[int], new: int) -> None:
        items.append(new)

    def program(run: Run) -> None:
        items: list[int] = []
        for new in range(3):
            run.spawn(add, items, new)
        run.join()
        assert sorted(items) == [0, 1, 2]

    report = explore(program, bytecode=[add])

    assert report.exhausted
    # The six orders of three calls.
    assert report.classes >= 6


def test_the_explorer_does_not_split_functions_that_are_not_named() -> None:
    def program(run: Run) -> None:
        counter = Counter()
        run.spawn(counter.add_twice)
        run.spawn(counter.add_twice)
        run.join()
        assert counter.n == 4

    assert explore(program, bytecode=[Counter.add_twice]).exhausted
    failure_of(program, bytecode=[Counter.add])


class Handover:
    """A deque that never holds more than its capacity, without a lock."""

    def __init__(self, capacity: int) -> None:
        self.items: deque[int] = deque()
        self.room = deque([None] * capacity)
        self.capacity = capacity
        self.most = 0

    def put(self, item: int) -> bool:
        try:
            self.room.pop()
        except IndexError:
            return False
        self.items.append(item)
        self.most = max(self.most, len(self.items))
        return True

    def get(self) -> int | None:
        try:
            item = self.items.popleft()
        except IndexError:
            return None
        self.room.append(None)
        return item


class LooksFirst(Handover):
    """Checks for room, and then puts."""

    def put(self, item: int) -> bool:
        if len(self.items) >= self.capacity:
            return False
        self.items.append(item)
        self.most = max(self.most, len(self.items))
        return True


def _handing_over(make: type[Handover]) -> Callable[[Run], None]:
    def program(run: Run) -> None:
        queue = make(1)
        puts = [run.spawn(queue.put, item, name=f"put {item}") for item in (1, 2)]
        get = run.spawn(queue.get)
        run.join()
        got = [item for item in (get.result, queue.get(), queue.get()) if item]
        assert sorted(got) == [n for n, put in enumerate(puts, 1) if put.result]
        assert queue.most <= 1

    return program


@pytest.mark.deep
def test_a_handover_of_exact_capacity_is_exhausted() -> None:
    report = explore(_handing_over(Handover), bytecode=[Handover], bound=2, random=100)

    assert report.exhausted
    assert report.preemptions >= 2


def test_a_handover_that_looks_first_is_caught() -> None:
    failure_of(_handing_over(LooksFirst), bytecode=[LooksFirst])


def test_a_deadlock_is_found_although_others_stop_inside_of_lines() -> None:
    def program(run: Run) -> None:
        locks = [threading.Lock(), threading.Lock()]

        def take(first: int) -> None:
            with locks[first], locks[1 - first]:
                pass

        run.spawn(take, 0)
        run.spawn(take, 1)

    assert failure_of(program, bytecode=[program]).kind is FailureKind.DEADLOCK


def test_code_with_locks_is_right_at_each_bytecode_too() -> None:
    report = explore(
        bounded.program(Bounded, lambda q: q.put(1), lambda q: q.get()),
        bytecode=[Bounded],
        bound=1,
        random=50,
    )

    assert report.exhausted
