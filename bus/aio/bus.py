"""`Bus`: a bus for coroutines, and `open_bus` and `wrap`, which return one."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, NoReturn, ParamSpec, Self, TypeAlias, TypeVar

from bus.aio.listener import Listener
from bus.aio.loop_thread import LoopThread
from bus.aio.task import Handler, Task, check_concurrency, check_handler
from bus.aio.waits import in_thread
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
from bus.api.reentry import guarded
from bus.api.task import Where
from bus.errors import CommandTimeoutError
from bus.kernel import constants
from bus.model.address import Address, names_any_machine
from bus.model.message import Incoming
from bus.model.registration import Visibility
from bus.model.specification import Specification
from bus.process.account import Overflow
from queuebroker import _sync
from queuebroker.arguments import positive
from queuebroker.closable import Uncopyable
from queuebroker.waiting.parking import taken_lock

__all__ = ["Bus", "Factory", "open_bus", "wrap"]

P = ParamSpec("P")
T = TypeVar("T")


class Bus(Uncopyable):
    """A bus for coroutines; ``async with`` closes it on leaving, for threads as well.

    `open_bus` and `wrap` return it. The methods may be awaited in any number of event
    loops; each hosts the tasks that its coroutines register.
    """

    __slots__ = ("_last_thread", "_plain")

    def __init__(self, plain: threads.Bus) -> None:
        check_instance("bus", plain, threads.Bus)
        self._plain: Final = plain
        # The thread of the loop that called last.
        self._last_thread: LoopThread | None = None

    def __repr__(self) -> str:
        return f"<aio {self._plain!r}>"

    @property
    def bus(self) -> threads.Bus:
        """The plain bus, for threads and for calls that never wait."""
        return self._plain

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A coroutine that is collected after the end of its loop cannot wait.
        if exc_type is not GeneratorExit or asyncio._get_running_loop() is not None:
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
            TypeError: ``handler`` is not a coroutine function.
        """
        if handler is not None:
            check_handler(name, handler)
        check_concurrency(concurrency, handler)
        thread, register = self._registering(name, visibility, overflow, capacity)
        # A thread waits for the decision on the name, which may take two seconds.
        plain = await in_thread(register, plain_task.Task.deregister)
        return Task(plain, thread, handler, concurrency)

    def task(
        self,
        name: str,
        *,
        concurrency: int = 1,
        visibility: Visibility = Visibility.PUBLIC,
        overflow: Overflow = "error",
        capacity: int | None = None,
    ) -> Callable[[Handler], Task]:
        """Register a coroutine function as a task: ``@bus.task("adder")``.

        The arguments are those of `register`; the task replaces the function.

        This does not wait for the decision on the name. If another process has the
        name, that is logged and the task is deregistered; `register` raises instead.
        """
        if callable(name):
            raise TypeError('a task needs a name: use @bus.task("name")')
        positive("concurrency", concurrency)

        def registered(handler: Handler) -> Task:
            check_handler(name, handler)
            thread, register = self._registering(name, visibility, overflow, capacity)
            return Task(register(), thread, handler, concurrency)

        return registered

    def _registering(
        self,
        name: str,
        visibility: Visibility,
        overflow: Overflow,
        capacity: int | None,
    ) -> tuple[LoopThread, Callable[[], plain_task.Task]]:
        thread = self._thread("register a task")
        options: dict[str, Any] = {"overflow": overflow, "capacity": capacity}
        return thread, partial(
            self._plain.register, name, thread=thread, visibility=visibility, **options
        )

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

    # Moving tasks to other processes.

    async def hand_over(
        self,
        task: Task,
        to: Where,
        *,
        factory: str | None = None,
        timeout: float | Unset | None = UNSET,
    ) -> Address:
        """Let another process take over a task; as `bus.Bus.hand_over`.

        The handler takes no further command, and ends those that it handles before the
        task is asked for its state (`bus.Task.on_leave`). If the call is cancelled, the
        move goes on.

        Raises:
            RuntimeError: the task's own handler calls this, or an earlier call has not
              ended.
        """
        check_instance("task", task, Task)
        task._thread.check_running()
        if task._is_handled_by(asyncio.current_task()):
            msg = (
                f"cannot hand over {task.address.module!r} in its own handler, which"
                " has to end before: start an asyncio task for it"
            )
            raise RuntimeError(msg)
        moving = partial(
            self._plain.hand_over, task.task, to, factory=factory, timeout=timeout
        )

        handling = task._pause()

        async def move() -> Address:
            if handling:
                await asyncio.wait(handling)
            return await in_thread(moving)

        job = asyncio.ensure_future(move())
        job.add_done_callback(lambda _: task._resume())  # it may not have left
        try:
            return await asyncio.shield(job)
        finally:
            del job  # its exception holds this frame

    async def accept_tasks(
        self, name: str, factories: Mapping[str, Factory]
    ) -> plain_task.Task:
        """Accept tasks from `hand_over` in the running event loop (BUS-MOVE-10).

        factories: coroutine functions by name. Each is called with this object, the
          name to register and the state of the former task, and returns the `Task` that
          it registers. Otherwise as `bus.Bus.accept_tasks`.
        """
        if not isinstance(factories, Mapping):
            raise wrong_type("factories", "a mapping of names to functions", factories)
        for each, factory in factories.items():
            check_handler(each, factory, "factory")
        loop = asyncio.get_running_loop()
        not_running = f"the event loop that accepts tasks as {name!r} does not run"

        def in_loop(factory: Factory) -> Callable[..., plain_task.Task]:
            def make(_: threads.Bus, name: str, state: Any) -> plain_task.Task:
                if not loop.is_running():
                    raise RuntimeError(not_running)
                made = factory(self, name, state)
                making = asyncio.run_coroutine_threadsafe(made, loop)
                parker = taken_lock()
                making.add_done_callback(lambda _: parker.release())
                while not making.done():
                    until = _sync.monotonic() + constants.STUCK_CALLBACK_S
                    _sync.park(parker, making.done, until)
                    if not (making.done() or loop.is_running()):
                        making.cancel()
                        raise RuntimeError(not_running)
                made_task: Any = making.result()
                task: plain_task.Task = getattr(made_task, "task", made_task)
                return task  # the caller checks it

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
        return await self._caller().call(to, payload, timeout=timeout)

    async def command(self, to: Where | Sequence[Where], payload: Any = None) -> None:
        """Send a command without an answer; see `Task.command`."""
        await self._caller().command(to, payload)

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
        overflow, capacity: as in `bus.Task.subscribe`. No policy slows a notifier of
          another process.
        """
        deadline_after(timeout)
        return self._with_task(
            "listen", lambda task: Listener(task, to, timeout, overflow, capacity)
        )

    def watch(self, to: Where | Specification) -> Watcher:
        """Watch which of the named tasks are registered; see `Watcher`."""
        return self._with_task("watch", lambda task: Watcher(task, to))

    async def wait_for(self, where: Where, timeout: float | None = 5.0) -> Address:
        """Wait until a task is registered under a name; as `bus.Bus.wait_for`."""
        deadline = deadline_after(timeout)
        if names_any_machine(str(where)):
            # A search on all machines, whose wait only threads can share.
            return await in_thread(partial(self._plain.wait_for, where, timeout))
        _, there = self._plain._specification(where, None)
        async with self.watch(where) as watcher:
            while (presence := await watcher._next(deadline)) is not None:
                if presence.here:
                    return presence.address
            if watcher._is_over():
                self._plain._lifetime.check()
                there._lifetime.check()
                watcher._task._sender.require_host()
        assert timeout is not None
        raise CommandTimeoutError(
            str(where), timeout, missing="task found under the name"
        )

    async def close(self, drain: float = 1.0) -> None:
        """Leave the bus, as `bus.Bus.close`; the event loop serves its tasks meanwhile.

        drain: the seconds for which the handlers may still handle commands. Then they
          are cancelled, and their callers get an error.

        Does not wait if a handler calls it.
        """
        if self._plain._lifetime.foreign:
            return  # as the plain one, which only the process that created it closes
        closing = in_thread(partial(self._plain.close, drain))
        for thread in self._plain._threads.running.copy():
            if isinstance(thread, LoopThread) and thread.runs_handler():
                thread.closing = asyncio.ensure_future(closing)
                return
        await closing

    # The thread of the running loop.

    def _thread(self, act: str) -> LoopThread:
        """Return the thread of the running loop; it begins to serve if it is new.

        act: the action of the call, for the error.

        Raises:
            RuntimeError: no loop is running.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            msg = (
                f"cannot {act} on bus {self._plain.name!r}: no event loop is running;"
                " call it in a coroutine"
            )
            raise RuntimeError(msg) from None
        last = self._last_thread
        if last is None or last.loop is not loop or not last.drives:
            last = self._last_thread = LoopThread.of(self._plain._threads, loop)
        return last

    def _caller(self) -> Task:
        """Return the implicit task of the running loop."""
        thread = self._thread("call")
        caller: Task | None = thread.caller
        if caller is None or caller.task._entry.host is None:
            plain = self._plain._implicit_tasks.private_task(thread)
            caller = thread.caller = Task(plain, thread)
        return caller

    def _with_task(self, act: str, iterator: Callable[[plain_task.Task], T]) -> T:
        """Return an iterator with a private task of its own."""
        task = self._plain._implicit_tasks.private_task(self._thread(act))
        try:
            return _created(iterator, task)
        except BaseException:
            task.deregister()
            raise


@guarded("subscribe")
def _created(iterator: Callable[[plain_task.Task], T], task: plain_task.Task) -> T:
    return iterator(task)


Factory: TypeAlias = Callable[[Bus, str, Any], Coroutine[Any, Any, Task]]


def wrap(bus: threads.Bus) -> Bus:
    """Return a bus for coroutines; both objects may be used at once.

    Raises:
        TypeError: ``bus`` is not a `bus.Bus`.
    """
    return Bus(bus)


class Opening:
    """A bus that opens: use it with ``async with``, or ``await`` it."""

    __slots__ = ("_bus", "_open")

    def __init__(self, open_bus: Callable[[], threads.Bus]) -> None:
        self._open: Final = open_bus
        self._bus: Bus | None = None

    def __getattr__(self, name: str) -> NoReturn:
        msg = f"{name}: the bus is not open yet; use `async with` or `await` first"
        raise AttributeError(msg)

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
            await self._bus.__aexit__(exc_type, exc, traceback)

    async def _opened(self) -> Bus:
        return Bus(await in_thread(self._open, threads.Bus.close))


def _opening(open_bus: Callable[P, threads.Bus]) -> Callable[P, Opening]:
    @functools.wraps(open_bus)
    def opening(*args: P.args, **kwargs: P.kwargs) -> Opening:
        return Opening(partial(open_bus, *args, **kwargs))

    return opening


open_bus = _opening(membership.open_bus)
