"""Turns of tasks, and the ways in which a run can fail."""

from __future__ import annotations

import contextvars
import threading
import time
from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import FailureKind, Report, explore
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from queuebroker.testing import Run

_name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")

_local = threading.local()


# Failures.


def test_locks_taken_in_two_orders_are_a_deadlock() -> None:
    def program(run: Run) -> None:
        first = threading.Lock()
        second = threading.Lock()

        def forward() -> None:
            with first, second:
                pass

        def backward() -> None:
            with second, first:
                pass

        run.spawn(forward)
        run.spawn(backward)

    assert explore(program, bound=0, random=0).exhausted
    failure = failure_of(program, bound=1, random=0)

    assert failure.kind is FailureKind.DEADLOCK
    assert "waits for second, which backward has" in failure.story
    assert "waits for first, which forward has" in failure.story


def test_a_lock_taken_twice_is_a_deadlock() -> None:
    def program(_run: Run) -> None:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    failure = failure_of(program)

    assert failure.kind is FailureKind.DEADLOCK
    assert "waits for lock, which it has itself" in failure.story


def test_waiting_for_ever_beside_a_daemon_is_a_deadlock() -> None:
    def program(_run: Run) -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        threading.Event().wait()

    assert failure_of(program).kind is FailureKind.DEADLOCK


def test_daemons_may_be_left() -> None:
    unwound: list[bool] = []

    def wait() -> None:
        try:
            threading.Event().wait()
        finally:
            unwound.append(True)

    def program(_run: Run) -> None:
        unwound.clear()
        threading.Thread(target=wait, daemon=True).start()

    explore(program)

    # In the last run it may not have begun at all.
    assert unwound in ([], [True])


@pytest.mark.deep
def test_steps_without_end_are_a_livelock() -> None:
    def program(_run: Run) -> None:
        while True:
            time.sleep(1)

    failure = failure_of(program)

    assert failure.kind is FailureKind.LIVELOCK
    assert "no end after 20,000 steps" in failure.story


def test_looking_at_the_clock_without_end_is_a_livelock() -> None:
    def program(_run: Run) -> None:
        while time.monotonic() < 1:
            pass

    failure = failure_of(program)

    assert failure.kind is FailureKind.LIVELOCK
    assert "looked at the clock" in failure.story


def test_a_story_reports_a_predicate_that_raises() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()
        stock = {"apples": 0}

        def wait() -> None:
            with condition:
                condition.wait_for(lambda: stock["apples"])

        run.spawn(wait)
        run.settle()
        stock.clear()

    failure = failure_of(program)

    assert failure.kind is FailureKind.EXCEPTION
    assert (
        "what wait sleeps for cannot be evaluated: KeyError: 'apples'" in failure.story
    )


def test_a_predicate_may_take_locks() -> None:
    def program(run: Run) -> None:
        lock = threading.Lock()
        guard = threading.RLock()
        condition = threading.Condition(lock)
        items: list[int] = []

        def count() -> int:
            with guard:
                return len(items)

        def wait() -> None:
            with condition:
                condition.wait_for(count)

        run.spawn(wait)
        run.settle()
        with guard, condition:
            items.append(1)
            condition.notify()

    explore(program)


def test_a_predicate_is_evaluated_as_the_sleeper_would() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()
        woken: list[str] = []

        def wait(name: str) -> None:
            _name.set(name)
            thread = threading.current_thread()
            with condition:
                condition.wait_for(
                    lambda: (
                        woken == [name]
                        and _name.get() == name
                        and threading.current_thread() is thread
                    )
                )

        run.spawn(wait, "forgotten")
        run.settle()
        woken.append("forgotten")

    assert failure_of(program).kind is FailureKind.LOST_WAKEUP


# The identity of a task.


def test_a_task_has_a_context_of_its_own() -> None:
    def program(run: Run) -> None:
        assert _name.get() == "nobody"
        _name.set("main")
        spawned = run.spawn(_name.get)
        run.join()
        assert spawned.result == "nobody"

    explore(program)


def test_thread_local_data_does_not_last_from_run_to_run() -> None:
    def program(run: Run) -> None:
        assert not hasattr(_local, "mark")
        _local.mark = "main"
        spawned = run.spawn(hasattr, _local, "mark")
        run.join()
        assert not spawned.result

    explore(program)


def test_an_unlocked_counter_needs_finer_switch_points() -> None:
    """Without switch points the fault stays hidden: the explorer's page says so."""

    def program(run: Run) -> None:
        total = [0]

        def add() -> None:
            total[0] += 1

        run.spawn(add)
        run.spawn(add)
        run.join()
        assert total == [2]

    report: Report = explore(program)

    assert report.exhausted
