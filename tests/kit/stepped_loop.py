"""`SteppedLoop`: an event loop that runs one callback a step, under the test's control.

One list holds everything that can run next: callbacks that are due, and descriptors
that are readable. A step runs the first entry, so a test can cancel, or trigger an
event, between any two. Time is virtual and moves by `advance` only; `_sync` uses the
same clock while the loop runs.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from queuebroker import _sync
from queuebroker.aio.waker import _wakers

if TYPE_CHECKING:
    from asyncio import Future, Handle, Task, TimerHandle
    from collections.abc import Callable, Coroutine, Iterator

__all__ = ["SteppedLoop", "stepped_loop"]

T = TypeVar("T")

_STEPS_MAX = 10_000


class SteppedLoop:
    """An event loop that runs one callback at a time.

    Not an `asyncio.AbstractEventLoop`: it has only what futures, tasks and readers
    need.
    """

    def __init__(self) -> None:
        self.now: float = 1000.0
        self.errors: list[dict[str, Any]] = []
        self._ready: deque[Handle] = deque()
        self.timers: list[TimerHandle] = []
        self._readers: dict[int, Handle] = {}
        self._as_loop: Any = self

    # Called by tests.

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        """Create a task; it begins in one of the next steps."""
        return asyncio.Task(coroutine, loop=self._as_loop)

    def step(self) -> bool:
        """Run the next callback; return False if there is none."""
        while self._ready and self._ready[0].cancelled():
            self._ready.popleft()
        if not self._ready:
            # Windows refuses to select among no readers.
            readable = list(self._readers)
            if readable:
                readable = select.select(readable, [], [], 0)[0]
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
        """Step until nothing is left to run."""
        for _ in range(_STEPS_MAX):
            if not self.step():
                assert not self.errors, self.errors
                return
        raise AssertionError("it goes round and round")

    def run_until(self, task: Future[T]) -> T:
        """Step until nothing is left to run; return the result of the task."""
        self.run()
        assert task.done(), task
        return task.result()

    def advance(self, seconds: float, *, early: float = 0.0) -> None:
        """Advance the clock, and run. A timer may fire ``early`` seconds too early."""
        self.now += seconds
        due = [each for each in self.timers if each.when() <= self.now + early]
        self.timers = [each for each in self.timers if each not in due]
        due.sort(key=lambda timer: timer.when())
        self._ready.extend(due)
        self.run()

    # Called by asyncio, and by tasks.

    def create_task(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        return self.start(coroutine)

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self._as_loop

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
        self.timers.append(timer)
        return timer

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        self.timers = [each for each in self.timers if each is not handle]

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        self._readers[fd] = asyncio.Handle(callback, args, self._as_loop)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def close(self) -> None:
        """Drop all callbacks and readers, as a closed loop does."""
        reference = _wakers.get(self._as_loop)
        waker = None if reference is None else reference()
        assert waker is None or not waker.deadlines, "a sleeper is left"
        self.timers.clear()
        self._readers.clear()
        self._ready.clear()


@contextmanager
def stepped_loop() -> Iterator[SteppedLoop]:
    """Yield a loop whose clock replaces that of the library meanwhile."""
    loop = SteppedLoop()
    before = _sync.monotonic
    _sync.monotonic = loop.time
    try:
        yield loop
    finally:
        _sync.monotonic = before
        loop.close()
