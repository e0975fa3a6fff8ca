"""Limits that the reference states; if one is lifted, the page must change."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, UncontrolledError, explore

if TYPE_CHECKING:
    from queuebroker.testing import Run

_real_lock = threading.Lock


@dataclass
class _MadeElsewhere:
    lock: Any = field(default_factory=_real_lock)


def test_a_factory_that_a_class_holds_on_to_makes_real_locks() -> None:
    kinds: set[type] = set()

    explore(lambda run: kinds.add(type(_MadeElsewhere().lock)), bound=0, random=0)

    assert kinds == {type(_real_lock())}


def test_the_date_of_the_clock_is_virtual_and_that_of_the_calendar_is_not() -> None:
    def program(_run: Run) -> None:
        assert time.gmtime(time.time()).tm_year == 2001
        assert dt.datetime.now(tz=dt.UTC).year > 2001

    explore(program, bound=0, random=0)


def test_an_unguarded_update_passes_unless_its_code_is_named() -> None:
    def program(run: Run) -> None:
        total = 0

        def add() -> None:
            nonlocal total
            total += 1

        run.spawn(add)
        run.spawn(add)
        run.join()
        assert total == 2

    explore(program, random=50)
    with pytest.raises(Failure, match="AssertionError"):
        explore(program, bytecode=[program], random=0)


def test_a_bare_wait_that_times_out_hides_a_wake_up_that_came_too_early() -> None:
    def program(run: Run, *, says_what_for: bool) -> None:
        condition = threading.Condition()
        items: list[str] = []

        def get() -> None:
            with condition:
                if says_what_for:
                    condition.wait_for(lambda: items, timeout=5)
                else:
                    condition.wait(timeout=5)

        run.spawn(get)
        run.settle()
        items.append("apple")  # and no error is reported

    explore(lambda run: program(run, says_what_for=False), random=20)
    with pytest.raises(Failure, match="lost wake-up"):
        explore(lambda run: program(run, says_what_for=True))


def test_a_future_is_explored_and_a_pool_is_refused() -> None:
    def waits(run: Run) -> None:
        future: concurrent.futures.Future[int] = concurrent.futures.Future()
        got = run.spawn(future.result)
        run.spawn(future.set_result, 3)
        run.join()
        assert got.result == 3

    explore(waits, random=20)
    with pytest.raises(UncontrolledError, match="ThreadPoolExecutor"):
        explore(lambda run: concurrent.futures.ThreadPoolExecutor(1))
