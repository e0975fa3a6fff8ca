"""`threading.Thread` in a run: the user's objects, scheduled by the explorer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, FailureKind, UncontrolledError, explore
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


class Counter(threading.Thread):
    """A subclass made at import, as users write them."""

    def __init__(self, upto: int) -> None:
        super().__init__(name=f"counts to {upto}")
        self.upto = upto
        self.total = 0

    def run(self) -> None:
        for number in range(self.upto + 1):
            time.sleep(1)
            self.total += number


def _explored(program: Callable[[Run], None]) -> None:
    explore(program, seed=1, random=50)


def test_a_subclass_runs_as_a_task() -> None:
    def program(run: Run) -> None:
        counters = [Counter(1), Counter(2)]
        for counter in counters:
            counter.start()
        for counter in counters:
            counter.join()
        assert [counter.total for counter in counters] == [1, 3]
        assert run.now >= 3

    _explored(program)


def test_a_thread_knows_itself() -> None:
    def program(_run: Run) -> None:
        seen: list[Any] = []

        def look() -> None:
            me = threading.current_thread()
            seen.append((me, me.name, me.ident == threading.get_ident(), me.is_alive()))

        thread = threading.Thread(target=look, name="looker")
        thread.start()
        thread.join()
        assert seen == [(thread, "looker", True, True)]

    _explored(program)


def test_a_thread_is_alive_from_start_to_end() -> None:
    def program(run: Run) -> None:
        event = threading.Event()
        thread = threading.Thread(target=event.wait)
        assert not thread.is_alive()
        thread.start()
        run.settle()
        assert thread.is_alive()
        event.set()
        thread.join()
        assert not thread.is_alive()

    _explored(program)


def test_join_with_a_timeout_gives_up_at_the_deadline() -> None:
    def program(run: Run) -> None:
        thread = threading.Thread(target=time.sleep, args=(3,))
        thread.start()
        run.settle()
        left = 3 - run.now
        thread.join(timeout=left / 2)
        thread.join()
        assert run.now == 3

    explore(program, bound=0, random=0)


def test_names_and_numbers_are_the_same_in_every_run() -> None:
    seen = set()

    def program(run: Run) -> None:
        thread = threading.Thread(target=print)
        spawned = run.spawn(threading.get_ident)
        run.join()
        seen.add((thread.name, threading.get_ident(), spawned.result))

    _explored(program)

    assert len(seen) == 1
    name, *idents = seen.pop()
    assert name == "Thread-1 (print)"
    assert len(set(idents)) == 2


def test_a_thread_inherits_the_daemon_flag_of_its_creator() -> None:
    def program(_run: Run) -> None:
        daemons: list[bool] = []

        def make() -> None:
            daemons.append(threading.Thread(target=print).daemon)

        assert not threading.Thread(target=print).daemon
        thread = threading.Thread(target=make, daemon=True)
        thread.start()
        thread.join()
        assert daemons == [True]

    _explored(program)


def test_main_thread_and_enumerate_return_the_threads_of_the_run() -> None:
    def program(run: Run) -> None:
        assert threading.main_thread() is threading.current_thread()
        assert threading.active_count() == 1
        event = threading.Event()
        thread = threading.Thread(target=event.wait)
        thread.start()
        run.settle()
        assert threading.enumerate() == [threading.main_thread(), thread]
        assert threading.active_count() == 2
        event.set()

    outside = (threading.main_thread(), threading.enumerate())
    _explored(program)
    assert (threading.main_thread(), threading.enumerate()) == outside


def test_misuse_of_a_thread_raises_the_usual_errors() -> None:
    def program(_run: Run) -> None:
        thread = threading.Thread(target=print, args=("",), kwargs={"end": ""})
        with pytest.raises(RuntimeError, match="cannot join thread before"):
            thread.join()
        with pytest.raises(RuntimeError, match="cannot join current thread"):
            threading.current_thread().join()
        thread.start()
        with pytest.raises(RuntimeError, match="threads can only be started once"):
            thread.start()
        with pytest.raises(RuntimeError, match="cannot set daemon status of active"):
            thread.daemon = True

    _explored(program)


def test_a_subclass_that_omits_the_base_constructor_raises_the_usual_error() -> None:
    class Forgetful(threading.Thread):
        def __init__(self) -> None:
            pass

    def program(_run: Run) -> None:
        with pytest.raises(RuntimeError, match=r"__init__\(\) not called"):
            Forgetful().start()

    _explored(program)


def test_an_exception_that_escapes_a_thread_is_a_failure() -> None:
    def program(_run: Run) -> None:
        threading.Thread(target=divmod, args=(1, 0), name="divider").start()

    with pytest.raises(Failure, match="divider raised ZeroDivisionError") as caught:
        explore(program, seed=1)

    assert caught.value.kind is FailureKind.EXCEPTION


def test_a_thread_may_exit() -> None:
    def leave() -> None:
        raise SystemExit

    _explored(lambda run: threading.Thread(target=leave).start())


def test_a_thread_made_before_the_run_can_be_started_in_it_once() -> None:
    threads = [threading.Thread(target=print, args=("",)) for _ in range(2)]

    explore(lambda run: threads[0].start(), bound=0, random=0)
    with pytest.raises(Failure, match="threads can only be started once"):
        explore(lambda run: threads[0].start(), bound=0, random=0)

    threads[1].start()
    threads[1].join()
    assert not threads[1].is_alive()


def test_threads_of_a_run_look_ended_when_it_is_over() -> None:
    kept: list[threading.Thread] = []

    def program(run: Run) -> None:
        kept.clear()
        kept.append(threading.current_thread())
        kept.append(threading.Thread(target=print, kwargs={"end": ""}))
        kept.append(threading.Thread(target=threading.Event().wait, daemon=True))
        for thread in kept[1:]:
            thread.start()

    explore(program, bound=0, random=0)

    for thread in kept:
        assert not thread.is_alive()
        thread.join()
        assert "stopped" in repr(thread)


def test_joining_a_thread_from_outside_is_refused() -> None:
    leave = threading.Event()
    outside = threading.Thread(target=leave.wait, args=(LIMIT_S,), name="outsider")
    outside.start()
    try:
        with pytest.raises(UncontrolledError, match="cannot join 'outsider'"):
            explore(lambda run: outside.join(), seed=1)
    finally:
        leave.set()
        outside.join()


def test_trace_functions_see_the_tasks() -> None:
    """As in every thread that `threading` starts: debuggers, coverage."""
    seen: list[str] = []

    def trace(frame: Any, _event: str, _arg: object) -> None:
        seen.append(frame.f_code.co_name)

    def here_and_now() -> None:
        pass

    before = threading.gettrace()
    threading.settrace(trace)
    try:
        explore(lambda run: here_and_now(), bound=0, random=0)
    finally:
        threading.settrace(before)

    assert "here_and_now" in seen
