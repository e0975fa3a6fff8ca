"""Tasks that never return, and supervisors that are interrupted."""

from __future__ import annotations

import _thread
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import FailureKind, UncontrolledError, explore, supervise
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from queuebroker.testing import Run


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a watchdog of a tenth of a second; check that all threads end."""
    before = _thread._count()
    monkeypatch.setattr(supervise, "WATCHDOG_S", 0.1)
    yield
    until(lambda: _thread._count() <= before, "the threads of the run are gone")


@pytest.mark.usefixtures("_impatient")
def test_a_failure_shows_the_stack_of_a_task_blocked_in_a_real_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    unwound: list[str] = []

    def wait() -> None:
        try:
            threading.Event().wait()
        finally:
            unwound.append("the other")

    def program(run: Run) -> None:
        run.spawn(wait)
        run.settle()
        lock.acquire()  # blocks for real: it was made before the run

    with pytest.raises(UncontrolledError) as caught:
        explore(program, seed=1)
    lock.release()

    story = caught.value.story
    assert caught.value.kind is FailureKind.UNCONTROLLED
    assert "main has not come to a switch point for 0.1 s" in story
    assert "lock.acquire()  # blocks for real" in story
    assert unwound == ["the other"]


@pytest.mark.usefixtures("_impatient")
def test_the_explorer_reports_and_ends_a_task_in_an_endless_loop() -> None:
    def program(_run: Run) -> None:
        while True:
            pass

    with pytest.raises(UncontrolledError, match="or it computes"):
        explore(program, seed=1)


@pytest.mark.usefixtures("_impatient")
def test_a_signal_handler_of_the_caller_can_interrupt_the_exploration() -> None:
    class Alarm(BaseException):
        pass

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Alarm

    def program(_run: Run) -> None:
        _thread.interrupt_main(signal.SIGTERM)
        while True:
            pass

    before = signal.signal(signal.SIGTERM, ring)
    lock_type = threading.Lock
    try:
        with pytest.raises(Alarm):
            explore(program, seed=1)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert threading.Lock is lock_type
    explore(lambda run: None, bound=0, random=0)


@pytest.mark.deep
def test_no_thread_is_left() -> None:
    def program(run: Run) -> None:
        for _ in range(3):
            run.spawn(run.sleep, 1)
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    before = _thread._count()
    explore(program, bound=1, random=50, seed=1)

    assert _thread._count() == before


def test_no_thread_is_left_after_a_failure() -> None:
    def program(run: Run) -> None:
        for _ in range(3):
            run.spawn(threading.Event().wait)

    before = _thread._count()
    with pytest.raises(AssertionError):
        explore(program, seed=1)

    assert _thread._count() == before
