"""Standard library classes built on locks and time run controlled, unchanged."""

from __future__ import annotations

import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import _sync
from queuebroker.testing import FailureKind, UncontrolledError, explore
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuebroker.testing import Run


def _explored(program: Callable[[Run], None], **options: Any) -> None:
    explore(program, seed=1, **{"random": 50, **options})


def test_an_event_wakes_all() -> None:
    def program(run: Run) -> None:
        event = threading.Event()
        waiters = [run.spawn(event.wait) for _ in range(2)]
        run.settle()
        assert not any(waiter.done for waiter in waiters)
        event.set()
        run.join()
        assert [waiter.result for waiter in waiters] == [True, True]

    _explored(program, bound=1)


def test_an_event_waits_just_so_long() -> None:
    def program(run: Run) -> None:
        assert not threading.Event().wait(1.5)
        assert run.now == 1.5

    _explored(program)


def test_a_semaphore_lets_so_many_in() -> None:
    def program(run: Run) -> None:
        semaphore = threading.BoundedSemaphore(2)
        inside: list[int] = []

        def work() -> None:
            with semaphore:
                inside.append(1)
                time.sleep(1)
                assert len(inside) <= 2
                inside.pop()

        for _ in range(3):
            run.spawn(work)

    _explored(program, bound=1)


def test_a_semaphore_gives_up_at_the_deadline() -> None:
    def program(run: Run) -> None:
        assert not threading.Semaphore(0).acquire(timeout=2)
        assert run.now == 2

    _explored(program)


def test_a_barrier_waits_for_all_of_them() -> None:
    def program(run: Run) -> None:
        barrier = threading.Barrier(3)
        waiters = [run.spawn(barrier.wait) for _ in range(2)]
        run.settle()
        assert not any(waiter.done for waiter in waiters)
        last = barrier.wait()
        run.join()
        assert {last, *(waiter.result for waiter in waiters)} == {0, 1, 2}

    _explored(program, bound=1)


def test_a_barrier_breaks_at_the_deadline() -> None:
    def program(run: Run) -> None:
        with pytest.raises(threading.BrokenBarrierError):
            threading.Barrier(2).wait(timeout=4)
        assert run.now == 4

    _explored(program)


def test_a_timer_fires_at_its_time_unless_it_is_cancelled() -> None:
    def program(run: Run) -> None:
        fired: list[float] = []
        cancelled = threading.Timer(5, fired.append, (0,))
        timer = threading.Timer(10, lambda: fired.append(run.now))
        cancelled.start()
        timer.start()
        cancelled.cancel()
        timer.join()
        assert fired[-1] >= 10
        assert fired[:-1] in ([], [0])  # a slow machine cancels too late

    _explored(program)


def test_a_cancelled_timer_does_not_fire_if_no_task_is_slow() -> None:
    def program(_run: Run) -> None:
        fired: list[int] = []
        timer = threading.Timer(5, fired.append, (0,))
        timer.start()
        timer.cancel()
        timer.join()
        assert not fired

    explore(program, bound=0, random=0)


def test_a_queue_blocks_when_full_and_when_empty() -> None:
    def program(run: Run) -> None:
        channel: queue.Queue[int] = queue.Queue(1)

        def produce() -> None:
            for number in range(3):
                channel.put(number)

        producer = run.spawn(produce)
        run.settle()
        assert not producer.done
        assert [channel.get() for _ in range(3)] == [0, 1, 2]
        taker = run.spawn(channel.get)
        run.settle()
        assert not taker.done
        channel.put(3)
        run.join()
        assert taker.result == 3

    _explored(program, bound=1)


def test_a_queue_gives_up_at_the_deadline() -> None:
    def program(run: Run) -> None:
        channel: queue.Queue[int] = queue.Queue(1)
        with pytest.raises(queue.Empty):
            channel.get(timeout=2.5)
        assert run.now == 2.5
        channel.put(1)
        with pytest.raises(queue.Full):
            channel.put(2, timeout=0.5)
        assert run.now == 3

    _explored(program)


def test_a_queue_knows_when_all_tasks_are_done() -> None:
    def program(run: Run) -> None:
        channel: queue.Queue[int] = queue.Queue()
        channel.put(1)
        joiner = run.spawn(channel.join)
        run.settle()
        assert not joiner.done
        channel.get()
        channel.task_done()
        run.join()

    _explored(program)


# Time.


@pytest.mark.parametrize(
    "clock", ["monotonic", "perf_counter", "time", "_sync.monotonic"]
)
def test_clocks_show_virtual_time(clock: str) -> None:
    def read() -> float:
        if clock == "_sync.monotonic":
            return _sync.monotonic()
        return float(getattr(time, clock)())

    def program(_run: Run) -> None:
        began = read()
        time.sleep(1000)
        assert read() - began == 1000

    _explored(program)


@pytest.mark.parametrize("clock", ["monotonic_ns", "perf_counter_ns", "time_ns"])
def test_clocks_show_virtual_nanoseconds(clock: str) -> None:
    def program(_run: Run) -> None:
        began = getattr(time, clock)()
        time.sleep(0.25)
        assert getattr(time, clock)() - began == 250_000_000

    _explored(program)


def test_the_date_is_the_same_in_every_run() -> None:
    dates = set()

    _explored(lambda run: dates.add(time.time()))

    assert len(dates) == 1


def test_a_negative_sleep_is_refused() -> None:
    def program(_run: Run) -> None:
        with pytest.raises(ValueError, match="sleep length must be non-negative"):
            time.sleep(-1)

    _explored(program)


# Modules.


def test_a_module_first_imported_by_a_task_gets_real_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module outlives the run, and simulated locks do not."""
    (tmp_path / "imported_late.py").write_text(
        "import threading\nlock = threading.Lock()\ncondition = threading.Condition()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made: list[object] = []

    def program(_run: Run) -> None:
        import imported_late  # type: ignore[import-not-found] # noqa: PLC0415 # written above

        made.append(imported_late.lock)
        made.append(threading.Lock())

    explore(program, bound=0, random=0)
    monkeypatch.delitem(sys.modules, "imported_late")

    assert type(made[0]) is type(threading.Lock())
    assert type(made[1]) is not type(made[0])


def test_a_real_lock_in_park_is_the_real_park() -> None:
    """An object from before the run may have one; it is free, so nothing blocks."""
    lock = threading.Lock()

    _explored(lambda run: _park_and_let_go(lock))

    assert not lock.locked()


def _park_and_let_go(lock: threading.Lock) -> None:
    assert _sync.park(lock, lambda: True, None)
    lock.release()


def test_an_object_made_before_the_run_is_refused_when_it_would_wait() -> None:
    """Half of it would be simulated. A task may use it as long as no task waits."""
    event = threading.Event()
    channel: queue.Queue[int] = queue.Queue()
    channel.put(1)

    def program(_run: Run) -> None:
        assert channel.get() == 1
        event.wait()

    with pytest.raises(UncontrolledError, match="Event or Queue that was made before"):
        explore(program, bound=0, random=0)


def test_a_lost_wake_up_of_wait_for_inside_wait_for_is_of_the_inner_one() -> None:
    def program(run: Run) -> None:
        outer = threading.Condition()
        inner = threading.Condition()
        ready: list[str] = []

        def check() -> bool:
            with inner:
                inner.wait_for(lambda: "inner" in ready)
            return True

        def wait() -> None:
            with outer:
                outer.wait_for(check)

        run.spawn(wait)
        run.settle()
        ready.append("inner")

    found = failure_of(program, seed=1)

    assert found.kind is FailureKind.LOST_WAKEUP
