"""Unwinding of tasks after a failed run: they release their locks and end."""

from __future__ import annotations

import _thread
import contextlib
import threading
import time
from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import FailureKind
from tests.support import until
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def _deadlocks(program: Callable[[Run], object]) -> None:
    assert failure_of(program).kind is FailureKind.DEADLOCK


def test_a_deadlocked_task_is_unwound_and_its_finally_blocks_do_not_block() -> None:
    """Blocked tasks are unwound: their ``finally`` blocks run, and nothing blocks."""
    events: list[str] = []

    def program(run: Run) -> None:
        events.clear()
        lock = threading.Lock()
        condition = threading.Condition(lock)

        def wait() -> None:
            try:
                with condition:
                    condition.wait()
            finally:
                with lock:
                    condition.notify_all()
                time.sleep(1)
                threading.Thread(target=print).start()
                events.append("unwound")

        run.spawn(wait)

    _deadlocks(program)
    assert events == ["unwound"]


def _suppressing(lock: threading.Lock) -> None:
    while True:
        with contextlib.suppress(BaseException):
            lock.acquire()


def _catching(lock: threading.Lock) -> None:
    while True:
        try:
            lock.acquire()
        except BaseException:  # noqa: BLE001 # as the loop of many a worker does
            continue


@pytest.mark.parametrize("wait", [_suppressing, _catching])
def test_a_task_that_swallows_its_end_is_ended_all_the_same(
    wait: Callable[[threading.Lock], None],
) -> None:
    def program(run: Run) -> None:
        lock = threading.Lock()
        lock.acquire()
        run.spawn(wait, lock)

    before = _thread._count()

    _deadlocks(program)
    # Without the interpreter lock a thread may still be ending.
    until(lambda: _thread._count() <= before, "its thread has ended")


def test_a_task_that_is_cut_short_emits_no_warning() -> None:
    class Open:
        def __del__(self) -> None:
            import warnings  # noqa: PLC0415 # in the finalizer, as `open` does

            warnings.warn("unclosed", ResourceWarning, stacklevel=1)

    def program(run: Run) -> None:
        def hold() -> None:
            kept = Open()
            threading.Event().wait()
            del kept

        run.spawn(hold)

    _deadlocks(program)
