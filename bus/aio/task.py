"""`Task`: a task of a bus for coroutines; its event loop hosts it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from bus.aio.loop_thread import LoopThread, wait_until
from bus.aio.waits import in_thread, wait_for_outcome
from bus.api import task as threads
from bus.api.arguments import UNSET, OnFull, Unset, deadline_after
from bus.api.questions import Call
from bus.api.reentry import guarded
from bus.api.sender import Sender, explained, with_cause
from bus.api.task import Where
from bus.errors import BusError, BusFullError, CommandTimeoutError
from bus.features.subscriptions.api import Subscriber
from bus.model.address import Address
from bus.model.error_text import error_text_of
from bus.model.loan import Loan
from bus.model.message import NOREPLY, Incoming
from bus.process.account import Account
from queuebroker import _sync
from queuebroker.aio.waiting import wait_for
from queuebroker.aio.waker import running_waker
from queuebroker.arguments import positive
from queuebroker.closable import Uncopyable
from queuebroker.waiting.parking import PENDING, Pending

__all__ = ["Handler", "Task", "check_handler"]

Handler: TypeAlias = Callable[[Incoming], Awaitable[Any]]

_send: Final = guarded("call")(Sender.send_call)


def check_handler(name: str, handler: object) -> None:
    """Check the handler of a task: a coroutine function, or an object called as one."""
    called = type(handler).__call__ if callable(handler) else None
    if not (
        inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)
    ):
        what = getattr(handler, "__qualname__", None) or repr(handler)
        msg = (
            f"cannot register {name!r}: its handler {what} is not a coroutine function;"
            " define it with `async def`"
        )
        raise TypeError(msg)


class Task(Uncopyable):
    """A task of a bus for coroutines; `bus.aio.Bus.register` creates it.

    The event loop in which it was registered hosts it, and its coroutines alone may
    await `receive`. Plain functions, such as `notify`, may be called in any thread.
    """

    __slots__ = ("_busy", "_concurrency", "_handler", "_plain", "_thread", "_worker")

    def __init__(
        self,
        plain: threads.Task,
        thread: LoopThread,
        handler: Handler | None = None,
        concurrency: int = 1,
    ) -> None:
        self._plain: Final = plain
        self._thread: Final = thread
        self._handler: Final = handler
        self._concurrency: Final = concurrency
        # The asyncio task that receives the commands for the handler, and those that
        # handle one command each.
        self._worker: asyncio.Task[None] | None = None
        self._busy: Final[set[asyncio.Task[None]]] = set()
        if handler is None:
            plain._receiver.reads_by = (
                "no coroutine receives its commands: await its receive(), or register"
                " it with a handler"
            )
        else:
            plain._receiver.reads_by = (
                f"its handler handles {concurrency} of its commands, and has not"
                " returned; raise concurrency=, or shorten it"
            )
            thread.are_idle.add(self._is_idle)
            self._resume()

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

    # Sending.

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
        not receive it; one that handles it continues.
        """
        question, error = await self._ask(to, payload, bus, timeout)
        if error is None:
            assert question.outcome is not None
            return question.outcome.payload
        entry = self._plain._entry
        error, inspector, wait_s = explained(error, entry, question, here=False)
        if inspector is not None:
            asked = question.inspector_payload()
            reason, failed = await self._ask(inspector, asked, bus, wait_s)
            if failed is None and reason.outcome is not None:
                error = with_cause(error, reason.outcome.payload)
        raise error

    async def _ask(
        self,
        to: Where,
        payload: Any,
        bus: str | None,
        timeout: float | Unset | None,
    ) -> tuple[Call, BusError | None]:
        """Await the outcome of a call; return the call, and its error if it failed."""
        sender = self._plain._sender
        sender.require_host()
        waiter = running_waker().waiter()
        call, router, encoded = sender.new_call(to, payload, bus, timeout, None, waiter)
        questions = sender.asker.questions
        try:
            _send(sender, call, router, encoded)
            await wait_for_outcome(call, call.deadline)
        except BaseException:
            questions.cancel(call)
            raise
        if call.outcome is None and questions.cancel(call):
            return call, sender.failure(call, call.timeout_error())
        # The question is closed, and by another thread perhaps only now.
        answer = call.outcome
        if answer is not None and answer.error is None:
            return call, None
        return call, sender.failure(call, None)

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
        at most `bus.BusConfig.send_timeout_s`. Otherwise as `bus.Task.command`.
        """
        deadline = None
        while True:
            try:
                self._plain.command(to, payload, bus, timeout=timeout)
            except BusFullError:
                if not isinstance(to, (str, Address)):
                    raise  # other addressees have received it
                if deadline is None:
                    limit_s = self._plain._bus._config.send_timeout_s
                    deadline = _sync.monotonic() + limit_s
                if not await self._wait_for_room(to, bus, deadline):
                    raise
            else:
                return

    async def _wait_for_room(self, to: Where, bus: str | None, deadline: float) -> bool:
        """Wait until an addressee has room, if its policy is ``block`` (BUS-FLOW-6).

        deadline: on the monotonic clock in seconds. Return False if it passes first, or
          the addressee has another policy.
        """
        name, there = self._plain._bus._route(to, bus)
        entry = there._exchange.find(name)
        host = None if entry is None else entry.host
        if entry is None or host is None:
            return True  # the next attempt finds the task elsewhere
        account: Account = entry.mailbox.client.account
        if account.overflow != "block":
            return False

        def ready() -> bool:
            return entry.host is not host or not account.full(1)

        def attempt() -> Pending | None:
            return None if ready() else PENDING

        inbox = host.inbox
        return await wait_for(inbox, inbox.room, attempt, ready, deadline) is None

    def notify(self, payload: Any = None) -> None:
        """Send a notification to all subscribers; as `bus.Task.notify`.

        It never waits: a subscriber whose policy is ``block`` and that has no room
        raises `BusFullError`; all others get the notification.
        """
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
        return loan() if on_full != "wait" else await in_thread(loan, _release)

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
            await wait_for_outcome(wait, deadline)
        finally:
            wait.end()
        return wait.check()

    # Receiving.

    async def receive(self, timeout: float | None = None) -> Incoming:
        """Wait for a command and return it; for tasks without a handler.

        `Incoming.respond` answers it. A cancelled call has received none.

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

        if not await wait_until(claimed, self._plain, deadline):
            return None
        message, receiver.claimed = receiver.claimed, None
        return message

    # Handling.

    def _is_idle(self) -> bool:
        return not (self._busy or self._plain._receiver.unclaimed())

    def _resume(self) -> None:
        """Let the handler take commands, if there is one."""
        if self._handler is not None:
            worker = self._thread.start_job(self._handle_all(self._handler))
            self._worker = worker
            worker.add_done_callback(self._on_worker_done)

    async def _pause(self) -> None:
        """Let the handler take no more commands; wait for those that it handles."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker, *self._busy])

    def _on_worker_done(self, worker: asyncio.Task[None]) -> None:
        if self._worker is worker:
            self._worker = None

    async def _handle_all(self, handler: Handler) -> None:
        busy = self._busy
        try:
            while (message := await self._receive(None)) is not None:
                handling = self._thread.start_job(self._handle(handler, message))
                busy.add(handling)
                handling.add_done_callback(partial(self._on_handled, message))
                while len(busy) >= self._concurrency:
                    await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        except BusError:  # the task is deregistered, perhaps by force
            self._thread.are_idle.discard(self._is_idle)

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
            self._respond_error(message, error_text_of(error))

    def _on_handled(self, message: Incoming, handling: asyncio.Task[None]) -> None:
        self._busy.discard(handling)
        if handling.cancelled():  # perhaps before its first step
            self._respond_error(message, "the handler was cancelled")

    def _respond_error(self, message: Incoming, why: str) -> None:
        if message.wants_reply and not message._answered:
            self._plain._receiver.responder.answer(message, None, why)

    def deregister(self, *, final: bool = False) -> None:
        """Deregister from the bus; as `bus.Task.deregister`. Does not wait.

        The handler ends the commands that it handles.
        """
        self._plain.deregister(final=final)


def check_concurrency(concurrency: int, handler: Handler | None) -> None:
    """Check the argument ``concurrency``, which is for tasks with a handler."""
    positive("concurrency", concurrency)
    if handler is None and concurrency != 1:
        msg = (
            f"concurrency is for a task with a handler, got {concurrency}: leave it out"
        )
        raise ValueError(msg)


def _release(loan: Loan) -> None:
    with loan:
        pass
