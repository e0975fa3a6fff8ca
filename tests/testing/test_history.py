"""Operations are recorded from start to end, whether they return or raise."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from queuebroker.testing import PENDING, Call, History, explore
from tests.support import Threads

if TYPE_CHECKING:
    from queuebroker.testing import Run


def test_an_operation_has_its_result() -> None:
    history = History()

    assert history.call("divide", divmod, 7, 2) == (3, 1)

    (operation,) = history
    assert (operation.name, operation.args) == ("divide", (7, 2))
    assert (operation.result, operation.error) == ((3, 1), None)
    assert operation.began < operation.ended
    assert operation.thread == threading.current_thread().name
    assert str(operation) == f"{operation.thread}: divide(7, 2) = (3, 1)"


def test_an_operation_has_its_error() -> None:
    history = History()

    with pytest.raises(ZeroDivisionError):
        history.call("divide", divmod, 1, 0)

    (operation,) = history
    assert isinstance(operation.error, ZeroDivisionError)
    assert not operation.pending
    assert str(operation).endswith("divide(1, 0) raised ZeroDivisionError")


def test_an_operation_cut_short_is_pending() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    history = History()

    with pytest.raises(KeyboardInterrupt):
        history.call("wait", interrupted)

    (operation,) = history
    assert operation.pending
    assert operation.ended == PENDING
    assert str(operation).endswith("wait() has not come back")


def test_an_operation_under_way_is_pending() -> None:
    history = History()
    seen: list[list[Call]] = []

    history.call("look", lambda: seen.append(history.operations))

    assert [operation.pending for operation in seen[0]] == [True]
    assert [operation.pending for operation in history] == [False]


def test_operations_overlap_under_the_explorer_as_the_schedule_says() -> None:
    overlaps = set()

    def program(run: Run) -> None:
        lock = threading.Lock()
        history = History()

        def work() -> None:
            with lock:
                pass

        for name in "ab":
            run.spawn(history.call, name, work, name=name)
        run.join()
        first, second = history
        assert {first.thread, second.thread} == {"a", "b"}
        overlaps.add(first.ended > second.began)

    explore(program, random=0)

    assert overlaps == {False, True}


def test_time_is_that_of_the_run() -> None:
    def program(run: Run) -> None:
        history = History()
        run.sleep(3600)
        history.call("nap", run.sleep, 1)
        assert [operation.at_s for operation in history] == [3600]

    explore(program, bound=0, random=0)


def test_real_threads_record_at_once() -> None:
    history = History()

    def work() -> None:
        for number in range(200):
            history.call("work", divmod, number, 3)

    with Threads() as threads:
        for _ in range(4):
            threads.start(work)

    operations = history.operations
    numbers = [number for one in operations for number in (one.began, one.ended)]
    assert len(history) == 800
    assert sorted(numbers) == list(range(1, 1_601))
    assert operations == sorted(operations, key=lambda one: one.began)
