"""`BusThread`: a thread whose tasks take turns, as its author holds it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from bus.api.arguments import check_callback, deadline_after, duration
from bus.api.reentry import calls_user, guarded
from bus.api.stuck_callback import StuckCallback
from bus.errors import UnknownTaskError
from queuebroker import _sync
from queuebroker.arguments import remaining_s

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from bus.api.bus import Bus
    from bus.threads.thread_manager import ThreadManager

__all__ = ["BusThread"]


class BusThread:
    """One thread of a bus. Made by `Bus.thread` and `Bus.here`.

    A task that never returns from its callback keeps the others of its thread waiting,
    and nobody else (BUS-ENT-8); `Bus.inspect` tells since when a thread is busy.

    stopped: whether it takes no more tasks, and ends as soon as it has served those it
      has.

    Lock: ``_drive`` is held by whoever serves the tasks, for as long as that is at it;
    who wants to take the thread over at its end waits there. It is the first of all
    locks: others are taken under it, and it under none.
    """

    __slots__ = (
        "_bus",
        "_drive",
        "_driver",
        "_final",
        "_manager",
        "_thread",
        "stopped",
    )

    def __init__(self, bus: Bus, manager: ThreadManager) -> None:
        self._bus: Final = bus
        self._manager: Final = manager
        # None for a thread that its author drives.
        self._thread: _sync.Thread | None = None
        self.stopped: bool = False
        self._final: bool = False
        self._drive: Final[_thread.LockType] = _sync.Lock()
        # Which thread holds it.
        self._driver: int | None = None

    def __repr__(self) -> str:
        state = " stopped" if self.stopped else ""
        return f"<BusThread {self.name!r} of bus {self._bus.name!r}{state}>"

    @property
    def name(self) -> str:
        """What it is called, in errors and in `Bus.inspect`."""
        return self._manager.name

    @guarded("run a thread")
    def run(self) -> None:
        """Serve its tasks until it is stopped; for a thread from `Bus.here`.

        Raises:
            RuntimeError: called in another thread, or within a callback.
        """
        if self.stopped:
            return
        self._check_mine("run")
        self._serve(self._manager.run)

    @guarded("poll a thread")
    def poll(self, timeout: float | None = 0.0) -> int:
        """Serve what is here, waiting for it at most ``timeout`` seconds.

        None waits for ever. Returns how many callbacks ran.

        Raises:
            RuntimeError: called in another thread, or within a callback.
            UnknownTaskError: it is stopped.
        """
        deadline = deadline_after(timeout)
        self._check_mine("poll")
        self._check_takes_tasks()
        return self._poll(deadline)

    @guarded("call soon")
    def call_soon(self, function: Callable[[], object]) -> None:
        """Call something in this thread, between two callbacks; from any thread.

        What it raises is logged.

        Raises:
            UnknownTaskError: it is stopped.
        """
        check_callback("function", function)
        self._check_takes_tasks()

        @calls_user
        def guarded() -> None:
            try:
                function()
            except Exception:  # noqa: BLE001 # the thread is not that function's alone
                name = getattr(function, "__qualname__", None) or repr(function)
                self._bus._exchange.failures.log(name, f"thread {self.name!r}")

        self._manager.ask(guarded)

    @guarded("stop a thread")
    def stop(self, *, drain: float = 0.0, final: bool = False) -> None:
        """End the thread; its tasks are deregistered (BUS-DEREG-9).

        drain: for how many seconds what is unread may still be served first.
        final: as `Task.deregister`.

        Returns when the thread has ended, unless a callback calls this.
        """
        drain_s = duration("drain", drain)
        self._bus._check_process()
        self._tell_to_stop(_sync.monotonic() + drain_s, final=final)
        self._see_it_stop()

    # For the bus.

    def _serve_until(self, done: Callable[[], object], deadline: float | None) -> bool:
        """Serve its tasks until something is done, True, or time is up; its author.

        Raises:
            UnknownTaskError: it is stopped meanwhile.
        """
        while not done():
            self._check_takes_tasks()
            rest_s = None if deadline is None else remaining_s(deadline)
            # With no time left, too: what is here already is served once.
            self._serve(partial(self._manager.poll, rest_s))
            if rest_s == 0.0:
                return bool(done())
        return True

    def _serve_to_the_end(self) -> None:
        """Serve its tasks until it is stopped; for a thread of its own."""
        try:
            self._serve(self._manager.run)
        finally:
            # Where a callback has raised what ends a thread, nobody said stop.
            self._tell_to_stop(0.0, final=False)
            self._serve(lambda: 0)

    def _tell_to_stop(self, until: float, *, final: bool) -> None:
        """Let it take no more tasks, and serve those it has until it may end."""
        with self._bus._lock:
            if self.stopped:
                return
            self._final = final
            self.stopped = True
        self._manager.stop(until)

    def _see_it_stop(self) -> None:
        """Return when it has ended.

        Within a callback only if that is so at once: others may wait for that callback.
        """
        waits = not self._bus._in_callback()
        after_s = self._bus._config.stuck_callback_s
        stuck = StuckCallback(self._manager, self._bus.name, after_s)
        if self._thread is not None:
            if waits and self._thread is not _sync.current_thread():
                while self._thread.is_alive():
                    self._thread.join(stuck.after_s)
                    stuck.look()
            return
        while not self._drive.acquire(waits, stuck.after_s if waits else -1):
            if not waits:
                return  # its author is about to see that it has stopped
            stuck.look()
        try:
            self._serve_locked(lambda: 0)
        finally:
            self._drive.release()

    def _poll(self, deadline: float | None) -> int:
        return self._serve(partial(self._manager.poll, remaining_s(deadline)))

    def _serve(self, serve: Callable[[], int | None]) -> int:
        with self._drive:
            return self._serve_locked(serve)

    def _serve_locked(self, serve: Callable[[], int | None]) -> int:
        """Serve its tasks; once it has stopped, let them leave, whoever calls this."""
        self._driver = _sync.get_ident()
        served = 0
        try:
            if not self.stopped:
                served = serve() or 0
            if self.stopped and not self._manager.ended:
                self._manager.adopt()
                self._manager.run()
                self._bus._farewell(self)
        finally:
            self._driver = None
        return served

    def _check_mine(self, act: str) -> None:
        if self._bus._in_callback():
            msg = (
                f"cannot {act} within a callback: a thread that serves tasks does not"
                " wait; return from the callback, or do it in another thread"
            )
            raise RuntimeError(msg)
        if not self._manager.owned():
            self._check_takes_tasks()  # it may have been taken over at its end
            here = _sync.current_thread().name
            msg = (
                f"cannot {act} in thread {here!r}: only the thread that serves"
                f" {self.name!r} may; do it there, or register the task with"
                " thread=bus.here(), or thread=bus.thread(), which serves itself"
            )
            raise RuntimeError(msg)

    def _check_takes_tasks(self) -> None:
        self._bus._check_process()
        if self.stopped:
            raise UnknownTaskError("", f"thread {self.name!r} is stopped")
