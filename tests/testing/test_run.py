"""The program's interface to its run: tasks, results, settling, interrupts, time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from queuebroker import _sync
from queuebroker.testing import Failure, FailureKind, explore
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def test_a_result_is_the_return_value_of_the_function() -> None:
    def program(run: Run) -> None:
        spawned = run.spawn(divmod, 7, 2)
        run.join()
        assert spawned.result == (3, 1)
        assert spawned.error is None

    explore(program)


def test_a_result_raises_the_exception_of_the_function() -> None:
    def program(run: Run) -> None:
        spawned = run.spawn(divmod, 1, 0)
        run.join()
        with pytest.raises(ZeroDivisionError):
            _ = spawned.result

    explore(program)


def test_an_error_that_was_looked_at_is_no_failure() -> None:
    def program(run: Run) -> None:
        spawned = run.spawn(divmod, 1, 0)
        run.join()
        assert isinstance(spawned.error, ZeroDivisionError)

    explore(program)


def test_a_result_before_the_end_is_refused() -> None:
    def program(run: Run) -> None:
        event = threading.Event()
        spawned = run.spawn(event.wait)
        with pytest.raises(
            RuntimeError, match="the error of wait: it still runs; join"
        ):
            _ = spawned.result
        event.set()

    explore(program)


def test_an_unread_error_is_a_failure_and_its_cause() -> None:
    def program(run: Run) -> None:
        run.spawn(divmod, 1, 0)

    with pytest.raises(Failure, match="divmod raised ZeroDivisionError") as caught:
        explore(program)

    assert caught.value.kind is FailureKind.EXCEPTION
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_error_of_the_program_itself_is_a_failure_and_its_cause() -> None:
    def program(_run: Run) -> None:
        raise LookupError("here")

    with pytest.raises(Failure, match="main raised LookupError: here") as caught:
        explore(program)

    assert isinstance(caught.value.__cause__, LookupError)


def test_a_failure_reports_an_error_rather_than_the_deadlock_that_it_causes() -> None:
    def program(run: Run) -> None:
        done = threading.Event()
        run.spawn(divmod, 1, 0)
        done.wait()

    found = failure_of(program)

    assert found.kind is FailureKind.EXCEPTION


def test_task_names_are_function_names_made_distinct() -> None:
    def program(run: Run) -> None:
        assert [
            run.spawn(time.sleep, 0).name,
            run.spawn(time.sleep, 0).name,
            run.spawn(time.sleep, 0, name="nap").name,
            run.spawn(lambda: None).name,
        ] == ["sleep", "sleep-2", "nap", "lambda"]

    explore(program, bound=0, random=0)


def test_a_run_lasts_until_the_last_task_has_ended() -> None:
    ended: list[str] = []

    def linger() -> None:
        time.sleep(10)
        ended.append("linger")

    def program(run: Run) -> None:
        ended.clear()
        run.spawn(linger)

    explore(program, random=0)

    assert ended == ["linger"]


def test_join_with_a_timeout_tells_whether_it_is_done() -> None:
    def program(run: Run) -> None:
        spawned = run.spawn(time.sleep, 2)
        assert not spawned.join(timeout=1)
        assert run.now == 1
        assert spawned.join(timeout=2)
        assert run.now == 2

    explore(program, bound=0, random=0)


def test_settle_returns_when_no_other_task_can_run() -> None:
    def program(run: Run) -> None:
        lock = threading.Lock()
        steps: list[int] = []

        def work() -> None:
            for number in range(3):
                with lock:
                    steps.append(number)

        run.spawn(work)
        run.spawn(work)
        run.settle()
        assert sorted(steps) == [0, 0, 1, 1, 2, 2]

    explore(program)


def test_settle_lets_no_deadline_pass() -> None:
    """Not even on a slow machine: a test uses it to state "it still waits"."""

    def program(run: Run) -> None:
        event = threading.Event()
        lock = threading.Lock()

        def work() -> None:
            for _ in range(3):
                with lock:
                    pass

        waiter = run.spawn(event.wait, 5)
        run.spawn(work)
        # Time may have advanced already, while this task was starting the others.
        before = run.now
        run.settle()
        assert run.now == before
        assert waiter.done == (before == 5)
        event.set()

    explore(program)


def test_settle_in_two_tasks_at_once() -> None:
    def program(run: Run) -> None:
        run.spawn(run.settle)
        run.settle()

    explore(program)


def test_a_sleeper_forgotten_before_settle_is_a_lost_wake_up() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()
        full: list[int] = []

        def wait() -> None:
            with condition:
                condition.wait_for(lambda: full)

        run.spawn(wait)
        run.settle()
        full.append(1)
        run.settle()
        with condition:
            condition.notify()

    found = failure_of(program)

    assert found.kind is FailureKind.LOST_WAKEUP


@pytest.mark.deep
@pytest.mark.parametrize(
    "wait", ["lock", "timed lock", "event", "sleep", "park", "join"]
)
def test_interrupt_raises_where_the_task_waits(wait: str) -> None:
    class Interrupt(BaseException):
        pass

    def program(run: Run) -> None:
        lock = threading.Lock()
        lock.acquire()
        parker = _sync.Lock()
        parker.acquire()
        waits: dict[str, Callable[[], object]] = {
            "lock": lock.acquire,
            "timed lock": lambda: lock.acquire(timeout=3),
            "event": lambda: threading.Event().wait(),
            "sleep": lambda: time.sleep(3),
            "park": lambda: _sync.park(parker, lambda: False, None),
            "join": lambda: threading.main_thread().join(),
        }
        caught: list[float] = []

        def victim() -> None:
            try:
                waits[wait]()
            except Interrupt:
                caught.append(run.now)
                raise

        spawned = run.spawn(victim)
        run.settle()
        if spawned.done:  # a deadline had passed before
            return
        assert run.interrupt(spawned, Interrupt)
        run.join()
        assert caught == [run.now]
        assert lock.locked()

    explore(program)


def test_interrupt_strikes_at_the_next_switch_point_of_a_task_that_could_go_on() -> (
    None
):
    def program(run: Run) -> None:
        lock = threading.Lock()
        held: list[bool] = []

        def victim() -> None:
            try:
                with lock:
                    held.append(True)
            except KeyboardInterrupt:
                assert not held or not lock.locked()
                raise

        spawned = run.spawn(victim)
        thrown = run.interrupt(spawned, KeyboardInterrupt)
        assert thrown or spawned.done
        run.join()
        assert not lock.locked()
        assert isinstance(spawned.error, KeyboardInterrupt) == thrown

    explore(program)


def test_interrupt_of_a_task_that_is_done_does_nothing() -> None:
    def program(run: Run) -> None:
        spawned = run.spawn(time.sleep, 1)
        run.join()
        assert not run.interrupt(spawned, KeyboardInterrupt)
        assert spawned.error is None

    explore(program)


def test_an_interrupt_that_is_turned_into_another_error_is_a_failure() -> None:
    def program(run: Run) -> None:
        def victim() -> None:
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                raise ValueError("left in a mess") from None

        spawned = run.spawn(victim)
        run.settle()
        run.interrupt(spawned, KeyboardInterrupt)

    with pytest.raises(Failure, match="left in a mess"):
        explore(program)


def test_a_run_is_for_its_own_tasks_only() -> None:
    kept: list[Run] = []
    explore(kept.append, bound=0, random=0)

    with pytest.raises(RuntimeError, match="the caller is no task of this run"):
        kept[0].spawn(time.sleep, 0)
    with pytest.raises(RuntimeError, match="the caller is no task of this run"):
        kept[0].settle()
