"""Handing over a task to another process, and sending commands after it.

The task leaves, and its state goes in a command to the other process, which makes its
successor (BUS-MOVE-10). In between, and until the successor is registered, commands
wait as for any task that has left. If it is on another machine, the commands are sent
on to its new address (BUS-MOVE-9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import attrs

from bus.api.arguments import check_instance, wrong_type
from bus.api.task import Task
from bus.api.task_owner import TaskOwner
from bus.errors import (
    BusError,
    CommandTimeoutError,
    HandOverError,
    InDoubtError,
    MovedError,
    NameTakenError,
    PeerLostError,
    UnknownTaskError,
)
from bus.model.address import Address
from bus.model.error_text import error_text_of
from bus.model.payload import freeze_within
from bus.process.failures import InternalErrors
from bus.process.thread_manager import call_in_host_thread
from queuebroker import _sync
from queuebroker.waiting.parking import pause, taken_lock

if TYPE_CHECKING:
    from bus.api.arguments import Unset
    from bus.api.bus_thread import BusThread
    from bus.model.message import Incoming

__all__ = ["Factory", "TaskBus", "accept_tasks", "follow", "hand_over"]

# How often the start of a thread is checked, in seconds.
_ALIVE_S: Final = 0.5

# Receives the bus, the name to register, and the state; returns the task.
Factory: TypeAlias = "Callable[[Any, str, Any], Task]"

# How long the master may take to free the name of the former task, and the pause
# between two attempts to claim it, in seconds.
_FREED_S: Final = 2.0
_PAUSE_S: Final = 0.02

# How often a command follows a task, which may move to and fro in the meantime.
_MOVES_MAX: Final = 8

# After these the successor may exist.
_DOUBTFUL: Final = (CommandTimeoutError, InDoubtError, PeerLostError)


class TaskBus(TaskOwner, Protocol):
    """The bus, as far as it takes part in a hand-over."""

    def call(
        self, to: str | Address, payload: Any, *, timeout: float | Unset | None
    ) -> Any:
        """Send a command and wait for the answer."""

    def here(self, name: str | None = None) -> BusThread:
        """Return the calling thread, as one that hosts tasks."""

    def register(self, name: str, *, thread: BusThread) -> Task:
        """Register a task without a callback."""


# The process that a task leaves.


def hand_over(
    bus: TaskBus,
    task: Task,
    to: str | Address,
    factory: str | None,
    timeout: float | Unset | None,
) -> Address:
    """Hand over a task; see `Bus.hand_over`."""
    check_instance("task", task, Task)
    if task._bus is not bus:
        raise ValueError(f"task must be one of this bus object, got {task!r}")
    target = to if isinstance(to, Address) else Address.parse(to)
    name = task.address.module
    request = {"factory": name if factory is None else factory}
    # Before the task leaves: a wrong address or name of a factory changes nothing.
    bus.call(target, request, timeout=timeout)
    elsewhere = target.machine not in {None, bus.machine}
    new = Address(name, machine=target.machine if elsewhere else bus.machine)
    state = _leave(task, str(new) if elsewhere else "")
    try:
        bus.call(target, {**request, "name": name, "state": state}, timeout=timeout)
    except BusError as error:
        doubt = isinstance(error, _DOUBTFUL)
        made = HandOverError(name, str(target), str(error), state, in_doubt=doubt)
        raise made from error
    return attrs.evolve(new, bus=bus.name)


class _Departure:
    """The departure of a task, in its thread, and the caller that waits for it.

    state: as its `Task.on_leave` returned. error: raised in place of that.
    """

    def __init__(self, task: Task, moved_to: str) -> None:
        self._task: Final = task
        self._moved_to: Final = moved_to
        self._parker: Final = taken_lock()
        self._begun: bool = False
        self._over: bool = False
        self.state: Any = None
        self.error: BaseException | None = None

    def act(self) -> None:
        """Ask the task for its state, and deregister it, between two callbacks."""
        self._begun = True
        try:
            on_leave = self._task._receiver.on_leave
            self.state = None if on_leave is None else on_leave()
            # Before it leaves: a state that cannot be sent would be lost.
            config = self._task._bus._config
            freeze_within(self.state, config.message_bytes_max, config.encoders)
            self._task.deregister(moved_to=self._moved_to or None)
        except BaseException as error:  # noqa: BLE001 # the caller raises it
            self.error = error
        self._over = True
        self._parker.release()

    def wait(self) -> None:
        """Wait until the task has left, or has failed to.

        Raises:
            UnknownTaskError: it has left already.
        """
        entry = self._task._entry
        _sync.park(
            self._parker,
            lambda: self._over or (entry.host is None and not self._begun),
            None,
        )
        if not self._over:
            raise UnknownTaskError(entry.name)


def _leave(task: Task, moved_to: str) -> Any:
    """Deregister a task; return its state.

    Raises:
        UnknownTaskError: it has left already.
        PayloadError, MessageTooLargeError: the state cannot be sent; the task stays.
    """
    task._sender.require_host()
    departure = _Departure(task, moved_to)
    call_in_host_thread(task._entry, departure.act)
    departure.wait()
    if departure.error is not None:
        raise departure.error
    return departure.state


# The process that takes tasks.


def accept_tasks(bus: TaskBus, name: str, factories: Mapping[str, Factory]) -> Task:
    """Take over tasks; see `Bus.accept_tasks`."""
    if not isinstance(factories, Mapping):
        raise wrong_type("factories", "a mapping of names to functions", factories)
    known = dict(factories)
    for each, factory in known.items():
        if not callable(factory):
            raise wrong_type(f"factory {each!r}", "a function", factory)
    began: list[Task | BaseException] = []
    parker = taken_lock()

    def serve() -> None:
        try:
            task = bus.register(name, thread=bus.here(f"{name} accepts tasks"))
            began.append(task)
        except BaseException as error:  # noqa: BLE001 # the caller raises it
            began.append(error)
            return
        finally:
            parker.release()
        _serve(bus, task, known)

    # A thread of its own, outside of callbacks: there a registration waits for the
    # master's decision.
    thread = _sync.Thread(target=serve, name=f"{name} accepts tasks", daemon=True)
    thread.start()
    while not began and thread.is_alive():
        _sync.park(parker, lambda: bool(began), _sync.monotonic() + _ALIVE_S)
    if not began:
        raise RuntimeError(f"cannot accept tasks as {name!r}: its thread has ended")
    [task] = began
    if isinstance(task, BaseException):
        raise task
    return task


def _serve(bus: TaskBus, task: Task, factories: Mapping[str, Factory]) -> None:
    errors = InternalErrors(f"the thread of task {task.address.module!r}")
    while True:
        try:
            message = task.receive()
        except BusError:
            return  # the task is deregistered, or the bus closed
        except Exception as error:  # noqa: BLE001 # such as a lack of memory
            errors.on_error(error)
            continue
        try:
            _respond(bus, factories, message)
            errors.on_success()
        except Exception as error:  # noqa: BLE001 # as above
            errors.on_error(error)


def _respond(bus: TaskBus, factories: Mapping[str, Factory], message: Incoming) -> None:
    try:
        answer = _take(bus, factories, message.payload)
    except Exception as error:  # noqa: BLE001 # of the request, or of a factory
        message.respond(error=error_text_of(error))
    else:
        message.respond(answer)


def _take(bus: TaskBus, factories: Mapping[str, Factory], request: Any) -> str | None:
    """Make the task of a request; without a name, only look for the factory."""
    if not isinstance(request, Mapping) or "factory" not in request:
        raise ValueError(f"only Bus.hand_over sends commands here, got {request!r}")
    factory = factories.get(request["factory"])
    if factory is None:
        known = ", ".join(map(repr, sorted(factories))) or "none"
        asked = request["factory"]
        raise ValueError(f"no factory is named {asked!r}; the factories are: {known}")
    if "name" not in request:
        return None
    name = request["name"]
    made = _make(factory, bus, name, request["state"])
    returned: object = made
    if not isinstance(returned, Task) or returned.address.module != name:
        raise TypeError(
            f"factory {request['factory']!r} must return the task that it registers as "
            f"{name!r}, got {made!r}"
        )
    return str(made.address)


def _make(factory: Factory, bus: TaskBus, name: str, state: Any) -> Task:
    """Call a factory; call it again while the name is not free yet.

    The news that the former task has left takes another way to the master than the
    state takes to this process, and may arrive later.
    """
    until = _sync.monotonic() + _FREED_S
    while True:
        try:
            return factory(bus, name, state)
        except NameTakenError:
            if _sync.monotonic() >= until:
                raise
            pause(_PAUSE_S)


# The process that has sent a command to a task that moved.


def follow(bus: TaskOwner, message: Incoming, moved: MovedError) -> BusError | None:
    """Send a message to the new address of its addressee; see `TaskOwner._follow`.

    After an interrupt, the caller repeats the call.
    """
    if message._moves >= _MOVES_MAX:
        return moved
    if message._report is moved:
        why = "an interrupt, such as Ctrl-C, ended the call that was sending it on"
        return InDoubtError(message._name or moved.name, why)
    # Over the bus on which it was sent, which the process may have left.
    owner = bus if moved.bus == bus.name else bus._others.get(moved.bus)
    if owner is None:
        return moved
    message._report = moved  # from here on it is in doubt after an interrupt
    message._moves += 1
    new = Address.parse(moved.address)
    message._name = new.module if new.machine == owner.machine else moved.address
    message._to = message._account = None
    try:
        owner._router.send(message, at_once=True)
    except BusError as error:
        return error
    return None
