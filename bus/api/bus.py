"""`Bus`: the membership of one process on one bus, and the entry point of the API."""

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
from bus.api.implicit_tasks import ImplicitTasks
from bus.api.inspector import Inspector
from bus.api.receiver import Receiver
from bus.api.reentry import guarded
from bus.api.snapshot import BusSnapshot, TaskInfo, inspect
from bus.api.task import Task, Where
from bus.at_exit import do_not_call_at_exit
from bus.config import BusConfig
from bus.core.local.process_manager import ProcessManager
from bus.errors import (
    NotJoinedError,
    UnknownTaskError,
    WrongProcessError,
)
from bus.journal.bus_recorder import BusRecorder
from bus.journal.writer import Journal
from bus.registration import Visibility
from bus.specification import Specification
from bus.threads.account import Account, Overflow
from bus.threads.exchange import Exchange
from bus.threads.thread_manager import ThreadManager
from queuebroker import _sync
from queuebroker._green import refuse_green_threads
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from bus.api.subscription import Subscription
    from bus.core.local.routing_table import Entry
    from bus.links.comm_thread import CommThread
    from bus.links.network import Network
    from bus.message import Incoming, Undelivered
    from bus.threads.verdict import Verdict

__all__ = ["Bus"]

T = TypeVar("T")

_VERDICT_S: Final = 1.0  # maximum wait for the master's decision on a name (OPEN-3)
_LOOK_S: Final = 0.002  # interval between two checks of the parked list in `Bus.close`

# The buses that this process has created; a forked child has none (BUS-INIT-16).
_made: Final[WeakSet[Bus]] = WeakSet()


def _forked() -> None:
    """Disable the inherited buses: they have no threads, and locks may be taken."""
    for bus in _made:
        bus._foreign = True
        for entry in bus._exchange.manager.table:
            entry.order = object()  # ends the send batches, so that a send raises


os.register_at_fork(after_in_child=_forked)


class _ThreadEndHook:
    """A thread-local object whose finalizer reports that its thread has ended."""

    def __init__(self, thread: BusThread, orphans: deque[BusThread]) -> None:
        self.thread: Final = thread
        self._orphans: Final = orphans

    def __del__(self) -> None:
        # Append only: a finalizer may run while its thread holds any lock.
        self._orphans.append(self.thread)


class Bus:
    """The membership of one process on one bus; as a context manager it closes the bus.

    `open_bus` creates it; tests use `bus.testing.memory_bus`.

    name: the name of the bus.
    machine, process: the names of the machine and of the process on the bus.
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
        # True if this process inherited the bus by a fork.
        self._foreign: bool = False
        self.process: Final = fresh_name("p") if process is None else process
        check_module_name(self.process, what="process")
        if config is not None:
            check_instance("config", config, BusConfig)
        self._config: Final = BusConfig() if config is None else config
        self._network: Final = network
        self._incarnation: Final = 0 if network is None else network.new_incarnation()
        # None while this process is alone on the bus.
        self._comm: CommThread | None = None
        # Answers inspection requests of other processes; None before the join.
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
            trace_sink=self._recorder(journal),
        )
        _made.add(self)  # last, since `_forked` uses the attributes above
        self._numbers = itertools.count(1)
        # Guards the list of threads, and the flags for whether they, or the bus,
        # have stopped. The only call under it is the start of a thread.
        self._lock = _sync.Lock()
        self._threads: list[BusThread] = []
        self._default: BusThread | None = None
        self._closed: bool = False
        # Holds the `_ThreadEndHook` of the calling thread.
        self._mine: Final = _sync.Local()
        # Finalizers may not take locks. They append here, for `_deregister_orphans`,
        # threads that ended without deregistering, and tasks of dropped iterators.
        self._orphans: Final[deque[BusThread]] = deque()
        self._dropped: Final[deque[Task]] = deque()
        self._implicit_tasks: Final = ImplicitTasks(self)
        # The buses that an address may refer to, by name; includes this one.
        self._others: dict[str, Bus] = {}

    def _recorder(self, journal: Journal | None) -> BusRecorder | None:
        if journal is None:
            return None
        check_instance("journal", journal, Journal)
        if journal.closed:
            msg = f"journal must be open until the bus is closed, got {journal!r}"
            raise ValueError(msg)
        recorder = BusRecorder(journal)
        recorder.on_registered(self._incarnation, "")
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
        """Start a new thread for tasks; it serves them until it is stopped.

        The end of the program closes the bus and ends the thread (OPEN-21).

        name: the name in errors and logs; by default "thread" and a number.

        Raises:
            TypeError: the name is not a string.
            ValueError: the name contains lone surrogates.
            UnknownTaskError: the bus is closed.
        """
        check_thread_name(name)
        self._check()
        with self._lock:
            return self._start_locked(name or f"thread{next(self._numbers)}")

    @guarded("serve in this thread")
    def here(self, name: str | None = None) -> BusThread:
        """Return a `BusThread` for the calling thread, the same object on every call.

        `BusThread.run` and `BusThread.poll` serve its tasks; `Task.call` and
        `Task.receive` also serve them while they wait. The tasks are deregistered when
        the thread ends.
        """
        check_thread_name(name)
        self._check()
        pulse: _ThreadEndHook | None = getattr(self._mine, "pulse", None)
        if pulse is not None and not pulse.thread.stopped:
            return pulse.thread
        self._deregister_orphans()
        manager = ThreadManager(name or f"here{next(self._numbers)}")
        manager.adopt()
        thread = BusThread(self, manager)
        with self._lock:
            self._check()
            self._threads.append(thread)
        self._bind_to_thread(thread)
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
        """Register a task; other tasks can address it at once (BUS-INIT-7).

        A slave asks its master whether the name is free (OPEN-3). Outside of callbacks,
        this method waits at most one second for the decision. If a refusal arrives
        later, or the method does not wait, the task is deregistered and that is logged.
        Using the task then raises `NameTakenError` or `AccessDeniedError`. No callback
        of the task runs while this method waits.

        thread: the thread that hosts the task; None for the default thread of the bus.
        visibility: a private task cannot be addressed; it receives only answers and
          notifications (BUS-INIT-9).
        on_command: called with each command; its return value is the answer. Without
          it, commands wait for `Task.receive` or `Task.on_command`.
        ref: passed to ``on_command`` as ``message.reference``.
        overflow: the policy for a command that arrives while ``capacity`` are unread
          (BUS-FLOW-6). The default bound is `BusConfig.task_fifo_messages`.
        on_undelivered: called with each undeliverable command that requested no answer.

        Raises:
            NameTakenError: another task has the name (BUS-NAME-7).
            AccessDeniedError: the bus does not grant the name to this user (BUS-SEC-1).
            ValueError: the name is not legal or is reserved for the bus, the capacity
              is below 1, or the thread belongs to another bus.
            UnknownTaskError: the thread is stopped, or the bus is closed.
        """
        self._check()
        self._deregister_orphans()
        check_module_name(name)
        if is_system(name):
            msg = f"names that begin with {SYSTEM}/ belong to the bus, got {name!r}"
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
        receiver.postpone_openings()
        try:
            entry = self._exchange.register(
                name, visibility, self.name, host._manager, receiver
            )
            task = Task(self, entry, receiver)
            if receiver.verdict is not None:
                self._await_verdict(task, receiver.verdict)
            return task
        finally:
            receiver.run_openings()

    def _await_verdict(self, task: Task, verdict: Verdict) -> None:
        wait_s = 0.0 if self._in_callback() else _VERDICT_S
        try:
            verdict.wait(_sync.monotonic() + wait_s)
        except BaseException:
            task.deregister()  # no other thread has it
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

    # For scripts: these methods use an implicit private task for each calling thread.

    @guarded("call")
    def call(
        self,
        to: Where,
        payload: Any = None,
        *,
        timeout: float | Unset | None = UNSET,
    ) -> Any:
        """Send a command and wait for the answer; see `Task.call`."""
        return self._implicit_tasks.waiting_task("call").call(
            to, payload, timeout=timeout
        )

    def command(self, to: Where | Sequence[Where], payload: Any = None) -> None:
        """Send a command without waiting for an answer; see `Task.command`."""
        self._implicit_tasks.task().command(to, payload)

    @guarded("subscribe")
    def subscribe(
        self,
        to: Where | Specification,
        callback: Callable[[Incoming], object],
        *,
        wait: bool = False,
        timeout: float | Unset | None = UNSET,
    ) -> Subscription:
        """Subscribe to the notifications of a task, in the default thread of the bus.

        wait, timeout: as in `Task.subscribe`.
        """
        return self._implicit_tasks.subscribe(to, callback, wait=wait, timeout=timeout)

    @guarded("listen")
    def listen(
        self,
        to: Where | Specification,
        *,
        timeout: float | None = None,
        wait: bool = False,
    ) -> Iterator[Incoming]:
        """Iterate over the notifications of a task; the calling thread waits for each.

        If the bus is closed or the thread is stopped, the iteration ends after the
        unread notifications (BUS-DEREG-12). The iterator has a method ``close``;
        dropping the iterator closes it a little later.

        timeout: the iteration ends if no notification arrives for this many seconds;
          None for no limit.
        wait: return only when every process has confirmed the subscription, as
          `Task.subscribe` does.

        Raises:
            CommandTimeoutError: with ``wait``, a process has not confirmed the
              subscription within `BusConfig.command_timeout_s`.
            RuntimeError: called within a callback.
        """
        return self._implicit_tasks.listen(to, timeout, wait=wait)

    @guarded("wait for a name")
    def wait_for(self, where: Where, timeout: float | None = 5.0) -> Address:
        """Wait until a task is registered under a name; return the task's address.

        Raises:
            CommandTimeoutError: no task registered the name in time.
            RuntimeError: called within a callback.
        """
        return self._implicit_tasks.wait_for(where, timeout)

    # Inspection and shutdown.

    def tasks(self) -> Sequence[TaskInfo]:
        """Return the tasks of this process, in order of registration."""
        return self.inspect().tasks

    @guarded("look at a bus")
    def inspect(self) -> BusSnapshot:
        """Return a snapshot of this bus in this process."""
        self._check_process()
        self._deregister_orphans()
        return self._look()[0]

    @guarded("close a bus")
    def close(self, drain: float = 1.0) -> None:
        """Leave the bus: deregister all tasks and end all threads (BUS-DEREG-12).

        drain: the seconds for which the threads may still serve unread messages.

        Returns when the threads have ended, unless a callback calls this. A callback
        that does not return blocks it. A second call does nothing.
        """
        drain_s = duration("drain", drain)
        if self._foreign:
            return  # only the process that created the bus closes it
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        if self._others.get(self.name) is self:
            del self._others[self.name]
        until = _sync.monotonic() + drain_s
        if self._comm is not None and not self._in_callback():
            self._drain_parked(until)
        for thread in threads:
            thread._request_stop(until, final=True)
        for thread in threads:
            thread._await_end()
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
        # If a callback closes the bus, the threads are not joined here. The exit
        # function stays registered, so that the end of the program waits for them.
        if not self._in_callback():
            do_not_call_at_exit(self.close)

    def _drain_parked(self, until: float) -> None:
        """Wait until the parked list is empty, or until a time.

        When the sender deregisters, the search for the name ends (BUS-DEREG-11).
        """
        parked, never = self._exchange.manager.parked, taken_lock()
        while len(parked) and _sync.monotonic() < until:
            # Poll: the parked list wakes no waiter, as only this rare call would wait.
            soon = min(until, _sync.monotonic() + _LOOK_S)
            _sync.park(never, lambda: not len(parked), soon)

    # For the other modules of the package.

    def _join(self) -> None:
        """Join the network, and wait for the outcome; see `open_bus`."""
        self._start_comm()
        assert self._comm is not None
        self._comm.join_state.verdict.wait(
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
        """Return a snapshot of the bus, and the managers of its threads."""
        with self._lock:
            managers = [thread._manager for thread in self._threads]
        return inspect(self._exchange, self.name, managers), managers

    def _start_comm(self) -> None:
        """Start the comm thread, unless it runs."""
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
        """Return the key by which an addressee is routed, and its bus.

        The key is the module on this machine (BUS-NAME-2, BUS-NAME-3), and the full
        address on another one.
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
        """Return the specification for an argument ``to``, and its bus."""
        if isinstance(to, Address):
            to = str(to)
        if isinstance(to, str):
            to = Specification.parse(to)
        if not isinstance(to, Specification):
            raise wrong_type("to", "a name, an Address or a Specification", to)
        return to, self._bus_called(to.bus, bus)

    def _bus_called(self, written: str | None, given: str | None) -> Bus:
        """Return a bus that this process has joined.

        written: the name in the address.
        given: the name in the argument ``bus``.
        """
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
        """Return True if the calling thread runs a callback, or else serves a bus."""
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
            self._bind_to_thread(thread)
            thread._serve_to_the_end()

        # A daemon: the end of the program closes the bus instead of joining the thread.
        thread._thread = _sync.Thread(
            target=serve, name=f"{self.name} {name}", daemon=True
        )
        thread._thread.start()
        self._threads.append(thread)
        return thread

    def _bind_to_thread(self, thread: BusThread) -> None:
        self._mine.pulse = _ThreadEndHook(thread, self._orphans)

    def _deregister_orphans(self) -> None:
        """Deregister the tasks that finalizers have noted.

        Their plain thread has ended (BUS-DEREG-9), or their iterator was dropped.
        """
        # Remove from the list last: an interrupt before that loses nothing, and a
        # second deregistration does nothing. Another thread may run this concurrently.
        while (dropped := _oldest(self._dropped)) is not None:
            dropped.deregister()
            with suppress(ValueError):
                self._dropped.remove(dropped)
        while (orphan := _oldest(self._orphans)) is not None:
            orphan._request_stop(0.0, final=False)
            orphan._await_end()
            with suppress(ValueError):
                self._orphans.remove(orphan)

    def _deregister_tasks(self, thread: BusThread) -> None:
        """Deregister the tasks of a stopped thread; called in that thread."""
        exchange, manager = self._exchange, thread._manager

        def hosted() -> list[Entry]:
            entries = exchange.query(lambda: list(exchange.manager.table))
            return [entry for entry in entries if entry.host is manager]

        while True:
            for entry in hosted():
                exchange.deregister(entry, final=thread._final)
            # In this order: a task is announced to the manager before it arrives. So
            # `hosted` finds it, or `end` refuses.
            if not hosted() and manager.end():
                break
            manager.poll(None)  # until the announced task is open, or withdrawn
        with self._lock:
            if thread in self._threads:
                self._threads.remove(thread)
            heirs = [each._manager for each in self._threads if not each.stopped]
        for heir in heirs[:1]:
            exchange.schedule_parked_expiry(heir, anew=True)


def _oldest(noted: deque[T]) -> T | None:
    try:
        return noted[0]
    except IndexError:
        return None


def _machine_name() -> str:
    """Return the host name, with illegal characters replaced."""
    legal = re.sub(r"[^A-Za-z0-9.-]", "-", os.uname().nodename).strip("-.")
    return legal[:63] or "localhost"
