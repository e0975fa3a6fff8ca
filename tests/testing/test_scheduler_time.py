"""The clock of a run, and the tasks that may be late."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from queuebroker.testing import explore

if TYPE_CHECKING:
    from queuebroker.testing import Run


def test_a_long_sleep_takes_no_time_and_is_exact() -> None:
    def program(run: Run) -> None:
        began = time.monotonic()
        time.sleep(3600)
        time.sleep(0.5)
        assert time.monotonic() - began == run.now == 3600.5

    explore(program, random=10)


def test_time_jumps_only_when_all_wait() -> None:
    """Without preemptions no deadline comes while another task can run."""

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
    """A loop that sleeps between polls ends without a preemption."""

    def program(run: Run) -> None:
        flag: list[bool] = []
        run.spawn(flag.append, True)
        while not flag:
            time.sleep(0)

    report = explore(program, bound=0, random=0)

    assert report.exhausted
