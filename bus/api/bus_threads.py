"""`BusThreads`: the threads of one bus that host tasks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from bus.api.arguments import check_instance
from bus.api.bus_thread import BusThread
from bus.process.thread_manager import ThreadManager
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Mapping, Sequence

    from bus.api.lifetime import Lifetime, Orphans
    from bus.kernel.tasks.routing_table import Entry
    from bus.process.exchange import Exchange

__all__ = ["BusOfThreads", "BusThreads"]


T = TypeVar("T", bound=BusThread)


class BusOfThreads(Protocol):
    """The bus of some threads, as they use it; `bus.api.bus.Bus` implements it."""

    @property
    def name(self) -> str:
        """The name of the bus."""

    @property
    def _exchange(self) -> Exchange:
        """The exchange that carries the messages of all tasks of the bus."""

    @property
    def _others(self) -> Mapping[str, BusOfThreads]:
        """The buses of this process, by name."""

    @property
    def _threads(self) -> BusThreads:
        """The threads of the bus."""

    @property
    def _lifetime(self) -> Lifetime:
        """The time in which the bus may be used."""

    @property
    def _orphans(self) -> Orphans:
        """The tasks that lost their owner."""


class _ThreadEndHook:
    """A thread-local object whose finalizer reports that its thread has ended."""

    def __init__(self, thread: BusThread, orphans: Orphans) -> None:
        self.thread: Final = thread
        self._orphans: Final = orphans

    def __del__(self) -> None:
        self._orphans.append(self.thread._end_as_orphan)


class BusThreads:
    """The threads of one bus: those that it has started, and those of callers.

    Attributes:
        name, exchange, lifetime: those of the bus.
        running: the threads that have not ended.
        lock: guards ``running``, the default thread, and the flags for whether a
            thread, or the bus, has stopped. A thread may be started under it, but no
            other lock of the bus is taken.
    """

    __slots__ = (
        "_bus",
        "_default",
        "_mine",
        "_numbers",
        "exchange",
        "lifetime",
        "lock",
        "name",
        "running",
    )

    def __init__(self, bus: BusOfThreads) -> None:
        self._bus: Final = bus
        self.name: Final = bus.name
        self.exchange: Final = bus._exchange
        self.lifetime: Final = bus._lifetime
        self.lock: Final[_thread.LockType] = _sync.Lock()
        self.running: Final[list[BusThread]] = []
        self._default: BusThread | None = None
        self._numbers: Final = itertools.count(1)
        # Holds the `_ThreadEndHook` of the calling thread.
        self._mine: Final = _sync.Local()

    def managers(self) -> list[ThreadManager]:
        """Return the managers of the threads that run."""
        with self.lock:
            return [thread._manager for thread in self.running]

    def check_own(self, thread: BusThread) -> None:
        """Raise unless the argument is one of these threads, or was one."""
        check_instance("thread", thread, BusThread)
        if thread._owner is not self:
            msg = f"thread must be one of bus {self.name!r}, got {thread!r}"
            raise ValueError(msg)

    def host(self, thread: BusThread | None) -> BusThread:
        """Return the thread to host a new task; for None, the default one.

        Raises:
            ValueError: the thread belongs to another bus.
            UnknownTaskError: the thread is stopped, or the bus is closed.
        """
        if thread is not None:
            self.check_own(thread)
        host = self.default() if thread is None else thread
        host._check_takes_tasks()
        return host

    # Starting.

    def start(self, name: str | None) -> BusThread:
        """Start a thread that serves its tasks until it is stopped."""
        with self.lock:
            return self._start_locked(name or f"thread{next(self._numbers)}")

    def default(self) -> BusThread:
        """Return the default thread; start it if there is none."""
        with self.lock:
            if self._default is None or self._default.stopped:
                self._bus._lifetime.check()
                self._default = self._start_locked("default")
            return self._default

    def _new_manager(self, name: str) -> ThreadManager:
        manager = ThreadManager(name)
        manager.on_internal_error = self.exchange.on_internal_error
        return manager

    def _start_locked(self, name: str) -> BusThread:
        self._bus._lifetime.check()
        manager = self._new_manager(name)
        thread = BusThread(self, manager)

        def serve() -> None:
            manager.adopt()
            self._bind_to_thread(thread)
            thread._serve_to_the_end()

        # A daemon: the end of the program closes the bus instead of joining the thread.
        thread._thread = _sync.Thread(
            target=serve, name=f"{self.name} {name}", daemon=True
        )
        thread._thread.start()
        self.running.append(thread)
        return thread

    def mine(self) -> BusThread | None:
        """Return the thread object of the calling thread; None if it has none."""
        end_hook: _ThreadEndHook | None = getattr(self._mine, "end_hook", None)
        return None if end_hook is None or end_hook.thread.stopped else end_hook.thread

    def adopt(self, name: str | None) -> BusThread:
        """Make the calling thread one of the bus."""
        thread = self.add(name or f"here{next(self._numbers)}", BusThread)
        thread._manager.adopt()
        self._bind_to_thread(thread)
        return thread

    def add(self, name: str, new: Callable[[BusThreads, ThreadManager], T]) -> T:
        """Add a thread that another object serves; return it.

        new: makes the thread, under the lock.
        """
        manager = self._new_manager(name)
        with self.lock:
            self._bus._lifetime.check()
            thread = new(self, manager)
            self.running.append(thread)
        return thread

    def _bind_to_thread(self, thread: BusThread) -> None:
        self._mine.end_hook = _ThreadEndHook(thread, self._bus._orphans)

    # Ending.

    def close(self) -> list[BusThread]:
        """Mark the bus as closed, so that no thread starts; return those that run."""
        with self.lock:
            self._bus._lifetime.closed = True
        return self.running.copy()  # no thread is added from now on

    def stop(self, threads: Sequence[BusThread], until: float) -> None:
        """Stop some threads for good, and wait until they have ended.

        until: when they stop serving unread messages.
        """
        for thread in threads:
            thread._request_stop(until, final=True)
        for thread in threads:
            thread._await_end()

    def deregister_tasks(self, thread: BusThread) -> None:
        """Deregister the tasks of a stopped thread; called in that thread.

        After an interrupt the next call continues.
        """
        exchange, manager = self.exchange, thread._manager
        # One that is not open yet stays here until it is.
        asked: set[Entry] = set()
        while True:
            while entries := [
                each for each in exchange.hosted_by(manager) if each not in asked
            ]:
                for entry in entries:
                    asked.add(entry)
                    exchange.deregister(entry, final=thread._final)
            # In this order: a task is announced to the manager before it arrives. So
            # `hosted_by` finds it, or `end` refuses.
            if manager.end():
                break
            # Until the announced task is open, or withdrawn. Not while a task is
            # hosted: this thread itself may just have opened it, which wakes no thread.
            manager.poll(None)
        with self.lock:
            if thread in self.running:
                self.running.remove(thread)
        # The thread may have had the timers of other buses, too: its tasks send there.
        for bus in (self._bus, *self._bus._others.values()):
            heirs = [*bus._threads._heirs(), *self._heirs(), None]
            bus._exchange.parked_expiry.on_thread_ended(heirs[0])

    def _heirs(self) -> list[ThreadManager]:
        """Return the managers of the threads that take tasks."""
        with self.lock:
            return [each._manager for each in self.running if not each.stopped]
