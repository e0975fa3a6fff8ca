"""`Bus`: one process on one bus, and the door to everything on it."""

from __future__ import annotations

import itertools
import os
import re
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from weakref import WeakSet

from bus.address import (
    SYSTEM,
    Address,
    check_bus_name,
    check_machine_name,
    check_module_name,
    fresh_name,
    is_system,
)
from bus.api.arguments import (
    UNSET,
    Unset,
    check_instance,
    check_optional_callback,
    check_thread_name,
    check_visibility,
    duration,
    new_account_limits,
    wrong_type,
)
from bus.api.bus_thread import BusThread
from bus.api.receiver import Receiver
from bus.api.reentry import guarded
from bus.api.scripts import Scripts
from bus.api.snapshot import BusSnapshot, TaskInfo, inspect
from bus.api.task import Task, Where
from bus.at_exit import do_not_call_at_exit
from bus.config import BusConfig
from bus.core.process_manager import ProcessManager
from bus.core.routing_table import Visibility
from bus.errors import (
    NotJoinedError,
    UnknownTaskError,
    WrongProcessError,
)
from bus.inspector import Inspector
from bus.journal.bus_recorder import BusRecorder
from bus.journal.writer import Journal
from bus.specification import Specification
from bus.threads.account import Account, Overflow
from bus.threads.exchange import Exchange
from bus.threads.thread_manager import ThreadManager
from queuebroker import _sync
from queuebroker._green import refuse_green_threads
from queuebroker.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from bus.api.subscription import Subscription
    from bus.core.routing_table import Entry
    from bus.links.comm_thread import CommThread
    from bus.links.network import Network
    from bus.message import Incoming, Undelivered
    from bus.threads.verdict import Verdict

__all__ = ["Bus"]

T = TypeVar("T")

_VERDICT_S: Final = 1.0  # for the master to say whether a name is free (OPEN-3)
_LOOK_S: Final = 0.002  # between two looks at what is to go before a bus is closed

# All that this process has made: a child after a fork has none of them (BUS-INIT-16).
_made: Final[WeakSet[Bus]] = WeakSet()


def _forked() -> None:
    """Let a child have no bus: what it inherited has no threads, and may be locked."""
    for bus in _made:
        bus._foreign = True
        for entry in bus._exchange.manager.table:
            entry.order = object()  # who sends from now on is told


os.register_at_fork(after_in_child=_forked)


class _Pulse:
    """Belongs to a thread that has a `BusThread`, and dies along with it."""

    def __init__(self, thread: BusThread, orphans: deque[BusThread]) -> None:
        self.thread: Final = thread
        self._orphans: Final = orphans

    def __del__(self) -> None:
        # No more than that: this may strike while its thread holds any lock.
        self._orphans.append(self.thread)


class Bus:
    """One process's membership of one bus; a context manager that closes it.

    Made by `open_bus`; tests have `bus.testing.memory_bus`.

    name: of the bus. machine, process: what these are called on it.
    """

    def __init__(
        self,
        name: str,
        *,
        process: str | None = None,
        machine: str | None = None,
        config: BusConfig | None = None,
        network: Network | None = None,
        journal: Journal | None = None,
    ) -> None:
        refuse_green_threads()
        check_bus_name(name)
        self.name: Final = name
        self.machine: Final = _machine_name() if machine is None else machine
        check_machine_name(self.machine)
        self._pid: Final = os.getpid()
        # Whether this process only inherited it.
        self._foreign: bool = False
        self.process: Final = fresh_name("p") if process is None else process
        check_module_name(self.process, what="process")
        if config is not None:
            check_instance("config", config, BusConfig)
        self._config: Final = BusConfig() if config is None else config
        self._network: Final = network
        self._incarnation: Final = 0 if network is None else network.new_incarnation()
        # Who speaks with other processes; None while this one is alone.
        self._comm: CommThread | None = None
        # Who tells others of this one; None before it has joined.
        self._inspector: Inspector | None = None
        self._exchange: Final = Exchange(
            ProcessManager(
                self.machine,
                self.process,
                parked_per_name=self._config.parked_per_name,
                parked_in_all=self._config.parked_per_process,
                resolve_timeout_s=self._config.resolve_timeout_s,
                incarnation=self._incarnation,
            ),
            send_timeout_s=self._config.send_timeout_s,
            may_wait=lambda: not self._in_callback(),
            witness=self._recorder(journal),
        )
        _made.add(self)  # not sooner: it may never have what `_forked` touches
        self._numbers = itertools.count(1)
        # Guards the threads, and whether they, or the bus, have stopped; to start a
        # thread is all that is done under it.
        self._lock = _sync.Lock()
        self._threads: list[BusThread] = []
        self._default: BusThread | None = None
        self._closed: bool = False
        # The `BusThread` that belongs to the calling thread.
        self._mine: Final = _sync.Local()
        # Finalizers, which may take no lock, append here for `_bury`: threads that have
        # ended without deregistering, and the tasks of dropped iterators.
        self._orphans: Final[deque[BusThread]] = deque()
        self._dropped: Final[deque[Task]] = deque()
        self._scripts: Final = Scripts(self)
        # By name, the buses that an address may mean, this one among them.
        self._others: dict[str, Bus] = {}

    def _recorder(self, journal: Journal | None) -> BusRecorder | None:
        if journal is None:
            return None
        check_instance("journal", journal, Journal)
        if journal.closed:
            msg = f"journal must be open until the bus is closed, got {journal!r}"
            raise ValueError(msg)
        recorder = BusRecorder(journal)
        recorder.registered(self._incarnation, "")
        return recorder

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<Bus {self.name!r} of {self.process!r} on {self.machine!r}{state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Threads.

    @guarded("start a thread")
    def thread(self, name: str | None = None) -> BusThread:
        """Start a new thread for tasks; it serves until it is stopped.

        At the end of the program the bus is closed, and the thread ends (OPEN-21).

        name: for people; by default "thread" and a number.

        Raises:
            TypeError, ValueError: the name is no text, or has lone surrogates in it.
            UnknownTaskError: the bus is closed.
        """
        check_thread_name(name)
        self._check()
        with self._lock:
            return self._start_locked(name or f"thread{next(self._numbers)}")

    @guarded("serve in this thread")
    def here(self, name: str | None = None) -> BusThread:
        """Return the calling thread as one for tasks: the same object on every call.

        Its tasks are served by `BusThread.run` and `BusThread.poll`, and while one of
        them waits in `Task.call` or `Task.receive`. They leave when the thread ends.
        """
        check_thread_name(name)
        self._check()
        pulse: _Pulse | None = getattr(self._mine, "pulse", None)
        if pulse is not None and not pulse.thread.stopped:
            return pulse.thread
        self._bury()
        manager = ThreadManager(name or f"here{next(self._numbers)}")
        manager.adopt()
        thread = BusThread(self, manager)
        with self._lock:
            self._check()
            self._threads.append(thread)
        self._lives_in_this_thread(thread)
        return thread

    # Tasks.

    @guarded("register a task")
    def register(
        self,
        name: str,
        *,
        thread: BusThread | None = None,
        visibility: Visibility = Visibility.PUBLIC,
        on_command: Callable[[Incoming], Any] | None = None,
        ref: object = None,
        overflow: Overflow = "error",
        capacity: int | None = None,
        on_undelivered: Callable[[Undelivered], object] | None = None,
    ) -> Task:
        """Register a task; it can be addressed at once (BUS-INIT-7).

        A slave asks its master whether the name is free (OPEN-3). Outside of callbacks
        this waits for the verdict, for a second at most. Where it is not waited for, or
        comes later, a task that may not have its name leaves: that is logged, and to
        use it raises `NameTakenError`, or `AccessDeniedError`. No callback of the task
        is called while this waits.

        thread: what hosts it; the bus's own default thread if None.
        visibility: a private task is addressed by nobody, and gets answers and
          notifications only (BUS-INIT-9).
        on_command: called with each command; what it returns is the answer. Without it
          commands wait for `Task.receive` or `Task.on_command`.
        ref: given to it, as ``message.reference``.
        overflow: what happens to commands that find ``capacity`` unread ones here
          (BUS-FLOW-6); the default bound is `BusConfig.task_fifo_messages`.
        on_undelivered: told what this task sent without asking for an answer, and
          nobody got.

        Raises:
            NameTakenError: another task has the name (BUS-NAME-7).
            AccessDeniedError: the bus does not grant it to this user (BUS-SEC-1).
            ValueError: the name is not legal or one of the bus's own, the capacity is
              below 1, or the thread is one of another bus.
            UnknownTaskError: the thread is stopped, or the bus closed.
        """
        self._check()
        self._bury()
        check_module_name(name)
        if is_system(name):
            msg = f"names that begin with {SYSTEM}/ are the bus's own, got {name!r}"
            raise ValueError(msg)
        check_visibility(visibility)
        check_optional_callback("on_command", on_command)
        check_optional_callback("on_undelivered", on_undelivered)
        account = Account(**new_account_limits(self._config, overflow, capacity))
        if thread is not None:
            self._check_own(thread)
        host = self._default_thread() if thread is None else thread
        host._check_takes_tasks()
        receiver = Receiver(
            self._exchange, self._config, account, on_command, ref, on_undelivered
        )
        receiver.hold()
        try:
            entry = self._exchange.register(
                name, visibility, self.name, host._manager, receiver
            )
            task = Task(self, entry, receiver)
            if receiver.verdict is not None:
                self._hear_verdict(task, receiver.verdict)
            return task
        finally:
            receiver.release()

    def _hear_verdict(self, task: Task, verdict: Verdict) -> None:
        wait_s = 0.0 if self._in_callback() else _VERDICT_S
        try:
            verdict.wait(_sync.monotonic() + wait_s)
        except BaseException:
            task.deregister()  # nobody else has it
            raise

    def task(
        self,
        name: str,
        *,
        thread: BusThread | None = None,
        visibility: Visibility = Visibility.PUBLIC,
        ref: object = None,
    ) -> Callable[[Callable[[Incoming], Any]], Task]:
        """Register a function as a task: ``@bus.task("adder")``; see `register`."""
        if callable(name):
            msg = 'a task needs a name: use @bus.task("name")'
            raise TypeError(msg)
        check_module_name(name)

        def registered(callback: Callable[[Incoming], Any]) -> Task:
            return self.register(
                name, thread=thread, visibility=visibility, on_command=callback, ref=ref
            )

        return registered

    # For scripts: a private task for each calling thread stands behind these.

    @guarded("call")
    def call(
        self,
        to: Where,
        payload: Any = None,
        *,
        timeout: float | Unset | None = UNSET,
    ) -> Any:
        """Send a command and wait for the answer; see `Task.call`."""
        return self._scripts.waiting_task("call").call(to, payload, timeout=timeout)

    def command(self, to: Where | Sequence[Where], payload: Any = None) -> None:
        """Send a command and wait for nothing; see `Task.command`."""
        self._scripts.task().command(to, payload)

    @guarded("subscribe")
    def subscribe(
        self,
        to: Where | Specification,
        callback: Callable[[Incoming], object],
        *,
        wait: bool = False,
        timeout: float | Unset | None = UNSET,
    ) -> Subscription:
        """Receive the notifications of a task, in the bus's default thread.

        wait, timeout: as in `Task.subscribe`.
        """
        return self._scripts.subscribe(to, callback, wait=wait, timeout=timeout)

    @guarded("listen")
    def listen(
        self,
        to: Where | Specification,
        *,
        timeout: float | None = None,
        wait: bool = False,
    ) -> Iterator[Incoming]:
        """Iterate over the notifications of a task; the calling thread waits for each.

        If the bus is closed, or the thread stopped, the iteration ends after the unread
        notifications (BUS-DEREG-12). The iterator has a method ``close``; dropping the
        iterator does the same a little later.

        timeout: end when nothing came for so many seconds; None waits for ever.
        wait: return only when every process has learned of the subscription, as
          `Task.subscribe` does.

        Raises:
            CommandTimeoutError: with ``wait``, if a process has not learned of it
              within `BusConfig.command_timeout_s`.
            RuntimeError: within a callback.
        """
        return self._scripts.listen(to, timeout, wait=wait)

    @guarded("wait for a name")
    def wait_for(self, where: Where, timeout: float | None = 5.0) -> Address:
        """Wait until somebody has a name; return its address.

        Raises:
            CommandTimeoutError: nobody took it in time.
            RuntimeError: within a callback.
        """
        return self._scripts.wait_for(where, timeout)

    # What is on it.

    def tasks(self) -> Sequence[TaskInfo]:
        """Return the tasks of this process, in the order they were registered."""
        return self.inspect().tasks

    @guarded("look at a bus")
    def inspect(self) -> BusSnapshot:
        """Return what is on this bus in this process just now."""
        self._check_process()
        self._bury()
        return self._look()[0]

    @guarded("close a bus")
    def close(self, drain: float = 1.0) -> None:
        """Leave the bus: all tasks are deregistered, all threads end (BUS-DEREG-12).

        drain: for how many seconds what is unread may still be served.

        Returns when all that is done, unless a callback calls this. A callback that
        does not return keeps it waiting. Closing twice is harmless.
        """
        drain_s = duration("drain", drain)
        if self._foreign:
            return  # it is its own process's to close
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        if self._others.get(self.name) is self:
            del self._others[self.name]
        until = _sync.monotonic() + drain_s
        if self._comm is not None and not self._in_callback():
            self._see_off(until)
        for thread in threads:
            thread._tell_to_stop(until, final=True)
        for thread in threads:
            thread._see_it_stop()
        if self._inspector is not None:
            self._inspector.close()
        comm, network = self._comm, self._network
        if comm is not None and network is not None:
            comm.stop(
                _sync.monotonic() + drain_s,
                then=lambda: network.leave(self.machine, self.process, comm),
            )
            if not self._in_callback():
                comm.join()
        self._exchange.failures.flush()
        # Else the end of the program would wait for the threads not joined here.
        if not self._in_callback():
            do_not_call_at_exit(self.close)

    def _see_off(self, until: float) -> None:
        """Wait until what waits for a name elsewhere has found it, or time is up.

        When its sender leaves nobody looks for that name any more (BUS-DEREG-11).
        """
        parked, never = self._exchange.manager.parked, taken_lock()
        while len(parked) and _sync.monotonic() < until:
            # Nobody is told when the last one has found it: that is once in a life.
            soon = min(until, _sync.monotonic() + _LOOK_S)
            _sync.park(never, lambda: not len(parked), soon)

    # For those around it.

    def _join(self) -> None:
        """Be among the others, or alone; see `open_bus`."""
        self._meet_others()
        assert self._comm is not None
        self._comm.joining.verdict.wait(
            _sync.monotonic() + self._config.connect_timeout_s
        )
        self._inspector = Inspector(self.name, self._exchange, self._look)
        account = Account(**new_account_limits(self._config, "error", None))
        self._inspector.begin(
            Receiver(
                self._exchange,
                self._config,
                account,
                self._inspector.answer,
                None,
                None,
            )
        )

    def _look(self) -> tuple[BusSnapshot, list[ThreadManager]]:
        """Return what is on it just now, and what hosts that, thread by thread."""
        with self._lock:
            managers = [thread._manager for thread in self._threads]
        return inspect(self._exchange, self.name, managers), managers

    def _meet_others(self) -> None:
        """Speak with the other processes of its network from now on."""
        assert self._network is not None
        if self._comm is None:
            self._comm = self._network.join(
                self.machine,
                self.process,
                self._incarnation,
                self._exchange,
                self._config,
            )

    def _check_process(self) -> None:
        if self._foreign:
            raise WrongProcessError(self._pid, os.getpid())

    def _check(self) -> None:
        self._check_process()
        if self._closed:
            raise UnknownTaskError("", f"bus {self.name!r} is closed")

    def _check_own(self, thread: BusThread) -> None:
        check_instance("thread", thread, BusThread)
        if thread._bus is not self:
            msg = f"thread must be one of bus {self.name!r}, got {thread!r}"
            raise ValueError(msg)

    def _route(self, where: Where, bus: str | None) -> tuple[str, Bus]:
        """Say by what a message finds its addressee, and on which bus.

        The module alone on this machine (BUS-NAME-2, BUS-NAME-3), the whole address
        elsewhere.
        """
        if bus is None and type(where) is str and self._exchange.find(where):
            return where, self
        address = where if isinstance(where, Address) else Address.parse(where)
        there = self._bus_called(address.bus, bus)
        if address.machine in {None, there.machine}:
            return address.module, there
        return f"ism://{address.machine}/{address.module}", there

    def _specification(
        self, to: Where | Specification, bus: str | None
    ) -> tuple[Specification, Bus]:
        """Say who is meant, and on which bus."""
        if isinstance(to, Address):
            to = str(to)
        if isinstance(to, str):
            to = Specification.parse(to)
        if not isinstance(to, Specification):
            raise wrong_type("to", "a name, an Address or a Specification", to)
        return to, self._bus_called(to.bus, bus)

    def _bus_called(self, written: str | None, given: str | None) -> Bus:
        """Return a bus of this process, by its name in an address, or beside it."""
        if given is not None:
            check_bus_name(given)
            if written not in {None, given}:
                msg = f"bus must be {written!r} as in the address, got {given!r}"
                raise ValueError(msg)
        name = written or given or self.name
        bus = self if name == self.name else self._others.get(name)
        if bus is None:
            raise NotJoinedError(name)
        return bus

    def _in_callback(self) -> bool:
        """Whether the calling thread runs a callback of a bus, or serves one."""
        me = _sync.get_ident()
        for bus in (self, *self._others.values()):
            for thread in bus._threads.copy():
                if thread._driver == me:
                    return True
        return False

    def _thread_of(self, manager: ThreadManager) -> BusThread | None:
        for thread in self._threads.copy():
            if thread._manager is manager:
                return thread
        return None

    def _default_thread(self) -> BusThread:
        with self._lock:
            if self._default is None or self._default.stopped:
                self._check()
                self._default = self._start_locked("default")
            return self._default

    def _start_locked(self, name: str) -> BusThread:
        self._check()
        manager = ThreadManager(name)
        thread = BusThread(self, manager)

        def serve() -> None:
            manager.adopt()
            self._lives_in_this_thread(thread)
            thread._serve_to_the_end()

        # A daemon: the end of the program closes the bus instead of waiting for it.
        thread._thread = _sync.Thread(
            target=serve, name=f"{self.name} {name}", daemon=True
        )
        thread._thread.start()
        self._threads.append(thread)
        return thread

    def _lives_in_this_thread(self, thread: BusThread) -> None:
        self._mine.pulse = _Pulse(thread, self._orphans)

    def _bury(self) -> None:
        """Deregister the tasks that finalizers have noted.

        Their plain thread has ended (BUS-DEREG-9), or their iterator was dropped.
        """
        # Off the list last: an interrupt before loses nothing, and twice is harmless.
        # Another thread may be at it, too.
        while (dropped := _oldest(self._dropped)) is not None:
            dropped.deregister()
            with suppress(ValueError):
                self._dropped.remove(dropped)
        while (orphan := _oldest(self._orphans)) is not None:
            orphan._tell_to_stop(0.0, final=False)
            orphan._see_it_stop()
            with suppress(ValueError):
                self._orphans.remove(orphan)

    def _farewell(self, thread: BusThread) -> None:
        """Let the tasks of a thread that has stopped leave, in that thread."""
        exchange, manager = self._exchange, thread._manager

        def hosted() -> list[Entry]:
            entries = exchange.look(lambda: list(exchange.manager.table))
            return [entry for entry in entries if entry.place is manager]

        while True:
            for entry in hosted():
                exchange.deregister(entry, final=thread._final)
            # In this order: a task is announced before it comes, and one that has come
            # meanwhile is seen.
            if not hosted() and manager.end():
                break
            manager.poll(None)  # until what was announced is here, or does not come
        with self._lock:
            if thread in self._threads:
                self._threads.remove(thread)
            heirs = [each._manager for each in self._threads if not each.stopped]
        for heir in heirs[:1]:
            exchange.look_after_parked(heir, anew=True)


def _oldest(noted: deque[T]) -> T | None:
    try:
        return noted[0]
    except IndexError:
        return None


def _machine_name() -> str:
    """Return what the host is called, as far as that is a legal name."""
    legal = re.sub(r"[^A-Za-z0-9.-]", "-", os.uname().nodename).strip("-.")
    return legal[:63] or "localhost"
