"""`LoopThread`: an event loop as a thread of a bus, which hosts tasks.

The loop serves the tasks between its own callbacks, whenever their inbox has an item.
Serving never blocks, since these tasks have no callbacks: their messages stay unread
until a coroutine receives them, so that the capacity of a task counts them.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import weakref
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, cast

from bus.aio.loop_links import LoopLinks
from bus.aio.waits import GuardedWait
from bus.api.bus_thread import LOOPS, BusThread
from bus.api.bus_threads import BusThreads
from bus.api.reentry import guarded
from queuebroker import _sync
from queuebroker.aio.waiting import wait_for
from queuebroker.aio.waker import running_waker
from queuebroker.waiting.parking import PENDING, Pending

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine

    from bus.api.bus_thread import StuckCallback, ThreadOwner
    from bus.process.thread_manager import ThreadManager
    from queuebroker.aio.waker import Waker

__all__ = ["HandlerTask", "LoopThread"]

_numbers: Final = itertools.count(1)  # of the threads, for their names
# Maximum time, in seconds, for which the end waits for cancelled handlers.
_CANCEL_S: Final = 1.0

_add: Final = guarded("serve in an event loop")(BusThreads.add)
_end: Final = guarded("stop a thread")(BusThread._end_as_orphan)


class HandlerTask(Protocol):
    """A task with a handler, as its thread uses it; `bus.aio.Task` implements it."""

    def _take(self) -> None:
        """Let the handler take unread commands, as many as it may handle at once."""

    def _is_idle(self) -> bool:
        """Return True if the handler handles no command and has none to take."""

    def _is_handled_by(self, job: asyncio.Task[Any] | None) -> bool:
        """Return True if an asyncio task handles a command of the task."""

    def _answer_busy(self) -> None:
        """Answer the commands that the handler handles with an error."""


class LoopThread(BusThread):
    """The thread of an event loop, which serves tasks between its callbacks.

    It is created in the running loop. An asyncio task of its own serves until the
    thread is stopped, or until the loop cancels that task at its end; both deregister
    the tasks of the bus. If the loop cannot do so any more, another thread does.

    loop: the event loop.
    caller: the `bus.aio.Task` for the calls of its coroutines; None before the first.
    ending: True once the handlers are cancelled, and take no more commands.
    closing: closes the bus, if a handler has requested that; else None.
    drives: True while the loop serves.
    waker: returns that of the loop. take_last_link: see `LoopLinks.take_last`.
    handled: the tasks with a handler. A stopped thread serves until all are idle, until
      its stop time at the latest.

    Lock: `ThreadManager.driving` is held for the loop until the thread has ended.
    """

    __slots__ = (
        "_context",
        "_jobs",
        "_links",
        "_released",
        "_serving",
        "_taking",
        "_until",
        "_woken",
        "caller",
        "closing",
        "drives",
        "ending",
        "handled",
        "loop",
        "take_last_link",
        "waker",
    )

    def __init__(self, owner: ThreadOwner, manager: ThreadManager) -> None:
        super().__init__(owner, manager)
        self.loop: Final[AbstractEventLoop] = asyncio.get_running_loop()
        self._context: Final = contextvars.copy_context()
        self.caller: Any = None
        self.closing: asyncio.Task[None] | None = None
        self.handled: Final[set[HandlerTask]] = set()
        self._links: Final = LoopLinks(manager, self.loop, self._on_links_ready)
        self.take_last_link: Final = self._links.take_last
        # The tasks with a handler that may have commands to take, from any thread.
        self._taking: Final[deque[HandlerTask]] = deque()
        # The asyncio tasks of the handlers, with the callback for their end.
        self._jobs: Final[dict[asyncio.Task[None], Callable[..., object]]] = {}
        manager.adopt()
        manager.driving.acquire()
        self.drives: bool = True
        # True once the loop, or the thread that takes over from it, is to release that;
        # guarded by the lock of the threads.
        self._released: bool = False
        self.ending: bool = False
        # Weak: an exception's frames may hold this, and so would hold a descriptor.
        self.waker: Final = cast("Callable[[], Waker]", weakref.ref(running_waker()))
        # Except in `_serve`, coroutines use the bus as other threads do, by the inbox:
        # they may be in the middle of a function of the bus that the loop must not
        # enter again.
        manager.waiting = True
        LOOPS.append(self.loop)
        # The deadline of the current wait of the serving asyncio task; None for none.
        self._until: float | None = None
        self._woken: bool = False  # see `_wake`
        # Neither it nor a worker is referred to after its end: its exception would keep
        # the frames of its coroutines, and so the descriptor of the loop.
        self._serving: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, threads: BusThreads, loop: AbstractEventLoop) -> LoopThread:
        """Return the thread of the running loop; create it if it is missing.

        Raises:
            NotImplementedError: the loop cannot read descriptors.
        """
        for thread in threads.running.copy():
            if isinstance(thread, cls):
                if thread.loop is loop and thread.serves:
                    return thread
                if thread.loop.is_closed():
                    _end(thread)
        running_waker()  # raises before there is a thread
        # Callbacks must not run in the context of the coroutine that comes first, nor
        # in that of one that waits: see `serve`.
        context = contextvars.Context()
        new = context.run(_add, threads, f"loop{next(_numbers)}", cls)
        # Not guarded, nor under the lock of the threads: an eager asyncio task begins
        # here.
        context.run(new._start)
        return new

    @property
    def serves(self) -> bool:
        """True until the thread has ended, or its loop is closed."""
        return self.drives and not self.loop.is_closed()

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

    def start_job(
        self,
        job: Coroutine[Any, Any, None],
        context: contextvars.Context,
        then: Callable[[asyncio.Task[None]], object],
    ) -> asyncio.Task[None]:
        """Start an asyncio task that is cancelled when the thread ends.

        context: the asyncio task gets a copy.
        then: called with the asyncio task when that is done.
        """
        # Not `create_task(context=)`, which not every task factory takes.
        task = context.run(self.loop.create_task, job)
        done = self._jobs[task] = partial(self._on_job_done, then)
        task.add_done_callback(done)
        return task

    def end_job(self, task: asyncio.Task[None]) -> None:
        """Forget an asyncio task in its last step: a callback would take another turn.

        One that is not known yet, since it was eager, has its callback later.
        """
        done = self._jobs.get(task)
        if done is not None:
            self._forget_job(task)
            task.remove_done_callback(done)  # last: until then an interrupt needs it

    def runs_handler(self) -> bool:
        """Return True if the current asyncio task handles a command."""
        if asyncio.get_running_loop() is not self.loop:
            return False  # that loop may change the set just now
        job = asyncio.current_task()
        return any(task._is_handled_by(job) for task in self.handled)

    def serve(self) -> bool:
        """Serve the arrived messages, without a wait; return False if there are none.

        For coroutines of the loop.

        Raises:
            RuntimeError: called in another loop.
        """
        self.check_running()
        manager = self._manager
        timers = manager.scheduler.timers
        if not (manager.waiting and self.drives):
            # An eager asyncio task begins within a callback, or as in `_step`.
            return False
        if not (manager.pending() or (timers and timers[0][0] <= _sync.monotonic())):
            return False
        self._context.run(self._then_wake, self._serve)
        self._wake_if_due()
        if self._taking:
            self._wake()
        return True

    def _start(self) -> None:
        """Start the asyncio task that serves."""
        self._serving = self.loop.create_task(self._serve_to_the_end_in_loop())
        self._serving.add_done_callback(self._on_served)

    def _on_served(self, serving: asyncio.Task[None]) -> None:
        # Not in the coroutine: the loop may cancel it before its first step.
        if serving is self._serving:  # else another one serves after an interrupt
            self._end_in_loop()

    async def _serve_to_the_end_in_loop(self) -> None:
        manager = self._manager
        try:
            await self._serve_in_loop(self._is_drained, lambda: manager.stop_at)
            # Cancel the handlers, so that their callers are answered before the end.
            self.ending = True
            for job in self._jobs.copy():
                job.cancel()
            limit = _sync.monotonic() + _CANCEL_S
            await self._serve_in_loop(
                lambda: not self._jobs or _sync.monotonic() >= limit, lambda: limit
            )
        except (KeyboardInterrupt, SystemExit):
            self._start()  # the loop may run again
            raise

    async def _serve_in_loop(
        self, over: Callable[[], bool], until: Callable[[], float | None]
    ) -> None:
        """Serve the tasks until ``over()``, which is to be called at ``until()``."""
        manager = self._manager
        inbox, timers = manager.inbox, manager.scheduler.timers
        while self.drives and not over():
            if manager.pending():
                await asyncio.sleep(0)  # the other coroutines have their turn
            else:
                self._until = until()
                if _earlier(timers, self._until):
                    self._until = timers[0][0]
                await wait_for(
                    *(inbox, inbox.arrived, self._attempt_locked, self._has_work),
                    *(self._until, GuardedWait),
                )
                self._woken = False
            self._step()

    def _step(self) -> None:
        if self.drives:  # else another thread has taken over: see `_leave_loop`
            self._then_wake(self._serve)
            self._let_take()

    def _then_wake(self, step: Callable[[], object]) -> None:
        """Run a step, then wake the coroutines whose waiters it has released.

        So these need no event, nor a further turn of the loop.
        """
        try:
            self.waker().disarm()
            step()
            self.waker().wake_all()
        except BaseException:
            self.waker().set_event()
            raise

    def take_soon(self, task: HandlerTask) -> None:
        """Let a handler take commands, when this step ends, or else in a step.

        Any thread may call this.
        """
        self._taking.append(task)
        manager = self._manager
        if manager.waiting or not manager.is_owner():
            self._wake()

    def _let_take(self) -> None:
        while self._taking:
            try:
                self._taking[0]._take()
            except Exception:  # noqa: BLE001 # as in `_serve_now`
                self._log_failure()
            except BaseException:
                self._wake()  # an interrupt: the next step tries again
                raise
            self._taking.popleft()

    @guarded("serve a thread")
    def _wake(self) -> None:
        """Wake the serving asyncio task, although nothing has arrived."""
        self._woken = True
        inbox = self._manager.inbox
        with inbox.lock:
            inbox.arrived.wake_one()

    def _has_work(self) -> bool:
        return self._woken or bool(self._taking) or self._manager.inbox.has_items()

    def _attempt_locked(self) -> Pending | None:
        return None if self._has_work() else PENDING

    def _serve_now(self) -> None:
        """Serve the arrived messages, without a wait."""
        manager = self._manager
        if not manager.is_owner():
            manager.adopt()  # the loop runs in another thread now
        manager.waiting = False
        try:
            self._links.take_last()  # that of a message sent without `take_last_link`
            manager.poll(0.0)
        except Exception:  # noqa: BLE001 # of the bus; it ends only this step
            self._log_failure()
        finally:
            manager.waiting = True

    _serve = guarded("serve a thread")(_serve_now)

    def _log_failure(self) -> None:
        self._owner.exchange.failures.log("serve", f"thread {self.name!r}")

    def _on_links_ready(self) -> None:
        if self.drives:  # as in `_step`
            self._then_wake(self._read_links)
            self._let_take()

    @guarded("serve a thread")
    def _read_links(self) -> None:
        try:
            self._links.read()
            if self._manager.pending():
                self._serve_now()
        except Exception:  # noqa: BLE001 # as in `_serve_now`
            self._log_failure()
        finally:
            self._wake_if_due()

    def _wake_if_due(self) -> None:
        """Wake the serving asyncio task if it would sleep for too long."""
        manager = self._manager
        if (
            self.stopped
            or manager.pending()
            or _earlier(manager.scheduler.timers, self._until)
        ):
            self._wake()

    def _is_drained(self) -> bool:
        """Return True if nothing is left to do for a stopped thread, or time is up."""
        manager = self._manager
        if manager.stop_at is None:
            return False  # the request to stop is in the inbox, if there is one
        if _sync.monotonic() >= manager.stop_at:
            return True
        return not manager.pending() and all(task._is_idle() for task in self.handled)

    def _on_job_done(
        self, then: Callable[[asyncio.Task[None]], object], task: asyncio.Task[None]
    ) -> None:
        self._forget_job(task)
        then(task)

    def _forget_job(self, task: asyncio.Task[None]) -> None:
        self._jobs.pop(task, None)
        if self.stopped:
            self._wake()  # it may be drained now

    @guarded("stop a thread")
    def _end_in_loop(self) -> None:
        """End the thread, in the loop or as the loop cancels all its tasks."""
        self._serving = None
        if self._owner.lifetime.foreign:
            return  # a forked child may leave its copy of the loop, too
        self._links.close()
        manager, mine = self._manager, False
        try:
            with self._owner.lock:
                if self._released:
                    return
                self._released = mine = True
            self._request_stop(0.0, final=False)  # else its asyncio task was cancelled
            for job in self._jobs.copy():
                job.cancel()
            for task in self.handled.copy():
                task._answer_busy()  # the handlers end too late
            manager.waiting = False
            self._end_locked()
        finally:
            if mine:
                self.drives = False
                manager.driving.release()
                self.waker().answer()

    def _end_locked(self) -> None:
        super()._end_locked()
        with suppress(ValueError):  # a forked child has forgotten it
            LOOPS.remove(self.loop)

    def _await_end(self) -> None:
        """Wait until the thread has ended; take over if its loop cannot end it."""
        self._leave_loop()
        super()._await_end()

    def _on_delay(self, stuck: StuckCallback) -> None:
        self._leave_loop()
        if self.loop.is_running():
            stuck.check_loop()
        super()._on_delay(stuck)

    def _leave_loop(self) -> None:
        """Release `driving` if the loop cannot end the thread."""
        manager, loop = self._manager, self.loop
        if loop.is_running():
            return
        with self._owner.lock:
            if self._released:
                return
            self.drives = False
            # Another thread may start the loop just now. Either it finds that the loop
            # does not serve any more, or it may be serving. Then it ends by itself.
            if loop.is_running():
                return
            self._released = True  # no call from here to the release
            manager.waiting = False
            manager.driving.release()
        self._links.leave_all()
        self._wake()  # if the loop runs again, its asyncio task ends

    # A plain call between two runs of the loop, in its thread.

    def _check_mine(self, act: str) -> None:
        super()._check_mine(act)
        self._refuse(act)

    def _poll(self, until: float | None) -> NoReturn:  # noqa: ARG002
        self._refuse("wait")

    def _refuse(self, act: str) -> NoReturn:
        msg = (
            f"cannot {act} in thread {self.name!r}: its event loop serves its tasks;"
            " run the loop, and await the calls of bus.aio in it"
        )
        raise RuntimeError(msg)


def _earlier(
    timers: list[tuple[float, int, Callable[[], object]]], until: float | None
) -> bool:
    """Return True if the first timer is due before a time; None for never."""
    return bool(timers) and (until is None or timers[0][0] < until)
