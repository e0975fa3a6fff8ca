"""`Bus`: the face of a bus for coroutines, and `open_bus` and `wrap`, which make it."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeAlias, TypeVar

from bus.aio.listener import Listener
from bus.aio.loop_thread import LoopThread, in_thread
from bus.aio.task import Handler, Task, call, command
from bus.aio.watcher import Watcher
from bus.api import bus as threads
from bus.api import membership
from bus.api import task as plain_task
from bus.api.arguments import (
    UNSET,
    Unset,
    check_instance,
    check_optional_callback,
    deadline_after,
    wrong_type,
)
from bus.api.task import Where
from bus.errors import CommandTimeoutError
from bus.model.address import Address, names_any_machine
from bus.model.message import Incoming
from bus.model.registration import Visibility
from bus.model.snapshot import BusSnapshot
from bus.model.specification import Specification
from bus.process.account import Overflow
from queuebroker.arguments import positive
from queuebroker.closable import Uncopyable

__all__ = ["Bus", "open_bus", "wrap"]

P = ParamSpec("P")
T = TypeVar("T")


Factory: TypeAlias = Callable[["Bus", str, Any], Coroutine[Any, Any, Task]]


class Bus(Uncopyable):
    """The face of a bus for coroutines; ``async with`` closes the bus on leaving.

    `open_bus` and `wrap` create it. The methods may be awaited in any number of event
    loops; each hosts the tasks that its coroutines register.
    """

    __slots__ = ("_last", "_plain")

    def __init__(self, plain: threads.Bus) -> None:
        check_instance("bus", plain, threads.Bus)
        self._plain: Final = plain
        # The thread of the loop that called last.
        self._last: LoopThread | None = None

    def __repr__(self) -> str:
        return f"<aio {self._plain!r}>"

    @property
    def bus(self) -> threads.Bus:
        """The plain bus, for threads."""
        return self._plain

    @property
    def name(self) -> str:
        """The name of the bus."""
        return self._plain.name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Tasks.

    async def register(
        self,
        name: str,
        handler: Handler | None = None,
        *,
        concurrency: int = 1,
        visibility: Visibility = Visibility.PUBLIC,
        overflow: Overflow = "error",
        capacity: int | None = None,
    ) -> Task:
        """Register a task in the running event loop; as `bus.Bus.register`.

        handler: a coroutine function, called with each command; the value that it
          returns is the answer. Without it, the commands wait for `Task.receive`.
        concurrency: the number of commands that the handler handles at once; the others
          stay unread. By default it handles one after the other, in order.

        Raises:
            NameTakenError, AccessDeniedError, UnknownTaskError, ValueError: as
              `bus.Bus.register`.
            TypeError: ``handler`` is no coroutine function.
        """
        if handler is not None:
            _check_handler(handler)
        positive("concurrency", concurrency)
        thread = self._thread()
        # A thread waits for the decision on the name, which may take two seconds.
        registering = partial(
            self._plain.register,
            name,
            thread=thread,
            visibility=visibility,
            overflow=overflow,
            capacity=capacity,
        )
        plain = await in_thread(registering, plain_task.Task.deregister)
        return self._new_task(plain, thread, handler, concurrency)

    def task(
        self,
        name: str,
        *,
        concurrency: int = 1,
        visibility: Visibility = Visibility.PUBLIC,
    ) -> Callable[[Handler], Task]:
        """Register a coroutine function as a task: ``@bus.task("adder")``.

        concurrency: as in `register`.

        This does not wait for the decision on the name. If another process has the
        name, that is logged and the task is deregistered; `register` raises instead.
        """
        if callable(name):
            raise TypeError('a task needs a name: use @bus.task("name")')
        positive("concurrency", concurrency)

        def registered(handler: Handler) -> Task:
            _check_handler(handler)
            thread = self._thread()
            plain = self._plain.register(name, thread=thread, visibility=visibility)
            return self._new_task(plain, thread, handler, concurrency)

        return registered

    def _new_task(
        self,
        plain: plain_task.Task,
        thread: LoopThread,
        handler: Handler | None,
        concurrency: int,
    ) -> Task:
        task = Task(plain, thread)
        if handler is not None:
            task._start(handler, concurrency)
        return task

    async def service(
        self, name: str, transform: Callable[[Incoming], Any] | None = None
    ) -> Task:
        """Register a task that turns each command into a notification (BUS-MSG-14).

        transform: maps a command to the payload of its notification; if None, the
          payload is passed on unchanged. As `bus.Service`.
        """
        check_optional_callback("transform", transform)

        async def pass_on(message: Incoming) -> None:
            task.notify(message.payload if transform is None else transform(message))

        task = await self.register(name, pass_on)
        return task

    async def hand_over(
        self,
        task: Task,
        to: Where,
        *,
        factory: str | None = None,
        timeout: float | Unset | None = UNSET,
    ) -> Address:
        """Let another process take over a task; as `bus.Bus.hand_over`.

        The handler takes no further command, and those that it handles now end before
        the task is asked for its state (`Task.on_leave`).
        """
        check_instance("task", task, Task)
        await task._pause()
        try:
            return await in_thread(
                partial(
                    self._plain.hand_over,
                    *(task.task, to),
                    factory=factory,
                    timeout=timeout,
                )
            )
        finally:
            task._resume()  # unless it has left

    async def accept_tasks(
        self, name: str, factories: Mapping[str, Factory]
    ) -> plain_task.Task:
        """Accept tasks from `hand_over` in the running event loop (BUS-MOVE-10).

        factories: coroutine functions by name. Each is called with this object, the
          name to register and the state of the former task, and returns the `Task` that
          it registers. All else as `bus.Bus.accept_tasks`.
        """
        for each in factories.values():
            _check_handler(each, "factory")
        loop = asyncio.get_running_loop()

        def in_loop(factory: Factory) -> Callable[..., plain_task.Task]:
            def make(_: threads.Bus, name: str, state: Any) -> plain_task.Task:
                made = factory(self, name, state)
                task = asyncio.run_coroutine_threadsafe(made, loop).result()
                return task.task

            return make

        plain = {each: in_loop(factory) for each, factory in factories.items()}
        accepting = partial(self._plain.accept_tasks, name, plain)
        return await in_thread(accepting, plain_task.Task.deregister)

    # By an implicit private task of the event loop.

    async def call(
        self,
        to: Where,
        payload: Any = None,
        *,
        timeout: float | Unset | None = UNSET,
    ) -> Any:
        """Send a command and await the answer; see `Task.call`."""
        return await call(self._caller()._sender, to, payload, None, timeout)

    async def command(self, to: Where | Sequence[Where], payload: Any = None) -> None:
        """Send a command without an answer; see `Task.command`."""
        await command(self._caller(), to, payload, None, UNSET)

    def listen(
        self,
        to: Where | Specification,
        *,
        timeout: float | None = None,
        overflow: Overflow = "drop-oldest",
        capacity: int | None = None,
    ) -> Listener:
        """Subscribe to the notifications of a task, or a pattern; see `Listener`.

        timeout: the iteration ends if no notification arrives for this many seconds;
          None for no limit.
        overflow, capacity: as in `bus.Task.subscribe`.
        """
        deadline_after(timeout)
        tasks, thread = self._plain._implicit_tasks, self._thread()
        orphans = self._plain._orphans
        return _iterate(
            tasks.private_task(thread),
            lambda task: Listener(task, orphans, to, timeout, overflow, capacity),
        )

    def watch(self, to: Where | Specification) -> Watcher:
        """Watch which of the named tasks are registered; see `Watcher`."""
        tasks, thread = self._plain._implicit_tasks, self._thread()
        return _iterate(
            tasks.private_task(thread),
            lambda task: Watcher(task, self._plain._orphans, to),
        )

    async def wait_for(self, where: Where, timeout: float | None = 5.0) -> Address:
        """Wait until a task is registered under a name; as `bus.Bus.wait_for`."""
        deadline = deadline_after(timeout)
        if names_any_machine(str(where)):
            # A search on all machines, whose wait only threads can share.
            return await in_thread(partial(self._plain.wait_for, where, timeout))
        async with self.watch(where) as watcher:
            while (presence := await watcher._next(deadline)) is not None:
                if presence.here:
                    return presence.address
            self._plain._lifetime.check()
            watcher._check()
        assert timeout is not None
        raise CommandTimeoutError(
            str(where), timeout, missing="task found under the name"
        )

    def inspect(self) -> BusSnapshot:
        """Return a snapshot of this bus in this process; does not wait."""
        return self._plain.inspect()

    async def close(self, drain: float = 1.0) -> None:
        """Leave the bus, as `bus.Bus.close`; the event loop serves meanwhile.

        drain: the seconds for which the handlers may still handle commands.
        """
        await in_thread(partial(self._plain.close, drain))

    # The thread of the running loop.

    def _thread(self) -> LoopThread:
        """Return the thread of the running loop; it begins to serve if it is new."""
        loop, last = asyncio.get_running_loop(), self._last
        if last is None or last.loop is not loop or not last.serves:
            self._last = last = LoopThread.of(self._plain._threads, loop)
        return last

    def _caller(self) -> plain_task.Task:
        """Return the implicit task of the running loop."""
        thread = self._thread()
        caller = thread.caller
        if caller is None or caller._entry.host is None:
            tasks = self._plain._implicit_tasks
            caller = thread.caller = tasks.private_task(thread)
        return caller


def wrap(bus: threads.Bus) -> Bus:
    """Return the face of a bus for coroutines; both may be used at once.

    Raises:
        TypeError: it is no bus.
    """
    return Bus(bus)


class Opening:
    """A bus that opens: ``await`` it, or use it with ``async with``."""

    __slots__ = ("_bus", "_open")

    def __init__(self, open_it: Callable[[], threads.Bus]) -> None:
        self._open: Final = open_it
        self._bus: Bus | None = None

    def __await__(self) -> Generator[Any, Any, Bus]:
        return self._opened().__await__()

    async def __aenter__(self) -> Bus:
        self._bus = await self
        return self._bus

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bus is not None:
            await self._bus.close()

    async def _opened(self) -> Bus:
        return Bus(await in_thread(self._open, threads.Bus.close))


def _opening(opens: Callable[P, threads.Bus]) -> Callable[P, Opening]:
    @functools.wraps(opens)
    def opening(*args: P.args, **kwargs: P.kwargs) -> Opening:
        return Opening(partial(opens, *args, **kwargs))

    return opening


open_bus = _opening(membership.open_bus)


def _iterate(task: plain_task.Task, iterator: Callable[[plain_task.Task], T]) -> T:
    """Return an iterator that has a private task of its own."""
    try:
        return iterator(task)
    except BaseException:
        task.deregister()
        raise


def _check_handler(handler: object, what: str = "handler") -> None:
    """Check a handler: a coroutine function, or an object called as one."""
    called = type(handler).__call__ if callable(handler) else None
    if not (
        inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)
    ):
        raise wrong_type(what, "a coroutine function", handler)
