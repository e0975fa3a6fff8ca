"""Simulated sleep: parking, and spurious wake-ups."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from queuebroker import _sync
from queuebroker.testing import Failure, FailureKind, explore
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from queuebroker.testing import Run


def test_park_returns_when_its_lock_is_released() -> None:
    def program(run: Run) -> None:
        parker = _sync.Lock()
        parker.acquire()
        ready: list[bool] = []
        sleeper = run.spawn(_sync.park, parker, lambda: bool(ready), None)
        run.settle()
        assert not sleeper.done
        ready.append(True)
        parker.release()
        run.join()
        assert sleeper.result is True
        assert parker.locked()

    explore(program)


def test_park_gives_up_at_its_deadline() -> None:
    def program(run: Run) -> None:
        parker = _sync.Lock()
        parker.acquire()
        assert not _sync.park(parker, lambda: False, _sync.monotonic() + 2)
        assert run.now == 2
        assert not _sync.park(parker, lambda: False, 1.0)
        assert run.now == 2
        parker.release()
        assert _sync.park(parker, lambda: False, 1.0)

    explore(program)


def test_a_parked_task_that_is_forgotten_is_a_lost_wake_up() -> None:
    def program(run: Run) -> None:
        parker = _sync.Lock()
        parker.acquire()
        ready: list[bool] = []
        run.spawn(_sync.park, parker, lambda: bool(ready), 5.0)
        run.settle()
        ready.append(True)

    found = failure_of(program)

    assert found.kind is FailureKind.LOST_WAKEUP


@pytest.mark.parametrize("sleep", ["park", "condition"])
def test_sleepers_wake_for_no_reason_as_often_as_was_asked_for(sleep: str) -> None:
    most: list[int] = []

    def program(run: Run) -> None:
        condition = threading.Condition()
        parker = _sync.Lock()
        parker.acquire()
        over: list[bool] = []
        early: list[bool] = []

        def park() -> None:
            while not over:
                _sync.park(parker, lambda: bool(over), None)
                early.append(not over)

        def wait() -> None:
            with condition:
                while not over:
                    condition.wait()
                    early.append(not over)

        run.spawn(park if sleep == "park" else wait)
        run.settle()
        with condition:
            over.append(True)
            condition.notify()
        parker.release()
        run.join()
        most.append(sum(early))

    explore(program, seed=1)
    assert max(most) == 0
    explore(program, seed=1, spurious=2)
    assert max(most) == 2


def test_an_event_is_not_woken_for_no_reason() -> None:
    """Its own code relies on that, and `Condition` never does it."""

    def program(run: Run) -> None:
        event = threading.Event()
        waiter = run.spawn(event.wait)
        run.settle()
        assert not waiter.done
        event.set()

    explore(program, spurious=3)


def test_a_test_that_is_not_repeated_fails_with_one_spurious_wake_up() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()
        ready: list[bool] = []

        def wait() -> None:
            with condition:
                if not ready:
                    condition.wait()
                assert ready

        run.spawn(wait)
        run.settle()
        with condition:
            ready.append(True)
            condition.notify_all()

    explore(program)
    with pytest.raises(Failure, match="wakes up though nobody has woken it") as caught:
        explore(program, spurious=1)

    assert "spurious=1)" in caught.value.story
