"""The fallback on real threads: the faults it finds, and the state it restores."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, FailureKind, explore, stress
from tests.support import LIMIT_S
from tests.testing import bounded
from tests.testing.bounded import Bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def _failure(program: Callable[[Run], object], **options: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        stress(program, timeout=LIMIT_S, **options)
    return caught.value


def test_a_program_for_the_explorer_runs_on_real_threads() -> None:
    idents: set[int] = set()

    def program(run: Run) -> None:
        began = run.now
        idents.add(threading.get_native_id())
        spawned = run.spawn(threading.get_native_id, name="a thread")
        run.join()
        assert (spawned.done, spawned.name) == (True, "a thread")
        assert spawned.result != threading.get_native_id()
        run.sleep(0)
        assert run.now >= began

    explore(program, bound=0, random=0)

    assert stress(program, runs=3) == 3
    assert threading.get_native_id() not in idents


def test_right_code_passes() -> None:
    program = bounded.program(
        Bounded, lambda q: q.put(1), lambda q: q.put(2), Bounded.get, Bounded.get
    )

    assert stress(program, runs=50, timeout=LIMIT_S) == 50


def test_a_lost_update_is_met_sooner_or_later() -> None:
    """Each of two threads calls between reading and writing, ten thousand times."""

    def program(run: Run) -> None:
        counts = [0]

        def count() -> None:
            for _ in range(10_000):
                counts[0] = _more(counts[0])

        run.spawn(count)
        run.spawn(count)
        run.join()
        assert counts[0] == 20_000

    assert _failure(program, runs=200).kind is FailureKind.EXCEPTION


def _more(number: int) -> int:
    return number + 1


def test_a_failure_shows_the_exception_of_a_task_with_its_line() -> None:
    def fail() -> None:
        raise LookupError("gone")

    found = _failure(lambda run: run.spawn(fail))

    assert found.story.startswith(
        "exception: fail raised LookupError: gone (run 1, on real threads)\n"
    )
    assert 'raise LookupError("gone")' in found.story
    assert isinstance(found.__cause__, LookupError)


def test_an_error_that_the_program_has_read_is_no_failure() -> None:
    def program(run: Run) -> None:
        spawned = run.spawn(int, "x")
        run.join()
        assert isinstance(spawned.error, ValueError)
        with pytest.raises(ValueError, match="invalid literal"):
            _ = spawned.result

    assert stress(program, runs=1) == 1


def test_a_failure_shows_the_stack_of_a_task_that_does_not_end() -> None:
    leave = threading.Event()

    def wait_for_long() -> None:
        leave.wait()

    def program(run: Run) -> None:
        run.spawn(wait_for_long, name="sleeper")

    with pytest.raises(Failure) as caught:
        stress(program, timeout=0.05)
    leave.set()

    assert caught.value.kind is FailureKind.DEADLOCK
    assert "sleeper did not end in 0.05 s (run 1" in caught.value.story
    assert "in wait_for_long" in caught.value.story


def test_a_spawned_thread_that_is_not_done_has_no_result_yet() -> None:
    def program(run: Run) -> None:
        leave = threading.Event()
        spawned = run.spawn(leave.wait)
        assert not spawned.join(timeout=0)
        with pytest.raises(RuntimeError, match="it still runs"):
            _ = spawned.error
        leave.set()

    assert stress(program, runs=1) == 1


def test_it_ends_when_its_time_is_over() -> None:
    assert stress(lambda run: None, runs=10**9, seconds=0.01) < 10**9


@pytest.mark.parametrize("fails", [False, True])
def test_the_switch_interval_is_small_meanwhile_and_put_back(fails: bool) -> None:
    before = sys.getswitchinterval()
    within: list[float] = []

    def program(run: Run) -> None:
        within.append(sys.getswitchinterval())
        assert not fails

    if fails:
        _failure(program)
    else:
        stress(program, runs=1)

    assert sys.getswitchinterval() == before
    assert within[0] < before / 1_000


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: run.settle(),
        lambda run: run.interrupt(run.spawn(int), KeyboardInterrupt),
    ],
)
def test_stress_refuses_calls_that_need_control_of_the_threads(
    ask: Callable[[Run], object],
) -> None:
    assert "RuntimeError: cannot" in _failure(ask, runs=1).story


def test_a_second_stress_at_the_same_time_is_refused() -> None:
    found = _failure(lambda run: stress(lambda inner: None))

    assert "a stress is under way in this process" in found.story


@pytest.mark.parametrize("name", ["runs", "seconds", "timeout"])
def test_numbers_that_are_not_positive_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be > 0, got 0"):
        stress(lambda run: None, **{name: 0})
