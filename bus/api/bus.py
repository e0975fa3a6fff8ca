"""`Bus`: the membership of one process on one bus, and the entry point of the API.

`release_foreign_tasks` lets a closed bus release the tasks of other buses. A task of
one bus may send to names of another one, and subscribe to them. When that other bus is
closed, these requests end, and neither the task nor its thread refers to the closed bus
any more (BUS-DEREG-12).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from bus import features
from bus.api.arguments import (
    UNSET,
    Unset,
    check_optional_callback,
    check_task_name,
    check_thread_name,
    check_visibility,
    config_or_default,
    duration,
    new_account_limits,
    wrong_type,
)
from bus.api.bus_thread import LOOPS, SERVING, BusThread, in_callback
from bus.api.bus_threads import BusThreads
from bus.api.implicit_tasks import ImplicitTasks
from bus.api.lifetime import Lifetime, Orphans
from bus.api.network_node import NetworkNode, new_exchange
from bus.api.receiver import Receiver
from bus.api.reentry import MAIN, enter, guarded
from bus.api.task import Task, Where
from bus.errors import NotJoinedError
from bus.features.durable.api import Durability
from bus.features.subscriptions.api import Subscription
from bus.kernel.hooks import JoinHooks
from bus.kernel.trace import Journal
from bus.model.address import (
    ANY_MACHINE,
    Address,
    check_bus_name,
    check_machine_name,
    check_module_name,
    fresh_name,
)
from bus.model.config import BusConfig
from bus.model.message import Incoming, Undelivered
from bus.model.registration import Visibility
from bus.model.snapshot import BusSnapshot, TaskInfo
from bus.model.specification import Specification
from bus.process.account import Overflow
from bus.process.at_exit import do_not_call_at_exit
from bus.process.comm_thread import ProcessNetwork
from bus.process.dropping_account import new_account
from bus.process.router import Router
from queuebroker import _files, _sync
from queuebroker._green import refuse_green_threads
from queuebroker.closable import Closable

if TYPE_CHECKING:
    from bus.api.bus_threads import BusOfThreads
    from bus.api.task_owner import TaskOwner
    from bus.process.exchange import Exchange
    from bus.process.thread_manager import ThreadManager
    from bus.process.verdict import Verdict

__all__ = ["Bus", "register_task", "release_foreign_tasks"]

# Maximum wait for the master's decision on a name (OPEN-3). A slave finds a new master
# within a second, and that one decides within another.
_VERDICT_S: Final = 2.0


def register_task(
    bus: TaskOwner,
    name: str,
    visibility: Visibility,
    host: ThreadManager,
    receiver: Receiver,
) -> Task:
    """Register a task in a thread; its callbacks run only after this function.

    host: the thread manager of that thread.

    Raises:
        NameTakenError, AccessDeniedError, UnknownTaskError: as `Bus.register`.
    """
    receiver.postpone_openings()
    entry = None
    try:
        entry = bus._exchange.register(name, visibility, bus.name, host, receiver)
        task = Task(bus, entry, receiver)
        if receiver.verdict is not None:
            _await(receiver.verdict)
        receiver.run_openings()
    except BaseException:
        if entry is not None:
            # An interrupt or a refusal: the caller gets no task to deregister.
            receiver.leave(entry, final=False)
        receiver.run_openings()
        raise
    return task


def _await(verdict: Verdict) -> None:
    wait_s = 0.0 if in_callback() else _VERDICT_S
    verdict.wait(_sync.monotonic() + wait_s)


def release_foreign_tasks(
    exchange: Exchange, bus: str, others: Mapping[str, BusOfThreads]
) -> None:
    """Cancel the interests of tasks of other buses, and fail their parked messages.

    The calls of other buses that wait for the closed one end. Requests that begin only
    now end by themselves: the lifetime of the bus has ended before.

    exchange: the exchange of the closed bus, whose name is ``bus``.
    others: the other buses of this process, by name.
    """
    for interest in exchange.query(
        lambda: exchange.manager.audiences.of_other_buses(bus)
    ):
        interest.cancel()
    exchange.parked_expiry.close(bus)
    # After all of this: the threads that wait check what they wait for once more.
    for other in list(others.values()):
        for host in other._threads.managers():
            host.ask(host.pending)


class Bus(Closable):
    """The membership of one process on one bus; as a context manager it closes the bus.

    `open_bus` creates it; tests use `bus.testing.memory_bus`.

    name: the name of the bus.
    machine, process: the names of the machine and of the process on the bus.
    """

    _in_place_of_copy: ClassVar[str] = "another process joins the bus, with open_bus"
    _new_loan = staticmethod(features.new_loan)

    def __init__(
        self,
        name: str,
        *,
        process: str | None = None,
        machine: str | None = None,
        config: BusConfig | None = None,
        network: ProcessNetwork | None = None,
        journal: Journal | None = None,
        durability: Durability | None = None,
    ) -> None:
        refuse_green_threads()
        check_bus_name(name)
        self.name: Final = name
        self.machine: Final = host_machine() if machine is None else machine
        check_machine_name(self.machine)
        self.process: Final = fresh_name("p") if process is None else process
        check_module_name(self.process, what="process")
        self._config: Final = config_or_default(config)
        number = 0 if network is None else network.new_incarnation()
        new = features.NewBus(
            *(name, self.machine, self.process, number), self._config, durability
        )
        self._exchange, incarnation = new_exchange(new, journal)
        self._lifetime: Final = Lifetime(name, self._exchange)
        self._router: Final = Router(
            self._exchange,
            send_timeout_s=self._config.send_timeout_s,
            may_wait=lambda: not in_callback(),
        )
        follows = self._config.follow_moved_tasks
        self._follow: Final = partial(features.follow, self) if follows else None
        self._node: Final = NetworkNode(
            network, incarnation, self._exchange, self._config, self._new_hooks
        )
        self._orphans: Final = Orphans()
        self._threads: Final[BusThreads] = BusThreads(self)
        self._implicit_tasks: Final = ImplicitTasks(self)
        # The buses that an address may refer to, by name; includes this one.
        self._others: dict[str, Bus] = {}
        addresses = Addresses(self)
        # Attributes: methods that delegate would cost each command a call.
        self._route: Final = addresses.route
        self._specification: Final = addresses.specification

    def __repr__(self) -> str:
        state = " closed" if self._lifetime.closed else ""
        return f"<Bus {self.name!r} of {self.process!r} on {self.machine!r}{state}>"

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
        self._lifetime.check()
        return self._threads.start(name)

    @guarded("serve in this thread")
    def here(self, name: str | None = None) -> BusThread:
        """Return a `BusThread` for the calling thread, the same object on every call.

        `BusThread.run` and `BusThread.poll` serve its tasks; `Task.call` and
        `Task.receive` also serve them while they wait. The tasks are deregistered when
        the thread ends.
        """
        check_thread_name(name)
        self._lifetime.check()
        mine = self._threads.mine()
        if mine is not None:
            return mine
        self._orphans.deregister()
        return self._threads.adopt(name)

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

        The master decides whether the name is free (OPEN-3). Outside of callbacks, this
        method waits at most two seconds for the decision. If a refusal arrives later,
        or the method does not wait, the task is deregistered and that is logged. Using
        the task then raises `NameTakenError` or `AccessDeniedError`. No callback of the
        task runs while this method waits.

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
        self._lifetime.check()
        self._orphans.deregister()
        check_task_name(name)
        check_visibility(visibility)
        check_optional_callback("on_command", on_command)
        check_optional_callback("on_undelivered", on_undelivered)
        account = new_account(**new_account_limits(self._config, overflow, capacity))
        host = self._threads.host(thread)
        receiver = Receiver(
            self._router, self._config, account, on_command, ref, on_undelivered, self
        )
        return register_task(self, name, visibility, host._manager, receiver)

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

    # Moving tasks to other processes.

    def accept_tasks(
        self, name: str, factories: Mapping[str, Callable[[Any, str, Any], Task]]
    ) -> Task:
        """Register a task that accepts tasks from `hand_over` (BUS-MOVE-10).

        The task runs in a thread of its own, until it is deregistered or the bus is
        closed.

        factories: functions by name. Each is called with this bus, the name to register
          and the state of the former task, and returns the task that it registers. If
          it raises `NameTakenError`, it is called again for up to 2 s, until the master
          has freed the name.

        Raises:
            NameTakenError, AccessDeniedError, ValueError: as `register`.
            TypeError: ``factories`` is no mapping, or a factory no function.
        """
        return features.accept_tasks(self, name, factories)

    def hand_over(
        self,
        task: Task,
        to: Where,
        *,
        factory: str | None = None,
        timeout: float | Unset | None = UNSET,
    ) -> Address:
        """Let another process take over a task; return the address of its successor.

        Between two of its callbacks the task is asked for its state (`Task.on_leave`)
        and deregistered. A factory of the other process then registers the successor
        under the same name, with that state. Unread commands, and those sent meanwhile,
        go to the successor. If it is on another machine, senders get its address as
        after `Task.deregister` with ``moved_to`` (BUS-MOVE-10).

        to: the task at which the other process accepts tasks (`accept_tasks`).
        factory: the name of the factory there; by default the name of the task.
        timeout: how long to wait for each of two answers of the other process, in
          seconds; as in `Task.call`.

        Raises:
            HandOverError: the task is deregistered, and no successor has reported. The
              error has the state.
            BusError: any other one: the other process does not answer, has no such
              factory, or the state cannot be sent. The task remains registered, as
              after an error of its own callback.
            RuntimeError: called within a callback.
            TypeError, ValueError: wrong arguments.
        """
        return features.hand_over(self, task, to, factory, timeout)

    # For scripts: these methods use an implicit private task for each calling thread.

    def call(
        self,
        to: Where,
        payload: Any = None,
        *,
        timeout: float | Unset | None = UNSET,
    ) -> Any:
        """Send a command and wait for the answer; see `Task.call`."""
        # Inlined for each call: `guarded`, `enter`, and `ImplicitTasks.task`.
        me, outer = _sync.get_ident(), None
        if me == MAIN.ident:
            outer = MAIN.inside and enter("call")
            MAIN.inside = True
        try:
            tasks = self._implicit_tasks
            # In a forked child, `Sender.call` raises.
            if self._lifetime.closed or self._orphans.waiting or LOOPS or me in SERVING:
                tasks.check_may_wait("call")
            try:
                task = tasks.mine.task
            except AttributeError:
                task = tasks.task()
            if task._entry.host is None:
                task = tasks.task()
            return task._sender.call(to, payload, None, timeout)
        finally:
            if outer is False:
                MAIN.inside = False

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
        task = self._implicit_tasks.subscriber(wait=wait)
        try:
            subscription = task.subscribe(to, callback, wait=wait, timeout=timeout)
        except BaseException:
            task.deregister()
            raise
        subscription._then = task.deregister
        return subscription

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

        where: a name or an address; ``ism://*/name`` is on any machine (BUS-NAME-8).

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
        self._lifetime.check_process()
        self._orphans.deregister()
        return features.inspect(self._exchange, self.name, self._threads.managers())

    @guarded("close a bus")
    def close(self, drain: float = 1.0) -> None:
        """Leave the bus: deregister all tasks and end all threads (BUS-DEREG-12).

        drain: the seconds for which the threads may still serve unread messages.

        Returns when the threads have ended, unless a callback calls this. A callback
        that does not return blocks it. A second call does nothing, but completes one
        that an interrupt has ended.
        """
        drain_s = duration("drain", drain)
        if self._lifetime.foreign:
            return  # only the process that created the bus closes it
        threads = self._threads.close()
        if self._others.get(self.name) is self:
            del self._others[self.name]
        until = _sync.monotonic() + drain_s
        waits = not in_callback()
        if waits:
            self._node.drain(until)
        self._threads.stop(threads, until)
        self._node.leave(drain_s, waits=waits)
        release_foreign_tasks(self._exchange, self.name, self._others)
        self._exchange.failures.flush()
        # If a callback closes the bus, the threads are not joined here. The exit
        # function stays registered, so that the end of the program waits for them.
        if waits:
            self._orphans.close()
            do_not_call_at_exit(self.close)

    # For the other modules of the package.

    def _new_hooks(self) -> tuple[JoinHooks, ...]:
        """Return the hooks that the features give when the process joins."""
        managers = self._threads.managers
        return tuple(
            each.on_join(self._router, self._config, self.name, managers)
            for each in features.FEATURES
            if each.on_join is not None
        )


def host_machine() -> str:
    """Return the name of this host, with illegal characters replaced."""
    legal = re.sub(r"[^A-Za-z0-9.-]", "-", _files.host_name()).strip("-.")
    return legal[:63] or "localhost"


class Addresses:
    """Resolves addresses, as callers on one bus write them, to a bus and a key."""

    __slots__ = ("_bus", "_find", "_name")

    def __init__(self, bus: TaskOwner) -> None:
        self._bus: Final = bus
        self._name: Final = bus.name
        self._find: Final = bus._exchange.find

    def route(self, where: str | Address, bus: str | None) -> tuple[str, TaskOwner]:
        """Return the key by which an addressee is routed, and its bus.

        The key is the module on this machine (BUS-NAME-2, BUS-NAME-3), and the full
        address on another one.
        """
        if bus is None and type(where) is str and self._find(where):
            return where, self._bus
        address = where if isinstance(where, Address) else Address.parse(where)
        there = self._bus_called(address.bus, bus)
        if address.machine in {None, there.machine}:
            return address.module, there
        if address.machine == ANY_MACHINE:
            features.use_any_machine(there._exchange)
        return f"ism://{address.machine}/{address.module}", there

    def specification(
        self, to: str | Address | Specification, bus: str | None
    ) -> tuple[Specification, TaskOwner]:
        """Return the specification for an argument ``to``, and its bus."""
        if isinstance(to, Address):
            to = str(to)
        if isinstance(to, str):
            to = Specification.parse(to)
        if not isinstance(to, Specification):
            raise wrong_type("to", "a name, an Address or a Specification", to)
        return to, self._bus_called(to.bus, bus)

    def _bus_called(self, written: str | None, given: str | None) -> TaskOwner:
        """Return a bus that this process has joined.

        written: the name in the address.
        given: the name in the argument ``bus``.
        """
        if given is not None:
            check_bus_name(given)
            if written not in {None, given}:
                msg = f"bus must be {written!r} as in the address, got {given!r}"
                raise ValueError(msg)
        name = written or given or self._name
        bus = self._bus if name == self._name else self._bus._others.get(name)
        if bus is None:
            raise NotJoinedError(name)
        return bus
