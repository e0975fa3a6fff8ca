"""Helpers for tests with real threads: threads that report, and waits without sleep.

A test never orders threads by a pause. It waits until a condition holds (`until`), puts
steps in order (`Sequencer`), and gets the outcome of each thread from `Threads`. If a
thread hangs, all stacks are shown and the test fails; the thread is a daemon, so that
the run can go on.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from queuebroker import _sync
from tests.watchdog import LIMIT_S, show_stacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

__all__ = [
    "LIMIT_S",
    "Running",
    "Sequencer",
    "Threads",
    "switch_interval",
    "taken",
    "ticking",
    "until",
]

_LOOK_S = 0.001
_TICK_S = 0.01

P = ParamSpec("P")
T = TypeVar("T")


def taken(lock: _thread.RLock) -> bool:
    """Return whether any thread holds a lock that its owner could take again."""
    if _sync.owns(lock) or not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


class Running(Generic[T]):
    """One started thread, and the outcome of its function."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self._function = function
        self._told = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """The name of the thread."""
        return self._thread.name

    @property
    def done(self) -> bool:
        """True once the function has returned or raised."""
        return not self._thread.is_alive()

    def join(self, limit_s: float = LIMIT_S) -> None:
        """Wait for the end of the thread, whether it returned or raised.

        Raises:
            AssertionError: it is still running; the stacks of all threads are shown.
        """
        self._thread.join(limit_s)
        if self._thread.is_alive():
            show_stacks()
            raise AssertionError(f"{self.name} still runs after {limit_s:g} s")

    def result(self, limit_s: float = LIMIT_S) -> T:
        """Wait, then return the function's result, or raise its exception."""
        self.join(limit_s)
        self._told = True
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def error(self, limit_s: float = LIMIT_S) -> BaseException | None:
        """Wait, then return the function's exception, or None if it returned."""
        self.join(limit_s)
        self._told = True
        return self._error

    def untold_error(self) -> BaseException | None:
        """Return the exception, unless `result` or `error` has reported it already."""
        return None if self._told else self._error

    def _work(self) -> None:
        try:
            self._outcome.append(self._function())
        except BaseException as error:  # noqa: BLE001 # the thread's outermost loop
            self._error = error


class Threads:
    """The threads of one test; leaving the block joins them all.

    ::

        with Threads() as threads:
            receiver = threads.start(queue.receive)
            queue_of_the_peer.send(b"x")
        assert receiver.result() == b"x"

    If no call has fetched the error of a thread, it is raised at the end of the block.
    If the block itself raises, that error wins, and no thread is joined.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._all: list[Running[object]] = []

    def start(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Running[T]:
        """Call ``function`` in a new thread."""
        name = f"{getattr(function, '__name__', 'thread')}-{len(self._all)}"
        running = Running(lambda: function(*args, **kwargs), name)
        self._all.append(running)  # type: ignore[arg-type] # only joined and queried
        return running

    def join(self) -> None:
        """Wait for all of them, then raise the first error that was not fetched."""
        deadline = monotonic() + self._limit_s
        for running in self._all:
            running.join(max(0.0, deadline - monotonic()))
        for running in self._all:
            if (error := running.untold_error()) is not None:
                raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.join()


class Sequencer:
    """Puts steps of several threads in one order.

    ``with steps(0):`` in one thread comes before ``with steps(1):`` in any other; a
    number is used once.
    """

    def __init__(self) -> None:
        self._next = 0
        self._moved = threading.Condition()

    @contextmanager
    def __call__(self, number: int) -> Iterator[None]:
        """Wait for the turn of ``number``, and pass the turn on at the end.

        Raises:
            AssertionError: its turn does not come.
        """
        with self._moved:
            if not self._moved.wait_for(lambda: self._next == number, LIMIT_S):
                show_stacks()
                raise AssertionError(
                    f"step {number} waits: step {self._next} is not done"
                )
        try:
            yield
        finally:
            with self._moved:
                self._next = number + 1
                self._moved.notify_all()


def until(
    condition: Callable[[], bool], what: str, *, limit_s: float = LIMIT_S
) -> None:
    """Wait until ``condition()`` is true, as another thread will make it.

    Raises:
        AssertionError: it never is; ``what`` describes the condition.
    """
    deadline = monotonic() + limit_s
    pause = threading.Event()
    while not condition():
        if monotonic() > deadline:
            show_stacks()
            raise AssertionError(f"not so after {limit_s:g} s: {what}")
        pause.wait(_LOOK_S)


@contextmanager
def switch_interval(seconds: float) -> Iterator[None]:
    """Set how long a thread runs before the interpreter switches to another."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def ticking(handler: Callable[[], object]) -> Iterator[None]:
    """Call a handler in the main thread again and again, as a signal does."""
    has_timer = hasattr(signal, "setitimer")
    number = signal.SIGALRM if has_timer else signal.SIGINT
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(_TICK_S):
            _thread.interrupt_main(number)

    before = signal.signal(number, lambda *_: handler())
    try:
        if has_timer:
            signal.setitimer(signal.ITIMER_REAL, _TICK_S, _TICK_S)
            yield
        else:
            with Threads() as threads:
                threads.start(tick)
                try:
                    yield
                finally:
                    ended.set()
    finally:
        if has_timer:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(number, before)
