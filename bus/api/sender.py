"""`Sender`: the sending half of a task, in any thread.

It sends commands, to one task or to several, and notifications. Commands to a task of
another process join a send batch if they can.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.api.arguments import (
    UNSET,
    answer_timeout,
    check_addressee,
    check_optional_callback,
    deadline_after,
)
from bus.api.questions import Call, Question, Questions, why_unread
from bus.api.reentry import MAIN, enter, guarded
from bus.errors import (
    BusError,
    BusFullError,
    CommandTimeoutError,
    UnknownTaskError,
)
from bus.model.address import SYSTEM, Address
from bus.model.message import Incoming, Kind
from bus.model.payload import freeze_within, own_copy
from bus.process.send_batch import PAYLOAD_MAX
from queuebroker import _sync
from queuebroker.closable import Uncopyable
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.api.arguments import Unset
    from bus.api.lifetime import Lifetime
    from bus.api.questions import Asker
    from bus.api.receiver import Receiver
    from bus.api.task_owner import TaskOwner
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.trace import Tracer
    from bus.model.config import BusConfig
    from bus.model.message import Response
    from bus.process.exchange import Exchange
    from bus.process.router import Router
    from bus.process.send_batch import SendBatch

__all__ = [
    "NOTIFY",
    "NO_QUESTION",
    "SEND",
    "CommandHandle",
    "Sender",
    "explained",
    "with_cause",
]


class CommandHandle(Uncopyable, Struct, frozen=True):
    """A command that was sent, and its questions: one for each addressee, or none."""

    _questions: Questions | None
    _numbers: tuple[int, ...]

    @guarded("cancel a command")
    def cancel(self) -> bool:
        """Stop waiting for an answer; return whether one was still pending.

        If an addressee has not read the command yet, it does not receive it.
        """
        return self._cancel()

    def _cancel(self) -> bool:
        waited = False
        for number in self._numbers:
            assert self._questions is not None
            question = self._questions.get(number)
            if question is not None:
                waited = self._questions.cancel(question) or waited
        return waited


NO_QUESTION: Final = CommandHandle(None, ())  # the sender requested no answer


SEND: Final = "send a command"  # see `enter`
NOTIFY: Final = "notify"

_COMMAND: Final = Kind.COMMAND
_WHY_S: Final = 0.2  # maximum wait for the cause of a timeout
_SEND_BATCHES_MAX: Final = 64  # addressees for which a task keeps a send batch


class Sender:
    """The sender of all commands and notifications of a task.

    Attributes:
        bus: the bus of the task.
        asker: the asker of the task, for commands that are to be answered.
        send_batches: the send batches, by addressee. A send batch ends by itself when
            the task sends in another way.
        notifications: the send batch of notifications to other processes. It and a send
            batch of commands end each other, since one process may get both.
    """

    __slots__ = (
        "_config",
        "_encoders",
        "_entry",
        "_exchange",
        "_lifetime",
        "_limit",
        "_receiver",
        "_router",
        "_timeout_s",
        "_tracer",
        "asker",
        "bus",
        "notifications",
        "send_batches",
    )

    def __init__(self, bus: TaskOwner, entry: Entry, receiver: Receiver) -> None:
        self.bus: Final = bus
        self._config: Final[BusConfig] = bus._config
        # Used for each message, so looked up once.
        self._limit: Final = self._config.message_bytes_max
        self._encoders: Final = self._config.encoders
        self._entry: Final = entry
        self._exchange: Final[Exchange] = bus._exchange
        self._lifetime: Final[Lifetime] = bus._lifetime
        self._router: Final[Router] = bus._router
        self._receiver: Final = receiver
        self.asker: Final[Asker] = receiver.asker
        # Creates the trace of each message; None if no journal records them.
        self._tracer: Final[Tracer | None] = bus._exchange.tracer(entry)
        self.send_batches: Final[dict[str, SendBatch]] = {}
        self.notifications: SendBatch | None = None
        # The usual time to wait for an answer; None for no limit.
        usual_s = self._config.command_timeout_s
        self._timeout_s: Final = None if deadline_after(usual_s) is None else usual_s

    def require_host(self) -> Any:
        """Return the thread manager that hosts the task.

        Raises:
            WrongProcessError: this process inherited the bus by a fork.
            BusError: the task is deregistered, or may not have its name.
        """
        if self._lifetime.foreign:
            self._lifetime.check_process()
        host = self._entry.host
        if host is None or self._receiver.leaving:
            raise self._receiver.error or UnknownTaskError(self._entry.name)
        return host

    def _is_leaving(self) -> bool:
        return self._entry.host is None or self._receiver.leaving

    # Commands.

    def command_one(
        self, to: str, payload: Any, bus: str | None, timeout: float | Unset | None
    ) -> CommandHandle:
        """Send a command without an answer to one task: the fast case of `command`."""
        there, name, config = self.bus, to, self._config
        usual = timeout is UNSET
        deadline = deadline_after(answer_timeout(config, timeout))
        self.require_host()
        entry = self._exchange.find(to) if bus is None else None
        if entry is None:
            name, there = there._route(to, bus)
        elif entry.remote and usual and self._tracer is None:
            lasts_s = None if deadline is None else config.command_timeout_s
            if self._begin_send_batch(to, entry, payload, lasts_s):
                return NO_QUESTION
        frozen, size, encoded = freeze_within(payload, self._limit, self._encoders)
        message = Incoming(
            kind=_COMMAND,
            payload=frozen,
            _source=self._entry,
            _id=0,
            _name=name,
            _size=size,
            _deadline=deadline,
        )
        if self._tracer is not None:
            traced = self._tracer.payload(frozen, encoded, name)
            message._trace = self._tracer.command(size, traced)
        there._router.send(message)
        return NO_QUESTION

    def _begin_send_batch(
        self, to: str, entry: Entry, payload: Any, timeout_s: float | None
    ) -> bool:
        """Begin a send batch to a task of another process; return True on success.

        If this returns False, the caller sends the command alone, behind the earlier
        ones.
        """
        self.send_batches.pop(to, None)
        if self.notifications is not None:
            self.notifications = None
            self._entry.order = object()
        if type(payload) is not bytes or len(payload) > PAYLOAD_MAX:
            return False
        host = entry.host
        if host is None:
            return False
        send_batch: SendBatch = host.begin_send_batch(
            entry, self._entry, timeout_s, self._router.waits_s
        )
        # Checked after the batch exists: if this task deregisters just now, its
        # `Entry.order` changes, and a batch with the new order would look valid.
        if self._is_leaving() or not send_batch.add(payload):
            return False
        if len(self.send_batches) >= _SEND_BATCHES_MAX:
            self.send_batches.clear()
        # Another thread may have begun a batch just now. Their order is unknown, so
        # neither is kept.
        kept = self.send_batches.setdefault(to, send_batch) is send_batch
        if not kept or self.notifications is not None:
            self.send_batches.pop(to, None)
        return True

    # Called by the inlined path of `Task.command`, too; static, to spare it a look-up.

    @staticmethod
    def add_to_batch(send_batch: SendBatch, payload: bytes) -> bool:
        """Send one more command of a batch; see `SendBatch.add`."""
        outer = enter(SEND)
        try:
            return send_batch.add(payload)
        finally:
            if outer is False:
                MAIN.inside = False

    @staticmethod
    def confirm_batch(send_batch: SendBatch) -> bool:
        """Confirm a command that was appended to a batch; see `SendBatch.confirm`."""
        try:
            outer = enter(SEND)
        except RuntimeError:
            if send_batch.withdraw():
                raise
            return True
        try:
            return send_batch.confirm()
        finally:
            if outer is False:
                MAIN.inside = False

    def command(
        self,
        to: Sequence[str | Address],
        payload: Any,
        bus: str | None,
        on_response: Callable[[Response], object] | None,
        ref: object,
        timeout: float | None,
        deadline: float | None,
    ) -> CommandHandle:
        """Send a command to several tasks, or to one that is to answer."""
        # Every check, for every addressee, comes before the first send.
        routes = [(str(where), *self.bus._route(where, bus)) for where in to]
        frozen, size, encoded = freeze_within(payload, self._limit, self._encoders)
        traced = None
        if self._tracer is not None:
            names = [name for _, name, _ in routes]
            traced = self._tracer.payload(frozen, encoded, *names)
        numbers: list[int] = []
        refused: BusFullError | None = None
        to_come = len(routes)
        for text, name, there in routes:
            to_come -= 1
            message = Incoming(
                kind=Kind.COMMAND,
                # The last receiver gets the original and the others get copies. The
                # first might change the original in its thread meanwhile.
                payload=own_copy(frozen) if to_come else frozen,
                wants_reply=on_response is not None,
                _source=self._entry,
                _id=0,
                _name=name,
                _size=size,
                _deadline=deadline,
            )
            if self._tracer is not None:
                message._trace = self._tracer.command(size, traced)
            if on_response is not None:
                question = Question(
                    text, timeout, deadline, there.name, on_response, ref, message
                )
                numbers.append(self.asker.ask(question))
            try:
                there._router.send(message)
            except BusFullError as error:
                if len(routes) > 1 and on_response is not None:
                    self._receiver.on_undeliverable(message, error)
                    continue
                self.asker.questions.close(message._id)
                refused = error
        if numbers and deadline is not None:
            self.asker.arm(deadline)
        if refused is not None:
            raise refused
        return CommandHandle(self.asker.questions, tuple(numbers))

    def call(
        self,
        to: str | Address,
        payload: Any,
        bus: str | None,
        timeout: float | Unset | None,
        *,
        asks_why: bool = True,
    ) -> Any:
        """Send a command, wait, and return the payload of the answer.

        bus, timeout: as of `bus.api.task.Task.call`.
        asks_why: True to request the cause of a timeout from the addressee's process.

        Raises:
            UnknownTaskError: the task deregisters meanwhile.
            BusError: the command failed.
        """
        call, message, router, encoded = self.new_call(to, payload, bus, timeout, None)
        host = call.host
        questions, error = self.asker.questions, None
        try:
            if host is not None:
                host.waits_next = True  # withdrawn below, if interrupted
            # `Questions.ask`, inlined for each call.
            message._id = number = next(questions.numbers)
            questions.open[number] = call
            if questions.closed:
                raise UnknownTaskError(self._entry.name)
            if message._to is None or not router.post(message, encoded):
                router.send(message)
            if host is not None and call.entry.host is host:
                # The usual wait: the first step of `Call.serve`, inlined.
                host.thread._poll(call.deadline)
            if call.outcome is None:
                error = call.park(questions) if host is None else call.serve(self.asker)
                if call.outcome is None:
                    questions.cancel(call)
        except BaseException:
            if host is not None and host.is_owner():
                host.return_lease()
            questions.cancel(call)
            raise
        response = call.outcome
        if response is not None and response.error is None:
            return response.payload
        error = self.failure(call, error)
        if asks_why:
            here = host is None or self._entry.host is not host
            error, inspector, wait_s = explained(error, self._entry, call, here=here)
            if inspector is not None:
                with suppress(BusError):  # the first error is the one to report
                    why = self.call(
                        inspector, call.inspector_payload(), bus, wait_s, asks_why=False
                    )
                    error = with_cause(error, why)
        raise error

    def new_call(
        self,
        to: str | Address,
        payload: Any,
        bus: str | None,
        timeout: float | Unset | None,
        waiter: Any,
    ) -> tuple[Call, Incoming, Router, bytes | None]:
        """Return a call that is not sent yet, with its message, router and encoding.

        waiter: the parker of a coroutine; None for a call that this thread waits for.
        """
        own = self._entry
        host = own.host
        # `require_host`, inlined for each call.
        if host is None or self._receiver.leaving or self._lifetime.foreign:
            host = self.require_host()
        if waiter is not None:
            host = None
        elif host.ident != _sync.get_ident():
            host, waiter = None, taken_lock()
        if timeout is UNSET:
            timeout = self._timeout_s
            deadline = None if timeout is None else _sync.monotonic() + timeout
        else:
            deadline = deadline_after(timeout)
        if (
            bus is None  # as in `_route`, which finds it, too
            and type(to) is str
            and (entry := self._exchange.find(to)) is not None
        ):
            name, router = to, self._router
        else:
            check_addressee(to)
            entry = None
            name, there = self.bus._route(to, bus)
            router = there._router
        frozen, size, encoded = freeze_within(payload, self._limit, self._encoders)
        message = Incoming(
            _COMMAND,
            frozen,
            None,
            own,
            entry,
            None,
            size,
            deadline,
            _name=name,
            wants_reply=True,
        )
        if self._tracer is not None:
            traced = self._tracer.payload(frozen, encoded, name)
            message._trace = self._tracer.command(size, traced)
        call = Call(
            to,
            timeout,
            deadline,
            message=message,
            entry=own,
            host=host,
            parker=waiter,
        )
        return call, message, router, encoded

    def failure(self, call: Call, error: BusError | None) -> BusError:
        """Return the reason why a call that is over has no answer.

        error: the result of its wait.
        """
        if call.outcome is not None:
            error = call.outcome.error
        if error is not None:
            return error
        self.bus._lifetime.check()  # a closed bus is the more precise error
        return UnknownTaskError(self._entry.name)

    # Notifications.

    def notify_bytes(self, payload: bytes) -> bool:
        """Send a notification by the send batch; return False if it must go alone.

        It goes alone if a task of this process subscribes, if a journal records it, if
        this process is alone, if it is long or there is no room, and if another thread
        made the batch.
        """
        batch = self.notifications
        if self._entry.audience:
            return False
        if batch is None or batch.order is not self._entry.order:
            return self._begin_notifications(payload)
        if batch.thread != _sync.get_ident():
            return False
        # As in `Task.command`.
        if len(batch.payloads) < batch.room and len(payload) <= batch.length:
            batch.payloads.append(payload)
            return batch.steady or self.confirm_batch(batch)
        return self.add_to_batch(batch, payload)

    def _begin_notifications(self, payload: bytes) -> bool:
        outer = enter(NOTIFY)
        try:
            self.require_host()
            comm = self._exchange.comm
            if comm is None or self._tracer is not None or len(payload) > PAYLOAD_MAX:
                return False
            batch: SendBatch = comm.audience.host.begin_notifications(self._entry)
            # Checked after the batch exists, as in `_begin_send_batch`.
            if self._is_leaving() or not batch.add(payload):
                return False
            self.notifications = batch
            if self._has_commands(batch.order):
                # Ends this batch, too: another thread may have begun one just now.
                self._entry.order = object()
            return True
        finally:
            if outer is False:
                MAIN.inside = False

    def _has_commands(self, order: object) -> bool:
        """Return True if a batch of commands has that order."""
        # A function of its own, since it loops: see `tests/test_jumps.py`.
        return any(each.order is order for each in [*self.send_batches.values()])

    def notify(
        self,
        payload: Any,
        on_response: Callable[[Response], object] | None,
        ref: object,
        timeout: float | None,
    ) -> None:
        """Send a notification to all subscribers; see `Task.notify`."""
        check_optional_callback("on_response", on_response)
        deadline = None if timeout is None else deadline_after(timeout)
        if on_response is not None and timeout is None:
            raise ValueError("notify requires a timeout with on_response: give seconds")
        self.require_host()
        frozen, size, encoded = freeze_within(payload, self._limit, self._encoders)
        tracer = self._tracer
        traced = None if tracer is None else tracer.payload(frozen, encoded)
        number = 0
        if on_response is not None:
            number = self.asker.ask(
                Question(None, timeout, deadline, self.bus.name, on_response, ref)
            )
            if deadline is not None:
                self.asker.arm(deadline)
        refused: BusFullError | None = None
        audience = self._entry.audience
        for each in audience:
            message = Incoming(
                kind=Kind.NOTIFICATION,
                payload=own_copy(frozen),
                subscriptions=each.subscriptions,
                wants_reply=on_response is not None,
                _source=self._entry,
                _id=number,
                _to=each.entry,
                _account=each.subscriptions[0]._account,
                _size=size,
            )
            if tracer is not None:
                message._trace = tracer.notification(size, traced)
            try:
                self._router.post(message)
            except BusFullError as error:
                if message._account.overflow != "disconnect":
                    refused = error
        if (comm := self._exchange.comm) is not None:
            message = Incoming(
                kind=Kind.NOTIFICATION,
                payload=frozen,
                # If there are none, the comm thread may count it as `no_subscriber`.
                subscriptions=audience[0].subscriptions if audience else (),
                wants_reply=on_response is not None,
                _source=self._entry,
                _id=number,
                _to=comm.audience,
                _account=comm.account,
                _size=size,
            )
            if tracer is not None:
                message._trace = tracer.remote_notification(size, traced)
            self._router.post(message)
        elif not audience:
            self._exchange.count_unheard(self._entry)
        if refused is not None:
            raise refused


def explained(
    error: BusError, sender: Entry, call: Call, *, here: bool
) -> tuple[BusError, Address | None, float]:
    """Return the error of a call; a timeout with its cause, if that is known here.

    Otherwise return the inspector of the addressee's process, too, which knows why its
    task does not answer, and how many seconds to wait for its answer to
    `Call.inspector_payload`.

    here: True if the thread of the calling task may be the cause.
    """
    if not isinstance(error, CommandTimeoutError) or error.why:
        return error, None, 0.0
    if here and (why := why_unread(sender)):
        return with_cause(error, why), None, 0.0
    entry = None if call.message is None else call.message._to
    if entry is None or not entry.remote:
        return error, None, 0.0
    inspector = Address(f"{SYSTEM}/{entry.id.process}", machine=entry.id.machine)
    return error, inspector, min(_WHY_S, error.timeout_s)


def with_cause(error: BusError, why: object) -> BusError:
    """Return a timeout with its cause, as an inspector has answered."""
    # That of an earlier version answers with its whole report.
    if not isinstance(error, CommandTimeoutError) or not isinstance(why, str):
        return error
    return CommandTimeoutError(error.name, error.timeout_s, why)
