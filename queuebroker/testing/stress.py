"""`stress`: repeated runs of a program on real threads.

It is for programs that the explorer cannot control: extensions in C, sockets,
processes, locks from before the run. Its runs are not repeatable, and a fault may exist
even if no run shows it.
"""

from __future__ import annotations

import _thread
import itertools
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple, Unpack

from queuebroker.testing.failure import Failure, FailureKind
from queuebroker.testing.program import NotPlainError, check_program, ran_nothing
from queuebroker.testing.run import Run, Spawned

__all__ = ["stress"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Seconds after which the interpreter switches to another thread. So short that it
# switches wherever it can.
_SWITCH_INTERVAL_S: Final = 1e-6

# The whole process shares one switch interval.
_stressing = _thread.allocate_lock()


def stress(
    program: Callable[[Run], object],
    *,
    runs: int = 1_000,
    seconds: float = 10.0,
    timeout: float = 10.0,
) -> int:
    """Run ``program(run)`` many times on real threads; return the number of runs.

    The interpreter switches threads as often as it can. A program for `explore` works
    here, unless it settles or interrupts; its time is real time.

    runs, seconds: stop after this many runs, or after this time; at least one run is
      made.
    timeout: seconds after which a run counts as a deadlock. Its threads cannot be
      ended, and remain.

    Raises:
        Failure: a run fails: an exception escapes, or the run does not end.
        TypeError: ``program`` does not take the run, or a call runs none of its code.
        ValueError: a number is not positive.
        RuntimeError: a stress is under way in this process.
    """
    for name, number in (("runs", runs), ("seconds", seconds), ("timeout", timeout)):
        if number <= 0:
            msg = f"{name} must be > 0, got {number}"
            raise ValueError(msg)
    check_program(program)
    with _frequent_switches():
        end = time.monotonic() + seconds
        for done in range(1, runs + 1):
            _RealRun(timeout).perform(program, f"run {done}, on real threads")
            if time.monotonic() >= end:
                break
    return done


@contextmanager
def _frequent_switches() -> Iterator[None]:
    if not _stressing.acquire(blocking=False):
        raise RuntimeError("cannot stress: a stress is under way in this process")
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        yield
    finally:
        sys.setswitchinterval(before)
        _stressing.release()


class _RealSpawned(Spawned[T]):
    """A function on a real thread, with its result."""

    __slots__ = ("_error", "_looked_at", "_name", "thread")

    def __init__(self, name: str, body: Callable[[], T]) -> None:
        self._name = name
        self._error: BaseException | None = None
        self._looked_at = False

        def live() -> None:
            try:
                self._result = body()
            except BaseException as error:  # noqa: BLE001 # a thread's outermost frame
                self._error = error

        self.thread = threading.Thread(target=live, name=name, daemon=True)

    @property
    def name(self) -> str:
        return self._name

    @property
    def done(self) -> bool:
        return self.thread.ident is not None and not self.thread.is_alive()

    @property
    def error(self) -> BaseException | None:
        if not self.done:
            msg = (
                f"cannot return the error of {self.name}: it still runs; join it first"
            )
            raise RuntimeError(msg)
        self._looked_at = True
        return self._error

    @property
    def unknown_error(self) -> BaseException | None:
        """The exception that was raised, if no caller has read it."""
        return None if self._looked_at else self._error

    def join(self, timeout: float | None = None) -> bool:
        self.thread.join(timeout)
        return self.done


class _RealRun(Run):
    """One run on real threads."""

    __slots__ = ("_began", "_real", "_timeout")

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._real: list[_RealSpawned[Any]] = []
        self._began = time.monotonic()

    def perform(self, program: Callable[[Run], object], what: str) -> None:
        """Run the program as a task of its own, and check how all tasks ended."""
        main = self.spawn(program, self, name="main")
        deadline = self._began + self._timeout
        for each in self._unfolding():
            each.join(max(deadline - time.monotonic(), 0.0))
        waiting = [each for each in self._real if not each.done]
        if main.done and not main.unknown_error and ran_nothing(main.result):
            raise NotPlainError
        failed = [e for e in (main, *self._real) if e.done and e.unknown_error]
        if failed:
            error = failed[0].unknown_error
            text = f"{failed[0].name} raised {type(error).__name__}: {error}"
            told = "".join(traceback.format_exception(error))
            _fail(FailureKind.EXCEPTION, text, what, told, error)
        if waiting:
            text = f"{', '.join(e.name for e in waiting)} did not end in"
            told = "\n".join(_stack(each) for each in waiting)
            _fail(FailureKind.DEADLOCK, f"{text} {self._timeout:g} s", what, told, None)

    def _unfolding(self) -> Iterator[_RealSpawned[Any]]:
        """Yield all spawned tasks, including those spawned during the iteration."""
        for number in itertools.count():
            if number == len(self._real):
                return
            yield self._real[number]

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def spawn(
        self,
        function: Callable[[Unpack[Ts]], T],
        *args: *Ts,
        name: str | None = None,
    ) -> _RealSpawned[T]:
        name = name or str(getattr(function, "__name__", type(function).__name__))
        spawned = _RealSpawned(name, lambda: function(*args))
        self._real.append(spawned)
        spawned.thread.start()
        return spawned

    def join(self) -> None:
        me = threading.current_thread()
        for each in self._unfolding():
            if each.thread is not me and each is not self._real[0]:
                each.join()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def settle(self) -> NoReturn:
        raise RuntimeError("cannot settle: nobody knows when real threads have")

    def interrupt(self, spawned: object, error: object) -> NoReturn:  # noqa: ARG002
        raise RuntimeError("cannot interrupt: the thread is real")


def _stack(spawned: _RealSpawned[Any]) -> str:
    frame = sys._current_frames().get(spawned.thread.ident or 0)
    return f"{spawned.name}:\n{''.join(traceback.format_stack(frame))}"


def _fail(
    kind: FailureKind, text: str, what: str, told: str, error: BaseException | None
) -> NoReturn:
    failure = Failure(kind, f"{kind}: {text} ({what})\n\n{told}")
    raise failure from error
