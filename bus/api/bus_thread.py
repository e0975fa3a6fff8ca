"""`BusThread`: the public object of a thread that hosts tasks.

`StuckCallback` logs the callback that keeps a thread from ending. So the log of a
program that does not end shows the cause, as the debug mode of asyncio does.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from bus.api.arguments import check_callback, deadline_after, duration
from bus.api.reentry import calls_user, guarded
from bus.errors import UnknownTaskError
from bus.kernel import constants
from bus.process import scheduler
from bus.process.exchange import Exchange
from bus.process.thread_manager import ThreadManager
from queuebroker import _platform, _sync
from queuebroker.closable import Uncopyable

if TYPE_CHECKING:
    import _thread
    from asyncio import AbstractEventLoop
    from types import FrameType

    from bus.api.lifetime import Lifetime

__all__ = [
    "LOOPS",
    "SERVING",
    "BusThread",
    "StuckCallback",
    "ThreadOwner",
    "check_may_wait",
    "in_callback",
]

_log: Final = logging.getLogger("bus")

# The modules that call callbacks.
_CALLERS: Final = ("bus.api.receiver", "bus.api.run_callback", scheduler.__name__)
_COROUTINE: Final = 0x80  # `inspect.CO_COROUTINE`, without its import

# The idents of the threads that serve a bus. Each thread adds and removes its own; that
# needs no lock. A forked child serves none.
SERVING: Final[set[int]] = set()
# The event loops that host tasks, once for each bus; see `bus.aio`. One that is stopped
# blocks no thread: `in_callback` asks for the running one.
LOOPS: Final[list[AbstractEventLoop]] = []
_platform.after_fork_in_child(SERVING.clear)
_platform.after_fork_in_child(LOOPS.clear)


def in_callback() -> bool:
    """Return True if the calling thread runs a callback, or else serves a bus."""
    # Without a further call in programs without such loops.
    return _sync.get_ident() in SERVING or (bool(LOOPS) and _in_loop())


def _in_loop() -> bool:
    """Return True if the calling thread runs an event loop that hosts tasks."""
    # In a thread that runs no loop, that is None. This module does not import asyncio.
    return bool(LOOPS) and sys.modules["asyncio"]._get_running_loop() in LOOPS


def check_may_wait(act: str, remedy: str) -> None:
    """Check that the calling thread may wait: that it serves no bus.

    act: the action of the call, for the error.
    remedy: the end of the error within a callback: the reason, and the remedy.

    Raises:
        RuntimeError: it runs a callback, or an event loop that hosts tasks.
    """
    if _in_loop():
        msg = (
            f"cannot {act} in an event loop, which it would block: await the call of a"
            " bus.aio.Bus, or run this with asyncio.to_thread"
        )
        raise RuntimeError(msg)
    if _sync.get_ident() in SERVING:
        raise RuntimeError(f"cannot {act} within a callback{remedy}")


class StuckCallback:
    """A monitor of an ending thread; `check` logs a callback that delays it, once."""

    __slots__ = ("_bus", "_manager", "_warned", "after_s")

    def __init__(self, manager: ThreadManager, bus: str) -> None:
        self._manager: Final = manager
        self._bus: Final = bus
        # The interval between two checks, and the maximum duration of a callback.
        self.after_s: Final = constants.STUCK_CALLBACK_S
        self._warned: float | None = None

    def check(self) -> None:
        """Log the current callback, if it has run for too long."""
        manager = self._manager
        running, since = manager.scheduler.running, manager.scheduler.since
        if running is None or since is None or since == self._warned:
            return
        for_s = _sync.monotonic() - since
        if for_s >= self.after_s:
            self._warned = since
            callback, stands = _place(manager.ident)
            _log.warning(
                "bus %r waits for thread %r to end: %s of task %r has not returned for"
                " %.1f s%s",
                *(self._bus, manager.name, callback, running.name, for_s, stands),
            )

    def check_loop(self) -> None:
        """Log which coroutine blocks the event loop of the thread, once."""
        manager = self._manager
        if manager.stop_at is not None or self._warned is not None:
            return  # the loop has taken the request to stop
        self._warned = _sync.monotonic()
        frame: FrameType | None = sys._current_frames().get(manager.ident or 0)
        while frame is not None and not frame.f_code.co_flags & _COROUTINE:
            frame = frame.f_back
        _log.warning(
            "bus %r waits for thread %r to end: its event loop is blocked%s",
            *(self._bus, manager.name, f"; it is at {_line(frame)}" if frame else ""),
        )


def _place(ident: int | None) -> tuple[str, str]:
    """Return the callback that a thread runs, and the line that it executes."""
    frame: FrameType | None = sys._current_frames().get(ident or 0)
    if frame is None:
        return "a callback", ""
    innermost = frame
    stands = f"; it is at {_line(innermost)}"
    while frame is not None:
        caller = frame.f_back
        if caller is not None and caller.f_globals.get("__name__") in _CALLERS:
            if frame is not innermost:
                stands = f"; it is at {_line(frame)}, in a call to {_line(innermost)}"
            return frame.f_code.co_qualname, stands
        frame = caller
    return "a callback", stands


def _line(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"


class ThreadOwner(Protocol):
    """The threads of a bus, as one of them uses them.

    `bus.api.bus_threads.BusThreads` implements it.
    """

    @property
    def lock(self) -> _thread.LockType:
        """The lock that guards the flags ``stopped`` of the threads."""

    @property
    def name(self) -> str:
        """The name of the bus."""

    @property
    def exchange(self) -> Exchange:
        """The exchange that carries the messages of all tasks of the bus."""

    @property
    def lifetime(self) -> Lifetime:
        """The time in which the bus may be used."""

    def deregister_tasks(self, thread: BusThread) -> None:
        """Deregister the tasks of a thread that has stopped."""


class BusThread(Uncopyable):
    """A thread of a bus, whose tasks take turns.

    `Bus.thread` and `Bus.here` create it. A callback that never returns blocks the
    other tasks of its thread, and no other thread (BUS-ENT-8). `Bus.inspect` shows how
    long a thread has been busy.

    stopped: True if the thread takes no more tasks, and ends once it has served those
      that it hosts.
    """

    # Lock: the thread that serves the tasks holds `ThreadManager.driving` meanwhile. A
    # thread that takes over at the end blocks on it. It is the outermost lock: a thread
    # that holds it may take others, but takes it only while holding none.
    __slots__ = (
        "_ended",
        "_final",
        "_manager",
        "_owner",
        "_thread",
        "stopped",
    )

    def __init__(self, owner: ThreadOwner, manager: ThreadManager) -> None:
        self._owner: Final = owner
        self._manager: Final = manager
        manager.thread = self
        # None for a thread from `Bus.here`.
        self._thread: _sync.Thread | None = None
        self.stopped: bool = False
        self._final: bool = False
        self._ended: bool = False  # True once its tasks are deregistered

    def __repr__(self) -> str:
        state = " stopped" if self.stopped else ""
        return f"<BusThread {self.name!r} of bus {self._owner.name!r}{state}>"

    @property
    def name(self) -> str:
        """The name of the thread, as in errors and in `Bus.inspect`."""
        return self._manager.name

    @guarded("run a thread")
    def run(self) -> None:
        """Serve the tasks until the thread is stopped; for threads from `Bus.here`.

        Raises:
            RuntimeError: called in another thread, or within a callback.
        """
        if self.stopped:
            return
        self._check_mine("run")
        self._run()

    @guarded("poll a thread")
    def poll(self, timeout: float | None = 0.0) -> int:
        """Run one callback of each task that has unread messages.

        If no task has any, wait for one: at most ``timeout`` seconds, None without
        limit. Return the number of callbacks run; 0 if no message is unread.

        Raises:
            RuntimeError: called in another thread, or within a callback.
            UnknownTaskError: the thread is stopped.
        """
        deadline = deadline_after(timeout)
        self._check_mine("poll")
        return self._poll(deadline)

    @guarded("call soon")
    def call_soon(self, function: Callable[[], object]) -> None:
        """Schedule a call in this thread, between two callbacks.

        Any thread may call this. An exception of ``function`` is logged.

        Raises:
            UnknownTaskError: the thread is stopped.
        """
        check_callback("function", function)
        self._check_takes_tasks()

        called = False

        @calls_user
        def guarded() -> None:
            nonlocal called
            if called:
                return  # an interrupt came out of the function
            called = True  # no call: no interrupt comes before the function is called
            try:
                function()
            except Exception:  # noqa: BLE001 # contained: the thread has other tasks
                name = getattr(function, "__qualname__", None) or repr(function)
                self._owner.exchange.failures.log(name, f"thread {self.name!r}")

        self._manager.ask(guarded)

    @guarded("stop a thread")
    def stop(self, *, drain: float = 0.0, final: bool = False) -> None:
        """End the thread and deregister its tasks (BUS-DEREG-9).

        drain: the seconds for which the thread may still serve unread messages.
        final: as in `Task.deregister`.

        Returns when the thread has ended, unless a callback calls this.
        """
        drain_s = duration("drain", drain)
        self._owner.lifetime.check_process()
        self._request_stop(_sync.monotonic() + drain_s, final=final)
        self._await_end()

    # For the bus.

    def _serve_until(self, done: Callable[[], object], deadline: float | None) -> bool:
        """Serve the tasks until ``done`` returns true, or until a deadline.

        Only the thread itself may call this. Return True if ``done`` returned true.

        Raises:
            UnknownTaskError: the thread is stopped meanwhile.
        """
        while not done():
            late = deadline is not None and deadline <= _sync.monotonic()
            # Even with no time left, serve once the messages that have arrived.
            self._poll(deadline)
            if late:
                return bool(done())
        return True

    def _poll(self, until: float | None) -> int:
        """Serve the unread messages once, as `ThreadManager.poll` does.

        Raises:
            UnknownTaskError: the thread is stopped.
        """
        if self.stopped or self._owner.lifetime.foreign:
            self._check_takes_tasks()
        manager = self._manager
        with manager.driving:
            me = _sync.get_ident()
            try:
                SERVING.add(me)
                try:  # `ThreadManager.poll`, inlined for each call
                    served = 0 if self.stopped else manager.step(until)
                finally:
                    if manager.leased is not None:
                        manager.return_lease()
                if self.stopped and not self._ended:
                    self._end_locked()
            finally:
                SERVING.discard(me)
        return served

    def _serve_to_the_end(self) -> None:
        """Serve the tasks until this is stopped; for threads from `Bus.thread`."""
        try:
            self._run()
        finally:
            # If an exception such as SystemExit leaves a callback, `stop` was not
            # called.
            self._request_stop(0.0, final=False)
            self._run()

    def _request_stop(self, until: float, *, final: bool) -> None:
        """Refuse further tasks, and request the end of the thread; does not wait."""
        with self._owner.lock:
            if not self.stopped:
                self._final = final
            self.stopped = True
        self._manager.stop(until)  # each time: an interrupt may come before this

    def _end_as_orphan(self) -> None:
        """End it after its Python thread, which has not stopped it (BUS-DEREG-9)."""
        self._request_stop(0.0, final=False)
        self._await_end()

    def _await_end(self) -> None:
        """Wait until the thread has ended.

        Within a callback this does not wait: other threads may wait for the callback.
        """
        waits = not in_callback()
        stuck = StuckCallback(self._manager, self._owner.name)
        if self._thread is not None:
            if waits and self._thread is not _sync.current_thread():
                while self._thread.is_alive():
                    self._thread.join(stuck.after_s)
                    stuck.check()
            return
        driving = self._manager.driving
        wait_s = stuck.after_s if waits else -1
        # An iterator, as in `_sync.WithLock`: no interrupt comes between the step that
        # takes the lock and the `try`.
        for taken in iter(partial(driving.acquire, waits, wait_s), None):
            if taken:
                try:
                    self._run_locked()
                finally:
                    driving.release()
                return
            if not waits:
                return  # the thread finds `stopped` set when this callback returns
            self._on_delay(stuck)

    def _on_delay(self, stuck: StuckCallback) -> None:
        """Handle that another thread serves the tasks for longer than expected."""
        stuck.check()

    def _run(self) -> None:
        with self._manager.driving:
            self._run_locked()

    def _run_locked(self) -> None:
        """Serve the tasks until the thread is stopped; then deregister them.

        Any thread may call this for a stopped thread.
        """
        me = _sync.get_ident()
        nested = me in SERVING
        try:
            SERVING.add(me)
            if not self.stopped:
                self._manager.run()
            if not self._ended:
                self._end_locked()
        finally:
            if not nested:  # else a callback ends another thread
                SERVING.discard(me)

    def _end_locked(self) -> None:
        """End the thread, which is stopped: deregister its tasks."""
        self._manager.adopt()
        self._manager.run()
        self._owner.deregister_tasks(self)
        self._ended = True

    def _check_mine(self, act: str) -> None:
        check_may_wait(
            act,
            ": a thread that serves tasks does not wait; return from the callback, or"
            " do it in another thread",
        )
        if not self._manager.is_owner():
            self._check_takes_tasks()  # another thread may have taken over at the end
            here = _sync.current_thread().name
            msg = (
                f"cannot {act} in thread {here!r}: only the thread that serves"
                f" {self.name!r} may; do it there, or register the task with"
                " thread=bus.here(), or thread=bus.thread(), which serves itself"
            )
            raise RuntimeError(msg)

    def _check_takes_tasks(self) -> None:
        self._owner.lifetime.check_process()
        if self.stopped:
            raise UnknownTaskError("", f"thread {self.name!r} is stopped")
