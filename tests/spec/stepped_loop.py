"""`SteppedLoop`: an event loop that does one thing when it is told to.

What it can do next is in one list: callbacks that are due, and descriptors that are
readable. A step does the first of them, so that a test can cancel, or let something
happen, between any two. Time is virtual and goes on by `advance` only; `_sync` has the
same clock while it runs.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from queuebroker import _sync

if TYPE_CHECKING:
    from asyncio import Future, Handle, Task, TimerHandle
    from collections.abc import Callable, Coroutine, Iterator

__all__ = ["SteppedLoop", "stepped_loop"]

T = TypeVar("T")

_STEPS_MAX = 10_000


class SteppedLoop:
    """One callback at a time.

    No `asyncio.AbstractEventLoop`: of that only what futures, tasks and readers need.
    """

    def __init__(self) -> None:
        self.now: float = 1000.0
        self.errors: list[dict[str, Any]] = []
        self._ready: deque[Handle] = deque()
        self._timers: list[TimerHandle] = []
        self._readers: dict[int, Handle] = {}
        self._as_loop: Any = self

    # What a test does.

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        """Make a task; it begins with one of the next steps."""
        return asyncio.Task(coroutine, loop=self._as_loop)

    def step(self) -> bool:
        """Do the next thing; False if there is none."""
        while self._ready and self._ready[0].cancelled():
            self._ready.popleft()
        if not self._ready:
            readable = select.select(list(self._readers), [], [], 0)[0]
            self._ready.extend(self._readers[fd] for fd in readable)
        if not self._ready:
            return False
        handle = self._ready.popleft()
        asyncio._set_running_loop(self._as_loop)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)
        return True

    def run(self) -> None:
        """Step until nothing is left to do."""
        for _ in range(_STEPS_MAX):
            if not self.step():
                assert not self.errors, self.errors
                return
        raise AssertionError("it goes round and round")

    def run_until(self, task: Future[T]) -> T:
        """Step until nothing is left to do; give what the task came to."""
        self.run()
        assert task.done(), task
        return task.result()

    def advance(self, seconds: float, *, early: float = 0.0) -> None:
        """Let time pass, and run. A timer may go off ``early`` seconds too early."""
        self.now += seconds
        due = [each for each in self._timers if each.when() <= self.now + early]
        self._timers = [each for each in self._timers if each not in due]
        due.sort(key=lambda timer: timer.when())
        self._ready.extend(due)
        self.run()

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def create_future(self) -> Future[Any]:
        return asyncio.Future(loop=self._as_loop)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Handle:
        handle = asyncio.Handle(callback, args, self._as_loop, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Any = None,
    ) -> TimerHandle:
        when = self.now + delay
        timer = asyncio.TimerHandle(when, callback, args, self._as_loop, context)
        self._timers.append(timer)
        return timer

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        self._timers = [each for each in self._timers if each is not handle]

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        self._readers[fd] = asyncio.Handle(callback, args, self._as_loop)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def close(self) -> None:
        """Let go of everything, as a loop does that is closed."""
        assert not self._timers, "a timer is left"
        self._readers.clear()
        self._ready.clear()


@contextmanager
def stepped_loop() -> Iterator[SteppedLoop]:
    """Give a loop whose clock is that of the library meanwhile."""
    loop = SteppedLoop()
    before = _sync.monotonic
    _sync.monotonic = loop.time
    try:
        yield loop
    finally:
        _sync.monotonic = before
        loop.close()
