"""Whose turn it is, what time it is, and the ways in which a run can go wrong."""

from __future__ import annotations

import contextvars
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, FailureKind, Report, explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

_name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")
_local = threading.local()


def _failure(program: Callable[[Run], object], **options: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        explore(program, **options)
    return caught.value


# Time.


def test_a_long_sleep_takes_no_time_and_is_exact() -> None:
    def program(run: Run) -> None:
        began = time.monotonic()
        time.sleep(3600)
        time.sleep(0.5)
        assert time.monotonic() - began == run.now == 3600.5

    explore(program, random=10)


def test_time_jumps_only_when_all_wait() -> None:
    """Without preemptions nobody's deadline comes while another can go on."""

    def program(run: Run) -> None:
        lock = threading.Lock()
        times: list[float] = []

        def work() -> None:
            for _ in range(5):
                with lock:
                    times.append(run.now)

        run.spawn(time.sleep, 1)
        run.spawn(work)
        run.spawn(work)
        run.join()
        assert times == [0.0] * 10
        assert run.now == 1

    explore(program, bound=0, random=0)


def test_a_deadline_may_pass_early_at_the_price_of_a_preemption() -> None:
    def times_out(bound: int) -> bool:
        found: list[bool] = []

        def program(run: Run) -> None:
            event = threading.Event()
            waiter = run.spawn(event.wait, 5)
            other = run.spawn(event.set)
            run.join()
            found.append(not waiter.result)
            assert other.done

        explore(program, bound=bound, random=0)
        return any(found)

    assert not times_out(0)
    assert times_out(1)


def test_only_the_earliest_deadline_may_pass_early() -> None:
    def program(run: Run) -> None:
        asleep: dict[int, float] = {}

        def nap(seconds: int) -> None:
            asleep[seconds] = run.now + seconds
            time.sleep(seconds)
            deadline = asleep.pop(seconds)
            assert run.now >= deadline
            assert all(deadline <= other for other in asleep.values())

        for seconds in (3, 1, 2):
            run.spawn(nap, seconds)

    explore(program)


def test_deadlines_at_one_time_come_in_any_order() -> None:
    orders = set()

    def program(run: Run) -> None:
        order: list[str] = []

        def nap(name: str) -> None:
            time.sleep(1)
            order.append(name)

        run.spawn(nap, "a")
        run.spawn(nap, "b")
        run.join()
        orders.add("".join(order))

    explore(program, bound=0, random=0)

    assert orders == {"ab", "ba"}


def test_a_timed_acquire_is_false_at_the_deadline_and_not_before() -> None:
    def program(run: Run) -> None:
        lock = threading.Lock()
        lock.acquire()
        assert not lock.acquire(timeout=2.5)
        assert run.now == 2.5

    explore(program, random=10)


def test_sleeping_for_no_time_lets_others_go_first() -> None:
    """A loop that waits politely ends without a preemption."""

    def program(run: Run) -> None:
        flag: list[bool] = []
        run.spawn(flag.append, True)
        while not flag:
            time.sleep(0)

    report = explore(program, bound=0, random=0)

    assert report.exhausted


# What can go wrong.


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
    failure = _failure(program, bound=1, random=0)

    assert failure.kind is FailureKind.DEADLOCK
    assert "waits for second, which backward has" in failure.story
    assert "waits for first, which forward has" in failure.story


def test_a_lock_taken_twice_is_a_deadlock() -> None:
    def program(_run: Run) -> None:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    failure = _failure(program)

    assert failure.kind is FailureKind.DEADLOCK
    assert "waits for lock, which it has itself" in failure.story


def test_waiting_for_ever_beside_a_daemon_is_a_deadlock() -> None:
    def program(_run: Run) -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        threading.Event().wait()

    assert _failure(program).kind is FailureKind.DEADLOCK


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


def test_steps_without_end_are_a_livelock() -> None:
    def program(_run: Run) -> None:
        while True:
            time.sleep(1)

    failure = _failure(program)

    assert failure.kind is FailureKind.LIVELOCK
    assert "no end after 20,000 steps" in failure.story


def test_looking_at_the_clock_without_end_is_a_livelock() -> None:
    def program(_run: Run) -> None:
        while time.monotonic() < 1:
            pass

    failure = _failure(program)

    assert failure.kind is FailureKind.LIVELOCK
    assert "looked at the clock" in failure.story


def test_a_predicate_that_raises_is_told() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()
        stock = {"apples": 0}

        def wait() -> None:
            with condition:
                condition.wait_for(lambda: stock["apples"])

        run.spawn(wait)
        run.settle()
        stock.clear()

    failure = _failure(program)

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

    assert _failure(program).kind is FailureKind.LOST_WAKEUP


# What a task is to itself.


def test_a_task_has_a_context_of_its_own() -> None:
    def program(run: Run) -> None:
        assert _name.get() == "nobody"
        _name.set("main")
        spawned = run.spawn(_name.get)
        run.join()
        assert spawned.result == "nobody"

    explore(program)


def test_what_is_thread_local_does_not_last_from_run_to_run() -> None:
    def program(run: Run) -> None:
        assert not hasattr(_local, "mark")
        _local.mark = "main"
        spawned = run.spawn(hasattr, _local, "mark")
        run.join()
        assert not spawned.result

    explore(program)


def test_an_unlocked_counter_needs_finer_switch_points() -> None:
    """What is not guarded is not seen: the page on the explorer says so."""

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
