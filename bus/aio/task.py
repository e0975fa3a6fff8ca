"""`Task`: a task of a bus for coroutines; its event loop hosts it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Sequence, Sized
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from bus.aio.loop_thread import LoopThread
from bus.aio.waits import in_thread, send_when_room, wait_for_outcome, wait_until
from bus.api import task as threads
from bus.api.arguments import UNSET, OnFull, Unset, deadline_after
from bus.api.questions import Asker, Call, Questions
from bus.api.receiver import Responder
from bus.api.reentry import guarded
from bus.api.sender import Sender, explained, with_cause
from bus.api.task import Where
from bus.errors import BusError, CommandTimeoutError
from bus.features.subscriptions.api import AwaitedSubscribers, Subscriber
from bus.model.address import Address
from bus.model.error_text import error_text_of
from bus.model.loan import Loan
from bus.model.message import NOREPLY, Incoming
from bus.model.payload import freeze_within
from bus.process.router import Router
from queuebroker.aio.waker import running_waker
from queuebroker.arguments import positive
from queuebroker.closable import Uncopyable

__all__ = ["Handler", "Task", "check_handler"]

Handler: TypeAlias = Callable[[Incoming], Awaitable[Any]]

# The steps of coroutines that take locks; each runs to its end before another call of
# the same thread.
_new_call: Final = guarded("call")(Sender.new_call)
_cancel: Final = guarded("cancel a call")(Questions.cancel)
_start_wait: Final = guarded("wait for subscribers")(AwaitedSubscribers.start)
_end_wait: Final = guarded("wait for subscribers")(AwaitedSubscribers.end)


@guarded("call")
def _send(
    thread: LoopThread,
    asker: Asker,
    call: Call,
    message: Incoming,
    router: Router,
    encoded: bytes | None,
) -> None:
    """Send the command of a call, for the first time or once more."""
    again = bool(message._id)
    if not again:
        asker.ask(call)
    if again or message._to is None or not router.post(message, encoded):
        router.send(message)
    thread.take_last_link()


@guarded("receive")
def _claimed(task: threads.Task) -> Incoming | None:
    """Return the oldest unread command of a task, which has received it."""
    receiver = task._receiver
    task._sender.require_host()
    receiver.claim()
    message, receiver.claimed = receiver.claimed, None
    return message


class _Taker:
    """The parker of a handler: to wake it is to let it take the unread commands."""

    __slots__ = ("_task",)

    def __init__(self, task: Task) -> None:
        self._task: Final = task

    def locked(self) -> bool:
        """Return True if the handler could take a command."""
        return self._task._may_take()

    def release(self) -> None:
        """Let the handler take commands, or learn that the task is deregistered."""
        self._task._thread.take_soon(self._task)


@guarded("respond")
def _answer(
    thread: LoopThread,
    responder: Responder,
    message: Incoming,
    payload: Any,
    error: str | None,
) -> None:
    """Answer a command whose answer is still wanted."""
    responder.answer(message, payload, error)
    thread.take_last_link()


def check_handler(name: str, handler: object, role: str = "handler") -> None:
    """Check the handler of a task: a coroutine function, or an object called as one.

    role: what it is, for the error.
    """
    called = type(handler).__call__ if callable(handler) else None
    if not (
        inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)
    ):
        what = getattr(handler, "__qualname__", None) or repr(handler)
        msg = (
            f"cannot register {name!r}: its {role} {what} is not a coroutine function;"
            " define it with `async def`"
        )
        raise TypeError(msg)


class Task(Uncopyable):
    """A task of a bus for coroutines; `bus.aio.Bus.register` creates it.

    The event loop in which it was registered hosts it, and its coroutines alone may
    await its methods. Plain functions, such as `notify`, may be called in any thread.
    """

    __slots__ = (
        "_busy",
        "_concurrency",
        "_context",
        "_handler",
        "_plain",
        "_takes",
        "_thread",
    )

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
        # That of the registration: the handler runs in copies of it.
        self._context: Final = None if handler is None else contextvars.copy_context()
        # True while the handler takes commands: not in a pause.
        self._takes: bool = False
        # The asyncio tasks that handle one command each.
        self._busy: Final[dict[asyncio.Task[Any], Incoming]] = {}
        plain._receiver.reads_by = partial(
            _why_unread, self._busy, None if handler is None else concurrency
        )
        if handler is not None:
            thread.handled.add(self)
            plain._receiver.waiters = [_Taker(self)]
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
            with suppress(BusError):  # the first error is the one to report
                reason, failed = await self._ask(inspector, asked, bus, wait_s)
                if failed is None and reason.outcome is not None:
                    error = with_cause(error, reason.outcome.payload)
        try:
            raise error
        finally:
            del error  # it holds this frame, and so the descriptor of the loop

    async def _ask(
        self,
        to: Where,
        payload: Any,
        bus: str | None,
        timeout: float | Unset | None,
    ) -> tuple[Call, BusError | None]:
        """Await the outcome of a call; return the call, and its error if it failed."""
        self._thread.check_running()
        sender = self._plain._sender
        waiter = self._thread.waker().waiter()
        call, message, router, encoded = _new_call(
            sender, to, payload, bus, timeout, waiter
        )
        asker = sender.asker
        questions = asker.questions
        try:
            await send_when_room(
                partial(_send, self._thread, asker, call, message, router, encoded),
                *(self._plain._bus, to, bus, lambda: message._size, call.deadline),
            )
            await wait_for_outcome(call, call.deadline)
        except GeneratorExit:
            self._plain._bus._orphans.append(partial(questions.cancel, call))
            raise  # it is collected, perhaps within the lock of the questions
        except BaseException:
            _cancel(questions, call)
            raise
        if call.outcome is None and _cancel(questions, call):
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
        self._thread.check_running()
        command = partial(self._plain.command, to, payload, bus, timeout=timeout)

        def size() -> int:
            config = self._plain._bus._config
            return freeze_within(payload, config.message_bytes_max, config.encoders)[1]

        if isinstance(to, (str, Address)) and type(payload) is not Loan:
            await send_when_room(command, self._plain._bus, to, bus, size)
        else:
            # Other addressees have received it, or the loan is used up.
            command()

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
        self._thread.check_running()
        loan = partial(self._plain.loan, nbytes, on_full=on_full, timeout=timeout)
        return loan() if on_full != "wait" else await in_thread(loan, _release)

    async def wait_for_subscribers(
        self, count: int = 1, timeout: float | None = None
    ) -> bool:
        """Wait until this task has ``count`` subscribers; False if time is up first.

        As `bus.Task.wait_for_subscribers`.
        """
        deadline = deadline_after(timeout)
        self._thread.check_running()
        plain = self._plain
        own = Subscriber(plain._bus, plain._entry, plain._sender)
        wait = own.awaited_subscribers(running_waker().waiter())
        try:
            _start_wait(wait, count)
            await wait_for_outcome(wait, deadline)
        except GeneratorExit:
            plain._bus._orphans.append(wait.end)  # as in `_ask`
            raise
        except BaseException:
            _end_wait(wait)
            raise
        _end_wait(wait)
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
        name, receiver = self._plain._entry.name, self._plain._receiver
        if self._handler is not None:
            msg = f"cannot receive for {name!r}: its commands go to a handler"
            raise RuntimeError(msg)

        def claimed() -> bool:
            self._plain._sender.require_host()
            return receiver.claim()

        if not await wait_until(claimed, self._plain, deadline):
            assert timeout is not None
            raise CommandTimeoutError(name, timeout, missing="command for")
        message, receiver.claimed = receiver.claimed, None
        assert message is not None
        return message

    # Handling.

    def _is_idle(self) -> bool:
        return not (self._busy or self._plain._receiver.unclaimed())

    def _is_handled_by(self, job: asyncio.Task[Any] | None) -> bool:
        return job in self._busy

    def _answer_busy(self) -> None:
        for message in self._busy.values():
            self._respond_error(message, "the event loop of its handler has ended")

    def _resume(self) -> None:
        """Let the handler take commands, if there is one."""
        if self._handler is not None:
            self._takes = True
            self._thread.take_soon(self)

    def _pause(self) -> list[asyncio.Task[Any]]:
        """Let the handler take no more commands; return those that it handles.

        Raises:
            RuntimeError: it takes none already.
        """
        if not self._takes and self._handler is not None:
            self._plain._sender.require_host()  # else it is deregistered
            name = self._plain._entry.name
            msg = f"cannot hand over {name!r}: an earlier hand-over has not ended"
            raise RuntimeError(f"{msg}; await that first")
        self._takes = False
        return [*self._busy]

    def _may_take(self) -> bool:
        return (
            self._takes
            and len(self._busy) < self._concurrency
            and not self._thread.ending
        )

    def _take(self) -> None:
        assert self._handler is not None
        assert self._context is not None
        message = None
        try:
            # Not `while self._may_take()`: see `_sync.Lock`.
            while True:
                message = _claimed(self._plain) if self._may_take() else None
                if message is None:
                    return
                handling = self._thread.start_job(
                    self._handle(self._handler, message),
                    self._context,
                    partial(self._on_handled, message),
                )
                if handling.done():  # it was eager, and never suspended
                    return  # `_on_handled` follows; others have their turn before
                self._busy[handling] = message
                message = None
        except BusError:  # the task is deregistered, perhaps by force
            self._takes = False
            self._thread.handled.discard(self)
        except (KeyboardInterrupt, SystemExit) as error:  # the loop may run again
            self._thread.take_soon(self)
            if message is not None:  # else its handler has it, or nobody
                self._respond_error(message, f"interrupted by {error_text_of(error)}")
            raise

    async def _handle(self, handler: Handler, message: Incoming) -> None:
        """Handle one command; its answer is the value that the handler returns."""
        receiver = self._plain._receiver
        job = asyncio.current_task()
        assert job is not None
        self._busy[job] = message  # an eager asyncio task begins before it is returned
        try:
            answer = await handler(message)
            if not (answer is NOREPLY or message._answered or not message.wants_reply):
                _answer(self._thread, receiver.responder, message, answer, None)
        except Exception as error:  # noqa: BLE001 # contained (BUS-MSG-13)
            receiver.on_exception(handler)
            self._respond_error(message, error_text_of(error))
        finally:
            self._busy.pop(job, None)
        # Else `_on_handled` takes the next command, or learns of the deregistration.
        if self._plain._entry.host is not None and not receiver.has_unclaimed():
            self._thread.end_job(job)

    def _on_handled(self, message: Incoming, handling: asyncio.Task[None]) -> None:
        self._busy.pop(handling, None)  # if it was cancelled before its first step
        try:
            if handling.cancelled():  # perhaps before its first step
                self._respond_error(message, "the handler was cancelled")
            elif (error := handling.exception()) is not None:
                self._respond_error(message, f"interrupted by {error_text_of(error)}")
        finally:
            self._take()

    def _respond_error(self, message: Incoming, why: str) -> None:
        if self._plain._bus._lifetime.foreign:
            return  # in a forked child
        if message.wants_reply and not message._answered:
            responder = self._plain._receiver.responder
            with suppress(BusError):  # this process may have left the caller's bus
                _answer(self._thread, responder, message, None, why)

    def deregister(self, *, final: bool = False) -> None:
        """Deregister from the bus; as `bus.Task.deregister`. Does not wait.

        The handler ends the commands that it handles.
        """
        self._plain.deregister(final=final)


def _why_unread(busy: Sized, concurrency: int | None) -> str:
    # No method: the receiver, which calls this, may outlive the event loop.
    if concurrency is None:
        return (
            "no coroutine receives its commands: await its receive(), or register it"
            " with a handler"
        )
    if len(busy) < concurrency:
        return ""  # the handler is about to take one
    return (
        f"its handler handles {concurrency} of its commands, and has not returned;"
        " raise concurrency=, or shorten it"
    )


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
