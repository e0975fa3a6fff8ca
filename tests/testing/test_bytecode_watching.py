"""How named code is watched: by tracing or monitoring, without any trace left."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import FailureKind, explore
from tests.testing.failing import failure_of
from tests.testing.lost_update import Counter, counting

if TYPE_CHECKING:
    from queuebroker.testing import Report, Run

traced = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="named code is monitored, not traced"
)


def _trace_nothing(*_: object) -> None:
    return None


@traced
def test_threads_that_are_traced_already_are_refused() -> None:
    before = threading.gettrace()
    threading.settrace(_trace_nothing)
    try:
        with pytest.raises(RuntimeError, match=r"traced already, by <function _trace_"):
            explore(counting, bytecode=[Counter])
    finally:
        threading.settrace(before)  # type: ignore[arg-type,unused-ignore]


@traced
def test_a_program_that_has_its_threads_traced_is_refused() -> None:
    def program(run: Run) -> None:
        threading.settrace(_trace_nothing)
        try:
            run.spawn(len, "a").join()
        finally:
            threading.settrace(None)  # type: ignore[arg-type,unused-ignore]

    found = failure_of(program, bytecode=[Counter])

    assert found.kind is FailureKind.UNCONTROLLED
    assert "threads are traced already, by <function _trace_nothing" in found.story


def test_nothing_is_traced_after_an_exploration() -> None:
    explore(counting, bound=0, random=0, bytecode=[Counter])
    before: Report = explore(counting, bound=0, random=0)

    assert threading.gettrace() is None
    assert before.steps == explore(counting, bound=0, random=0).steps


def test_an_object_held_by_a_function_is_finalized_when_the_function_ends() -> None:
    """Watching keeps nothing alive, even after an exception."""
    gone: list[bool] = []

    class Held:
        def __del__(self) -> None:
            gone.append(True)

    def hold() -> None:
        held = Held()
        int(f"not a number, {held.__class__}")

    def program(run: Run) -> None:
        gone.clear()
        try:  # noqa: SIM105 # a context manager would be called, and hide it
            hold()
        except ValueError:
            pass
        assert gone == [True]

    assert explore(program, bytecode=[hold], bound=0, random=0).exhausted


# Before 3.12 the named code is traced, and no tool can monitor.
if sys.version_info >= (3, 12):

    def test_an_interpreter_that_is_monitored_by_too_many_is_refused() -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        for number in (3, 4):
            monitoring.use_tool_id(number, f"tool {number}")
        try:
            with pytest.raises(RuntimeError, match=r"monitored by .*tool 4.*tool 3"):
                explore(counting, bytecode=[Counter])
        finally:
            for number in (3, 4):
                monitoring.free_tool_id(number)
        assert explore(counting, bytecode=[Counter], bound=0, random=0).exhausted
