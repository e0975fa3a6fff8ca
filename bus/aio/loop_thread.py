"""`LoopThread`: an event loop as a thread of a bus, which hosts tasks.

The loop serves the tasks between its own callbacks, whenever their inbox has an item.
Serving never blocks, since these tasks have no callbacks: their messages stay unread
until a coroutine receives them, so that the capacity of a task counts them.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Final

from bus.api.bus_thread import LOOPS, SERVING, BusThread
from bus.api.reentry import guarded
from queuebroker import _sync
from queuebroker.aio.waiting import wait_for
from queuebroker.aio.waker import running_waker
from queuebroker.waiting.parking import PENDING, Pending

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine

    from bus.api.bus_thread import ThreadOwner
    from bus.api.bus_threads import BusThreads
    from bus.api.task import Task
    from bus.process.thread_manager import ThreadManager

__all__ = ["LoopThread", "wait_until"]

_numbers: Final = itertools.count(1)  # of the threads, for their names
# Maximum time, in seconds, for which the end waits for cancelled handlers.
_CANCEL_S: Final = 1.0


async def wait_until(
    done: Callable[[], object], task: Task, deadline: float | None
) -> bool:
    """Wait until ``done()`` returns true; return False if the deadline passes first.

    task: a task of the running loop. A thread that makes the condition true wakes the
      waiters of its receiver afterwards (`Receiver.wake_waiters`).
    deadline: on the monotonic clock in seconds; None for no limit.

    Raises:
        RuntimeError: another loop hosts the task.
    """
    receiver = task._receiver
    waiters = receiver.waiters
    try:
        while not done():
            # Arrived messages come before the deadline.
            host = task._entry.host
            if host is not None and host.thread.serve():
                continue
            waiter = running_waker().waiter()
            waiters.append(waiter)
            try:
                # Checked after the parker is listed: an earlier thread could not see
                # it.
                if not done() and not await waiter.slept(deadline):
                    return bool(done())
            finally:
                waiters.remove(waiter)
    finally:
        # It may have been woken for a message that it does not take, or for the first
        # of several.
        receiver.wake_next_waiter()
    return True


class LoopThread(BusThread):
    """The thread of an event loop, which serves tasks between its callbacks.

    It is created in the running loop. An asyncio task of its own serves until the
    thread is stopped, or until the loop cancels that task at its end; both deregister
    the tasks of the bus.

    loop: the event loop.
    caller: the `bus.aio.Task` for the calls of its coroutines; None before the first.
    closing: closes the bus, if a handler has requested that; else None.
    are_idle: for each task with a handler, a function that returns True if the handler
      neither handles a command nor has one to take. A stopped thread serves until all
      are idle, until its stop time at the latest.

    Lock: `ThreadManager.driving` is held until the thread has ended.
    """

    __slots__ = (
        "_jobs",
        "_serving",
        "_until",
        "_woken",
        "are_idle",
        "caller",
        "closing",
        "loop",
    )

    def __init__(self, owner: ThreadOwner, manager: ThreadManager) -> None:
        super().__init__(owner, manager)
        self.loop: Final[AbstractEventLoop] = asyncio.get_running_loop()
        self.caller: Any = None
        self.closing: asyncio.Task[None] | None = None
        self.are_idle: Final[set[Callable[[], bool]]] = set()
        self._jobs: Final[set[asyncio.Task[None]]] = set()
        manager.adopt()
        manager.driving.acquire()
        # Except in `_serve`, coroutines use the bus as other threads do, by the inbox:
        # they may be in the middle of a function of the bus that the loop must not
        # enter again.
        manager.waiting = True
        me = _sync.get_ident()
        LOOPS[me] = LOOPS.get(me, 0) + 1
        SERVING.add(me)
        # The deadline of the current wait of the serving asyncio task; None for none.
        self._until: float | None = None
        self._woken: bool = False  # see `_wake`
        # Neither it nor a worker is referred to after its end: its exception would keep
        # the frames of its coroutines, and so the descriptor of the loop.
        self._serving: asyncio.Task[None] | None = self.loop.create_task(
            self._serve_to_the_end_in_loop()
        )

    @classmethod
    def of(cls, threads: BusThreads, loop: AbstractEventLoop) -> LoopThread:
        """Return the thread of the running loop; create it if it is missing."""
        for thread in threads.running.copy():
            if isinstance(thread, cls) and thread.loop is loop and thread.serves:
                return thread
        return threads.add(f"loop{next(_numbers)}", cls)

    @property
    def serves(self) -> bool:
        """True until the thread has ended, or its loop is closed."""
        return self._serving is not None and not self.loop.is_closed()

    def check_running(self) -> None:
        """Check that the event loop of the thread is the running one.

        Raises:
            RuntimeError: it is not.
        """
        if asyncio.get_running_loop() is not self.loop:
            msg = (
                f"thread {self.name!r} of bus {self._owner.name!r} belongs to another"
                " event loop: await its tasks there"
            )
            raise RuntimeError(msg)

    def start_job(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start an asyncio task that is cancelled when the thread ends."""
        task = self.loop.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._on_job_done)
        return task

    @property
    def runs_job(self) -> bool:
        """True if the current asyncio task is one of `start_job`, such as a handler."""
        return asyncio.current_task() in self._jobs

    def serve(self) -> bool:
        """Serve the arrived messages, without a wait; return False if there are none.

        For coroutines of the loop.

        Raises:
            RuntimeError: called in another loop.
        """
        self.check_running()
        manager = self._manager
        timers = manager.scheduler.timers
        if not (manager.pending() or (timers and timers[0][0] <= _sync.monotonic())):
            return False
        self._serve()
        if self.stopped or manager.pending() or _earlier(timers, self._until):
            self._wake()  # the serving asyncio task may sleep for too long
        return True

    async def _serve_to_the_end_in_loop(self) -> None:
        try:
            await self._serve_until_stopped()
            await self._cancel_jobs()
        except GeneratorExit:
            raise  # the loop is closed, and can end nothing: see `_await_end`
        except BaseException:
            self._end_in_loop()
            raise
        self._end_in_loop()

    async def _serve_until_stopped(self) -> None:
        manager = self._manager
        inbox, timers = manager.inbox, manager.scheduler.timers
        while not (self.stopped and self._is_drained()):
            if manager.pending():
                await asyncio.sleep(0)  # the other coroutines have their turn
            else:
                self._until = manager.stop_at
                if _earlier(timers, self._until):
                    self._until = timers[0][0]
                await wait_for(
                    *(inbox, inbox.arrived, self._attempt_locked, self._has_work),
                    self._until,
                )
                self._woken = False
            try:
                self._serve()
            except Exception:  # noqa: BLE001 # of the bus; it ends only this step
                self._owner.exchange.failures.log("serve", f"thread {self.name!r}")

    async def _cancel_jobs(self) -> None:
        """Cancel the handlers, so that their callers are answered before the end."""
        for job in self._jobs.copy():
            job.cancel()
        if self._jobs:
            await asyncio.wait(self._jobs.copy(), timeout=_CANCEL_S)

    def _wake(self) -> None:
        """Wake the serving asyncio task, although nothing has arrived."""
        self._woken = True
        inbox = self._manager.inbox
        with inbox.lock:
            inbox.arrived.wake_one()

    def _has_work(self) -> bool:
        return self._woken or self._manager.inbox.has_items()

    def _attempt_locked(self) -> Pending | None:
        return None if self._has_work() else PENDING

    @guarded("serve a thread")
    def _serve(self) -> None:
        """Serve the arrived messages, without a wait."""
        manager = self._manager
        manager.waiting = False
        try:
            manager.link_wait = None  # the comm thread reads the links
            manager.poll(0.0)
        finally:
            manager.waiting = True
            # Without a further turn of the loop for the coroutines woken just now.
            running_waker().answer()

    def _is_drained(self) -> bool:
        """Return True if nothing is left to do for a stopped thread, or time is up."""
        manager = self._manager
        if manager.stop_at is None:
            return False  # the request to stop is in the inbox
        if _sync.monotonic() >= manager.stop_at:
            return True
        return not manager.pending() and all(is_idle() for is_idle in self.are_idle)

    def _on_job_done(self, task: asyncio.Task[None]) -> None:
        self._jobs.discard(task)
        if self.stopped:
            self._wake()  # it may be drained now

    def _end_in_loop(self) -> None:
        """End the thread, in the loop or as the loop cancels all its tasks."""
        manager = self._manager
        try:
            self._request_stop(0.0, final=False)  # else its asyncio task was cancelled
            for job in self._jobs.copy():
                job.cancel()
            manager.waiting = False
            self._end_locked()
        finally:
            self._forget_ident()
            self._serving = None
            manager.driving.release()
            running_waker().answer()

    def _await_end(self) -> None:
        """Wait until the thread has ended; take over if its loop cannot end it."""
        here = _sync.get_ident() == self._manager.ident
        if not self._ended and (
            self.loop.is_closed() or (here and not self.loop.is_running())
        ):
            self._manager.waiting = False
            self._forget_ident()
            self._manager.driving.release()
        super()._await_end()

    def _forget_ident(self) -> None:
        ident = self._manager.ident
        assert ident is not None
        LOOPS[ident] -= 1
        if not LOOPS[ident]:  # else it has another bus
            SERVING.discard(ident)
            del LOOPS[ident]


def _earlier(
    timers: list[tuple[float, int, Callable[[], object]]], until: float | None
) -> bool:
    """Return True if the first timer is due before a time; None for never."""
    return bool(timers) and (until is None or timers[0][0] < until)
