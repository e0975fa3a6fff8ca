"""`Task`: a task of a bus for coroutines; its event loop hosts it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from bus.aio.loop_thread import LoopThread, in_thread, over, until
from bus.api import task as threads
from bus.api.arguments import UNSET, OnFull, Unset, deadline_after
from bus.api.questions import Call
from bus.api.reentry import guarded
from bus.api.sender import Sender, explained, with_cause
from bus.api.task import Where
from bus.errors import BusError, BusFullError, CommandTimeoutError, UnknownTaskError
from bus.features.subscriptions.api import Subscriber
from bus.model.address import Address
from bus.model.error_text import error_text_of
from bus.model.loan import Loan
from bus.model.message import NOREPLY, Incoming
from queuebroker import _sync
from queuebroker.aio.waiting import wait_for
from queuebroker.aio.waker import running_waker
from queuebroker.closable import Uncopyable
from queuebroker.waiting.parking import PENDING, Pending

__all__ = ["Handler", "Task", "call", "command"]

Handler: TypeAlias = Callable[[Incoming], Awaitable[Any]]


async def call(
    sender: Sender,
    to: Where,
    payload: Any,
    bus: str | None,
    timeout: float | Unset | None,
) -> Any:
    """Send a command by the sender of a task, and await its answer; see `Task.call`."""
    asked, error = await _ask(sender, to, payload, bus, timeout)
    if error is None:
        assert asked.outcome is not None
        return asked.outcome.payload
    error, inspector, wait_s = explained(error, sender._entry, asked, here=False)
    if inspector is not None:
        told, failed = await _ask(sender, inspector, asked.why(), bus, wait_s)
        if failed is None and told.outcome is not None:
            error = with_cause(error, told.outcome.payload)
    raise error


async def _ask(
    sender: Sender,
    to: Where,
    payload: Any,
    bus: str | None,
    timeout: float | Unset | None,
) -> tuple[Call, BusError | None]:
    """Await the outcome of a call; return the call and its error, if it failed."""
    sender.require_host()
    waiter = running_waker().waiter()
    asked, router, encoded = sender.new_call(to, payload, bus, timeout, None, waiter)
    questions = sender.asker.questions
    try:
        _send(sender, asked, router, encoded)
        await over(asked, asked.deadline)
    except BaseException:
        questions.cancel(asked)
        raise
    if asked.outcome is None and questions.cancel(asked):
        return asked, sender.failure(asked, asked.timeout_error())
    # The question is closed, and by another thread perhaps only now.
    answer = asked.outcome
    if answer is not None and answer.error is None:
        return asked, None
    return asked, sender.failure(asked, None)


_send: Final = guarded("call")(Sender.send_call)


async def room(sender: Sender, to: Where, bus: str | None, deadline: float) -> bool:
    """Wait until a full addressee has room, if its policy is ``block`` (BUS-FLOW-6).

    Return False if time is up, or it has another policy.

    deadline: on the monotonic clock in seconds.
    """
    name, there = sender.bus._route(to, bus)
    entry = there._exchange.find(name)
    host = None if entry is None else entry.host
    if entry is None or host is None:
        return True  # the next attempt finds the task elsewhere
    account = entry.mailbox.client.account
    if account.overflow != "block":
        return False

    def ready() -> bool:
        return entry.host is not host or not account.full(1)

    def attempt() -> Pending | None:
        return None if ready() else PENDING

    inbox = host.inbox
    return await wait_for(inbox, inbox.room, attempt, ready, deadline) is None


async def command(
    task: threads.Task,
    to: Where | Sequence[Where],
    payload: Any,
    bus: str | None,
    timeout: float | Unset | None,
) -> None:
    """Send a command of a task without an answer; see `Task.command`."""
    deadline = None
    while True:
        try:
            task.command(to, payload, bus, timeout=timeout)
        except BusFullError:
            if not isinstance(to, (str, Address)):
                raise  # some addressees have it
            if deadline is None:
                deadline = _sync.monotonic() + task._bus._config.send_timeout_s
            if not await room(task._sender, to, bus, deadline):
                raise
        else:
            return


def _release(loan: Loan) -> None:
    with loan:
        pass


class Task(Uncopyable):
    """A task of a bus for coroutines; `bus.aio.Bus.register` creates it.

    The event loop in which it was registered hosts it: only there may its methods be
    awaited. Plain functions, such as `notify`, may be called in any thread.
    """

    __slots__ = ("_busy", "_concurrency", "_handler", "_plain", "_thread", "_worker")

    def __init__(self, plain: threads.Task, thread: LoopThread) -> None:
        self._plain: Final = plain
        self._thread: Final = thread
        self._handler: Handler | None = None
        self._concurrency: int = 1
        # The task of asyncio that receives the commands for the handler, and those that
        # handle one command each.
        self._worker: asyncio.Task[None] | None = None
        self._busy: Final[set[asyncio.Task[None]]] = set()

    def __repr__(self) -> str:
        return f"<aio {self._plain!r}>"

    @property
    def address(self) -> Address:
        """The full address: name, machine and bus."""
        return self._plain.address

    @property
    def task(self) -> threads.Task:
        """The plain task, for threads."""
        return self._plain

    async def call(
        self,
        to: Where,
        payload: Any = None,
        *,
        bus: str | None = None,
        timeout: float | Unset | None = UNSET,
    ) -> Any:
        """Send a command and await its answer; as `bus.Task.call`.

        If the call is cancelled, an addressee that has not read the command yet does
        not receive it.
        """
        return await call(self._plain._sender, to, payload, bus, timeout)

    async def command(
        self,
        to: Where | Sequence[Where],
        payload: Any = None,
        *,
        bus: str | None = None,
        timeout: float | Unset | None = UNSET,
    ) -> None:
        """Send a command without an answer, to one task or to several (BUS-MSG-2).

        If a single addressee has the policy ``block`` and no room, this waits for room,
        at most `bus.BusConfig.send_timeout_s`. All else as `bus.Task.command`.
        """
        await command(self._plain, to, payload, bus, timeout)

    def notify(self, payload: Any = None) -> None:
        """Send a notification to all subscribers; as `bus.Task.notify`."""
        self._plain.notify(payload)

    async def loan(
        self,
        nbytes: int,
        *,
        on_full: OnFull = "error",
        timeout: float | Unset | None = UNSET,
    ) -> Loan:
        """Return a buffer for a long message, to write in place; as `bus.Task.loan`.

        With ``on_full="wait"`` this waits for room, and other coroutines go on.
        """
        loan = partial(self._plain.loan, nbytes, on_full=on_full, timeout=timeout)
        if on_full != "wait":
            return loan()
        return await in_thread(loan, _release)

    async def receive(self, timeout: float | None = None) -> Incoming:
        """Wait for a command and return it; for tasks without a handler.

        A cancelled call has received none.

        Raises:
            CommandTimeoutError: no command arrived in time.
            RuntimeError: called in another event loop, or the task has a handler.
            UnknownTaskError: the task is deregistered.
        """
        deadline = deadline_after(timeout)
        self._thread.check_running()
        name = self._plain._entry.name
        if self._handler is not None:
            msg = f"cannot receive for {name!r}: its commands go to a handler"
            raise RuntimeError(msg)
        message = await self._receive(deadline)
        if message is None:
            assert timeout is not None
            raise CommandTimeoutError(name, timeout, missing="command for")
        return message

    async def _receive(self, deadline: float | None) -> Incoming | None:
        receiver, sender = self._plain._receiver, self._plain._sender

        def claimed() -> bool:
            sender.require_host()
            return receiver.claim()

        if not await until(claimed, self._plain, deadline):
            return None
        message, receiver.claimed = receiver.claimed, None
        return message

    def _start(self, handler: Handler, concurrency: int) -> None:
        """Let a coroutine function handle all commands from now on."""
        self._handler, self._concurrency = handler, concurrency
        self._thread.handled.add(self)
        self._resume()

    def _resume(self) -> None:
        """Let the handler take commands, if there is one."""
        if self._handler is not None:
            work = self._handle_all(self._handler)
            self._worker = self._thread.start_job(work)
            self._worker.add_done_callback(self._on_worker_done)

    def _on_worker_done(self, worker: asyncio.Task[None]) -> None:
        if self._worker is worker:
            self._worker = None

    async def _pause(self) -> None:
        """Let the handler take no more commands, and end those that it handles."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker, *self._busy])

    def is_idle(self) -> bool:
        """Return True if the handler neither handles a command nor has one to take."""
        return not (self._busy or self._plain._receiver.unclaimed())

    async def _handle_all(self, handler: Handler) -> None:
        busy = self._busy
        try:
            while (message := await self._receive(None)) is not None:
                handling = self._thread.start_job(self._handle(handler, message))
                busy.add(handling)
                handling.add_done_callback(partial(self._on_handled, message))
                while len(busy) >= self._concurrency:
                    await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        except UnknownTaskError:
            self._thread.handled.discard(self)  # the task is deregistered

    async def _handle(self, handler: Handler, message: Incoming) -> None:
        """Handle one command; its answer is the value that the handler returns."""
        receiver = self._plain._receiver
        try:
            answer = await handler(message)
            if answer is NOREPLY or message._answered or not message.wants_reply:
                return
            receiver.responder.answer(message, answer, None)
        except Exception as error:  # noqa: BLE001 # contained (BUS-MSG-13)
            receiver.on_exception(handler)
            self._refuse(message, error_text_of(error))

    def _on_handled(self, message: Incoming, handling: asyncio.Task[None]) -> None:
        self._busy.discard(handling)
        if handling.cancelled():  # perhaps before its first step
            self._refuse(message, "the handler was cancelled")

    def _refuse(self, message: Incoming, why: str) -> None:
        if message.wants_reply and not message._answered:
            self._plain._receiver.responder.answer(message, None, why)

    async def wait_for_subscribers(
        self, count: int = 1, timeout: float | None = None
    ) -> bool:
        """Wait until this task has ``count`` subscribers; False if time is up first.

        As `bus.Task.wait_for_subscribers`.
        """
        deadline = deadline_after(timeout)
        plain = self._plain
        own = Subscriber(plain._bus, plain._entry, plain._sender)
        wait = own.awaited_subscribers(running_waker().waiter())
        try:
            wait.start(count)
            await over(wait, deadline)
        finally:
            wait.end()
        return wait.check()

    def deregister(self, *, final: bool = False) -> None:
        """Deregister from the bus; as `bus.Task.deregister`. Does not wait."""
        self._plain.deregister(final=final)
