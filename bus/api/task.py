"""`Task`: the public object of a registered task, the smallest client of a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.address import Address
from bus.api.arguments import (
    UNSET,
    Unset,
    addressees,
    answer_timeout,
    check_callback,
    check_instance,
    check_optional_callback,
    deadline_after,
    new_account_limits,
    wrong_type,
)
from bus.api.awaited import AwaitedAnswer, AwaitedSignal
from bus.api.questions import Question
from bus.api.reentry import MAIN, enter, guarded
from bus.api.subscription import Subscription, Watch
from bus.api.unanswered import why_unread
from bus.errors import (
    BusFullError,
    CommandTimeoutError,
    UnknownTaskError,
)
from bus.links.send_batch import PAYLOAD_MAX
from bus.message import Incoming, Kind, Response
from bus.payload import freeze_within, own_copy
from bus.threads.account import Account, Overflow
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.api.bus_thread import BusThread
    from bus.api.receiver import Receiver
    from bus.api.task_owner import TaskOwner
    from bus.core.local.routing_table import Entry
    from bus.links.send_batch import SendBatch
    from bus.message import Presence
    from bus.specification import Specification
    from bus.threads.exchange import Exchange

__all__ = ["CommandHandle", "Task", "Where"]

Where = str | Address


class CommandHandle(Struct, frozen=True):
    """A command that was sent."""

    _receiver: Receiver | None
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
            assert self._receiver is not None
            question = self._receiver.questions.close(number)
            if question is not None:
                waited = True
                if question.message is not None:
                    question.message._deadline = 0.0
        return waited


_UNASKED: Final = CommandHandle(None, ())  # the sender requested no answer
_COMMAND: Final = Kind.COMMAND
_LATE_S: Final = 1.0  # maximum wait for an answer that another thread is handing over
_SEND: Final = "send a command"  # see `enter`
_SEND_BATCHES_MAX: Final = 64  # addressees for which a task keeps a send batch


class Task:
    """A registered task, which sends messages and receives them in its callbacks.

    `Bus.register` creates it. Any thread may call the methods. Callbacks run one at a
    time, in the thread that hosts the task. Sending returns at once, wherever the
    addressee is and even if it is busy (BUS-MSG-10).
    """

    __slots__ = ("_bus", "_entry", "_exchange", "_receiver", "_send_batches", "_tracer")

    def __init__(self, bus: TaskOwner, entry: Entry, receiver: Receiver) -> None:
        self._bus: Final = bus
        self._entry: Final = entry
        self._exchange: Final[Exchange] = bus._exchange
        self._receiver: Final = receiver
        # Before the first question: it may time out before the thread opens the task.
        receiver.entry = entry
        # By addressee. A send batch ends by itself when the task sends in another way.
        self._send_batches: dict[str, SendBatch] = {}
        # Creates the trace of each message; None if no journal records them.
        self._tracer: Final = self._exchange.tracer(entry)

    def __repr__(self) -> str:
        left = self._receiver.leaving or self._entry.host is None
        state = " deregistered" if left else ""
        return f"<Task {self._entry.address}{state}>"

    @property
    def address(self) -> Address:
        """The full address: name, machine and bus."""
        return self._entry.address

    @property
    def thread(self) -> BusThread:
        """The thread that hosts the task.

        Raises:
            UnknownTaskError: the task is deregistered.
        """
        thread = self._bus._thread_of(self._check())
        if thread is None:  # the thread has just ended
            raise UnknownTaskError(self._entry.name)
        return thread

    # Receiving.

    @guarded("set a callback")
    def on_command(
        self, callback: Callable[[Incoming], Any], *, ref: object = None
    ) -> None:
        """Set the callback for all further commands (BUS-MSG-3).

        The return value of the callback is the answer. A callback that answers later
        returns `NOREPLY`.

        ref: passed to the callback as ``message.reference``.
        """
        check_callback("callback", callback)
        self._check()
        receiver = self._receiver
        self._exchange.at_home(
            self._entry, lambda: receiver.set_callback(callback, ref)
        )

    @guarded("receive")
    def receive(self, timeout: float | None = None) -> Incoming:
        """Wait for a command and return it; for tasks without a command callback.

        Only the thread that hosts the task may call this. It serves its other tasks
        while it waits.

        Raises:
            CommandTimeoutError: no command arrived in time.
            RuntimeError: called in another thread or within a callback, or the task
              has a command callback.
            UnknownTaskError: the task is deregistered, or its thread is stopped.
        """
        deadline = deadline_after(timeout)
        name = self._entry.name
        self._check()
        thread, found = self.thread, list[Incoming]()
        thread._check_mine(f"receive for {name!r}")
        if self._receiver.has_callback:
            msg = f"cannot receive for {name!r}: its commands go to a callback"
            raise RuntimeError(msg)

        def claimed() -> bool:
            self._check()
            message = self._receiver.claim()
            if message is not None:
                found.append(message)
            return bool(found)

        if not thread._serve_until(claimed, deadline):
            assert timeout is not None
            raise CommandTimeoutError("anybody", timeout)
        return found[0]

    # Sending.

    def command(
        self,
        to: Where | Sequence[Where],
        payload: Any = None,
        # Pass these by keyword. A `*` would enforce that, but CPython looks up the
        # default of a keyword-only parameter in a dict at each call.
        bus: str | None = None,
        on_response: Callable[[Response], object] | None = None,
        ref: object = None,
        timeout: float | Unset | None = UNSET,
    ) -> CommandHandle:
        """Send a command to one task, or the same to several (BUS-MSG-2, BUS-MSG-8).

        bus: the bus of the addressee; None for the bus of this task.
        on_response: called once for each addressee, with its answer or an error.
        ref: passed to ``on_response`` as `Response.reference`.
        timeout: the seconds until the command expires and the wait for an answer ends;
          None for no limit. The default is `BusConfig.command_timeout_s`.

        Raises:
            BusFullError: an addressee has no room; all others got the command. With
              several addressees, ``on_response`` gets this error instead, if set.
            PayloadError, MessageTooLargeError: the payload is refused; nothing is sent.
            NotJoinedError: this process has not joined that bus.
            UnknownTaskError: this task is deregistered.
        """
        try:
            send_batch = self._send_batches[to]  # type: ignore[index]  # a sequence is never a key
        except (KeyError, TypeError):
            pass
        else:
            if (
                type(payload) is bytes
                and timeout is UNSET
                and bus is None
                and on_response is None
                and send_batch.thread == _sync.get_ident()
            ):
                # Inlined from `SendBatch`, which explains it: a method call would add a
                # sixth to the cost of this path.
                payloads = send_batch.payloads
                if (
                    len(payloads) < send_batch.room
                    and len(payload) <= send_batch.length
                    # Its name may be another's by now.
                    and send_batch.to.table is not None
                    and send_batch.source.order is send_batch.order
                ):
                    payloads.append(payload)
                    if send_batch.steady or self._confirm(send_batch):
                        return _UNASKED
                elif self._add(send_batch, payload):
                    return _UNASKED
        outer = enter(_SEND)
        try:
            if on_response is None and type(to) is str:
                return self._command_one(to, payload, bus, timeout)
            check_optional_callback("on_response", on_response)
            names = addressees(to)
            timeout = answer_timeout(self._bus._config, timeout)
            deadline = deadline_after(timeout)
            self._check()
            return self._command(
                names, payload, bus, on_response, ref, timeout, deadline, None
            )
        finally:
            if outer is False:
                MAIN.inside = False

    def _command_one(
        self, to: str, payload: Any, bus: str | None, timeout: float | Unset | None
    ) -> CommandHandle:
        """Send a command without an answer to one task: the fast case of `_command`."""
        there, name, config = self._bus, to, self._bus._config
        usual = timeout is UNSET
        deadline = deadline_after(answer_timeout(config, timeout))
        self._check()
        entry = self._exchange.find(to) if bus is None else None
        if entry is None:
            name, there = there._route(to, bus)
        elif entry.remote and usual and self._tracer is None:
            lasts_s = None if deadline is None else config.command_timeout_s
            if self._send_batch(to, entry, payload, lasts_s):
                return _UNASKED
        frozen, size = freeze_within(payload, config.message_bytes_max, config.encoders)
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
            message._trace = self._tracer.command(size)
        there._exchange.send(message)
        return _UNASKED

    @staticmethod
    def _add(send_batch: SendBatch, payload: bytes) -> bool:
        outer = enter(_SEND)
        try:
            return send_batch.add(payload)
        finally:
            if outer is False:
                MAIN.inside = False

    @staticmethod
    def _confirm(send_batch: SendBatch) -> bool:
        try:
            outer = enter(_SEND)
        except RuntimeError:
            if send_batch.withdraw():
                raise
            return True
        try:
            return send_batch.confirm()
        finally:
            if outer is False:
                MAIN.inside = False

    def _send_batch(
        self, to: str, entry: Entry, payload: Any, timeout_s: float | None
    ) -> bool:
        """Begin a send batch to a task of another process; return True on success.

        If this returns False, the caller sends the command alone, behind the earlier
        ones.
        """
        self._send_batches.pop(to, None)
        if type(payload) is not bytes or len(payload) > PAYLOAD_MAX:
            return False
        host = entry.host
        if host is None:
            return False
        send_batch: SendBatch = host.begin_send_batch(
            entry, self._entry, timeout_s, self._exchange.waits_s
        )
        # Checked after the batch exists: if this task deregisters just now, its
        # `Entry.order` changes, and a batch with the new order would look valid.
        if self._entry.host is None or not send_batch.add(payload):
            return False
        if len(self._send_batches) >= _SEND_BATCHES_MAX:
            self._send_batches = {}
        # Another thread may have begun a batch just now. Their order is unknown, so
        # neither is kept.
        if self._send_batches.setdefault(to, send_batch) is not send_batch:
            self._send_batches.pop(to, None)
        return True

    def _command(
        self,
        to: Sequence[Where],
        payload: Any,
        bus: str | None,
        on_response: Callable[[Response], object] | None,
        ref: object,
        timeout: float | None,
        deadline: float | None,
        gone: Callable[[], object] | None,
        *,
        direct: bool = False,
    ) -> CommandHandle:
        # Every check, for every addressee, comes before the first send.
        routes = [(str(where), *self._bus._route(where, bus)) for where in to]
        config = self._bus._config
        frozen, size = freeze_within(payload, config.message_bytes_max, config.encoders)
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
                message._trace = self._tracer.command(size)
            if on_response is not None:
                message._id = self._ask(
                    Question(
                        text,
                        there.name,
                        on_response,
                        ref,
                        timeout,
                        deadline,
                        message,
                        gone,
                        direct,
                    )
                )
                numbers.append(message._id)
            try:
                there._exchange.send(message)
            except BusFullError as error:
                if len(routes) > 1 and on_response is not None:
                    self._receiver.on_undeliverable(message, error)
                    continue
                self._receiver.questions.close(message._id)
                refused = error
        if numbers and deadline is not None:
            self._arm(deadline)
        if refused is not None:
            raise refused
        return CommandHandle(self._receiver, tuple(numbers))

    @guarded("call")
    def call(
        self,
        to: Where,
        payload: Any = None,
        *,
        bus: str | None = None,
        timeout: float | Unset | None = UNSET,
    ) -> Any:
        """Send a command and wait for the answer; not within a callback (BUS-MSG-11).

        In the thread that hosts the task, the call serves the other tasks of that
        thread while it waits.

        Raises:
            RuntimeError: called within a callback; its thread may be the one that must
              deliver the answer.
            UnknownTaskError: this task is deregistered, before the call or during it.
            BusError: the command failed.
        """
        if not isinstance(to, (str, Address)):
            raise wrong_type("to", "a name or an Address", to)
        timeout = answer_timeout(self._bus._config, timeout)
        deadline = deadline_after(timeout)
        host = self._check()
        if self._bus._in_callback():
            msg = (
                f"cannot call {str(to)!r} within a callback, whose thread may have to"
                " answer: use command(on_response=)"
            )
            raise RuntimeError(msg)
        thread = self._bus._thread_of(host)
        if thread is None:  # the thread has just ended
            raise UnknownTaskError(self._entry.name)
        awaited = AwaitedAnswer(self._entry, host)
        heard = (
            awaited.on_response
        )  # one bound method: `close_for` compares by identity
        try:
            awaited.begin()
            handle = self._command(
                *((to,), payload, bus, heard, None, timeout, deadline, awaited.wake_up),
                direct=not awaited.drives,
            )
            if awaited.parker is None:
                thread._serve_until(awaited.over, None)
            else:
                self._await(awaited, handle, deadline)
            if awaited.response is None:
                handle._cancel()
        except BaseException:
            awaited.give_up()
            # An interrupt may precede the assignment of the handle, so the question is
            # looked up by its callback.
            for question in self._receiver.questions.close_for(heard):
                if question.message is not None:
                    question.message._deadline = 0.0  # as in `CommandHandle.cancel`
            raise
        response = awaited.response
        if response is None:
            self._bus._check()  # a closed bus is the more precise error
            raise UnknownTaskError(self._entry.name)
        if response.error is not None:
            raise response.error
        return response.payload

    def _await(
        self, awaited: AwaitedAnswer, handle: CommandHandle, deadline: float | None
    ) -> None:
        """Sleep until the call is over, in a thread that does not host the task.

        Raises:
            BusError: the call timed out.
        """
        assert awaited.parker is not None
        question = self._receiver.questions.get(handle._numbers[0])
        if _sync.park(awaited.parker, awaited.over, deadline) or awaited.over():
            return
        # This thread checks the deadline itself: the thread of the task may be busy.
        if not handle._cancel():
            # Another thread has just closed the question, and hands over the outcome
            # next, unless it is interrupted.
            soon = _sync.monotonic() + _LATE_S
            if _sync.park(awaited.parker, awaited.over, soon) or awaited.over():
                return
        assert question is not None
        error = question.timeout_error()
        assert error is not None
        if isinstance(error, CommandTimeoutError) and not error.why:
            why = why_unread(self._entry)
            raise CommandTimeoutError(error.name, error.timeout_s, why)
        raise error

    def respond(
        self, message: Incoming, payload: Any = None, *, error: str | None = None
    ) -> None:
        """Answer a message that this task has received; see `Incoming.respond`."""
        check_instance("message", message, Incoming)
        if message._to is not self._entry:
            msg = f"cannot respond: {self._entry.name!r} did not receive that message"
            raise ValueError(msg)
        self._receiver.respond(message, payload, error=error)

    @guarded("notify")
    def notify(
        self,
        payload: Any = None,
        *,
        on_response: Callable[[Response], object] | None = None,
        ref: object = None,
        timeout: float | None = None,
    ) -> None:
        """Send a notification to all subscribers of this task (BUS-MSG-4).

        on_response: called for each answer that arrives within ``timeout`` seconds, and
          then once more, as ``final``, with the number of answers (BUS-MSG-9).
        ref: passed to ``on_response`` as `Response.reference`.
        timeout: the seconds to wait for answers; required with ``on_response``.

        The notification goes to the subscribers that this process knows now. If there
        are none, it is dropped and `TaskInfo.unheard` counts it. A subscriber that must
        not miss the first notification subscribes with ``wait=True`` and then signals.

        Raises:
            BusFullError: a subscriber has no room, and its policy reports that to the
              notifier; all others got the notification.
            ValueError: ``on_response`` without ``timeout``.
            PayloadError, MessageTooLargeError, UnknownTaskError: as for `command`.
        """
        check_optional_callback("on_response", on_response)
        deadline = deadline_after(timeout)
        if on_response is not None and timeout is None:
            msg = "notify requires a timeout if answers are wanted"
            raise ValueError(msg)
        self._check()
        config = self._bus._config
        frozen, size = freeze_within(payload, config.message_bytes_max, config.encoders)
        number = 0
        if on_response is not None:
            number = self._ask(
                Question(None, self._bus.name, on_response, ref, timeout, deadline)
            )
            if deadline is not None:
                self._arm(deadline)
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
            if self._tracer is not None:
                message._trace = self._tracer.notification(size)
            try:
                self._exchange.post(message)
            except BusFullError as error:
                if message._account.overflow != "disconnect":
                    refused = error
        if (comm := self._exchange.comm) is not None:
            message = Incoming(
                kind=Kind.NOTIFICATION,
                payload=frozen,
                # If a local task got it, the comm thread must not count it as unheard.
                subscriptions=audience[0].subscriptions if audience else (),
                wants_reply=on_response is not None,
                _source=self._entry,
                _id=number,
                _to=comm.audience,
                _account=comm.account,
                _size=size,
            )
            if self._tracer is not None:
                message._trace = self._tracer.remote_notification(size)
            self._exchange.post(message)
        elif not audience:
            self._exchange.count_unheard(self._entry)
        if refused is not None:
            raise refused

    # Subscribing and watching.

    @guarded("subscribe")
    def subscribe(
        self,
        to: Where | Specification,
        callback: Callable[[Incoming], object],
        *,
        bus: str | None = None,
        ref: object = None,
        overflow: Overflow = "drop-oldest",
        capacity: int | None = None,
        wait: bool = False,
        timeout: float | Unset | None = UNSET,
    ) -> Subscription:
        """Subscribe to the notifications of a task, or a pattern (BUS-MSG-5, AMO-26).

        The subscription includes matching tasks that register later, and those that
        deregister and return. A task gets each notification once. If several of its
        subscriptions match, only the callback of the oldest is called;
        ``message.subscriptions`` holds all of them.

        bus: the bus of the notifiers; None for the bus of this task.
        ref: passed to the callback as ``message.reference``.
        overflow: the policy for a notification that arrives while ``capacity`` are
          unread (BUS-FLOW-6). The default bound is `BusConfig.task_fifo_messages`. If
          the policy ``disconnect`` cuts the subscriber off, `Subscription.active`
          becomes False.
        wait: return only when every process on the bus has confirmed the subscription;
          not within a callback. The subscriber gets each notification that a task of
          these processes sends from then on. Without ``wait`` it may miss notifications
          that a task of another process sends just after this call. No gap counts them,
          since that process has not received the subscription yet.
        timeout: the seconds to wait; `BusConfig.command_timeout_s` by default, None for
          no limit. If another process is stopped, the call waits for it.

        Raises:
            NotJoinedError, UnknownTaskError: as for `command`.
            CommandTimeoutError: a process has not confirmed the subscription in time;
              the subscription is cancelled.
            RuntimeError: ``wait`` within a callback; its thread may have to answer.
        """
        check_callback("callback", callback)
        timeout = answer_timeout(self._bus._config, timeout)
        deadline = deadline_after(timeout)
        if wait and self._bus._in_callback():
            msg = "cannot wait within a callback: subscribe without wait=True there"
            raise RuntimeError(msg)
        limits = new_account_limits(self._bus._config, overflow, capacity)
        self._check()
        specification, there = self._bus._specification(to, bus)
        subscription = Subscription(
            there._exchange,
            self._entry,
            specification,
            callback,
            ref,
            Account(**limits),
        )
        subscription._start()
        if wait:
            self._await_known(subscription, timeout, deadline)
        return subscription

    def _await_known(
        self,
        subscription: Subscription,
        timeout: float | None,
        deadline: float | None,
    ) -> None:
        """Wait until all processes have confirmed a subscription (BUS-MSG-18)."""
        try:
            host = self._check()
            thread = self._bus._thread_of(host)
            if thread is None:  # the thread has just ended
                raise UnknownTaskError(self._entry.name)
            awaited = AwaitedSignal(self._entry, host)
            subscription.then = awaited.wake_up  # on cancel, or if the task deregisters
            exchange, say = subscription._exchange, awaited.signal
            exchange.decide(lambda: exchange.manager.confirm(subscription, say))

            def over() -> bool:
                return awaited.over() or not subscription.active

            if awaited.parker is None:
                thread._serve_until(over, deadline)
            else:
                _sync.park(awaited.parker, over, deadline)
            subscription.then = None
            if not (awaited.signalled or awaited.over()) and subscription.active:
                assert timeout is not None
                raise CommandTimeoutError(str(subscription.specification), timeout)
            if not awaited.signalled:
                self._bus._check()  # a closed bus is the more precise error
                if awaited.over():
                    raise UnknownTaskError(self._entry.name)
        except BaseException:
            subscription.cancel()
            raise

    @guarded("watch")
    def watch(
        self,
        to: Where | Specification,
        callback: Callable[[Presence], object],
        *,
        bus: str | None = None,
        ref: object = None,
    ) -> Watch:
        """Watch which of the named tasks are registered; report each change.

        callback: called for each matching task that is registered now, and whenever
          one registers or deregisters.
        bus: the bus of the watched tasks; None for the bus of this task.
        ref: passed to the callback as `Presence.reference`.

        Raises:
            NotJoinedError, UnknownTaskError: as for `command`.
        """
        check_callback("callback", callback)
        self._check()
        specification, there = self._bus._specification(to, bus)
        watch = Watch(there._exchange, self._entry, specification, callback, ref)
        watch._start()
        return watch

    # Moving and deregistering.

    @guarded("move a task")
    def move(self, thread: BusThread) -> None:
        """Move to another thread of this process, after the current callback.

        Unread messages move too, in order (BUS-MOVE-2).
        """
        self._check()
        self._bus._check_own(thread)
        thread._check_takes_tasks()
        self._exchange.move(self._entry, thread._manager)

    @guarded("deregister a task")
    def deregister(self, *, final: bool = False) -> None:
        """Deregister from the bus; the task cannot be used afterwards.

        Its unread commands wait for the next task that registers the name. If
        ``final``, they fail at once (BUS-DEREG-8). Does nothing if the task is
        deregistered.
        """
        self._bus._check_process()
        # Set here, since the thread that removes the task may be busy for a while.
        self._receiver.leaving = True
        self._entry.order = object()  # ends the task's send batches: sends raise now
        self._exchange.deregister(self._entry, final=final)

    def _check(self) -> Any:
        """Return the thread manager that hosts the task.

        Raises:
            WrongProcessError: this process inherited the bus by a fork.
            BusError: the task is deregistered, or may not have its name.
        """
        if self._bus._foreign:
            self._bus._check_process()
        host = self._entry.host
        if host is None or self._receiver.leaving:
            raise self._receiver.error or UnknownTaskError(self._entry.name)
        return host

    def _ask(self, question: Question) -> int:
        number = self._receiver.questions.ask(question)
        if number is None:
            raise UnknownTaskError(self._entry.name)
        return number

    def _arm(self, deadline: float) -> None:
        """Arm a timer for the questions, in the thread that hosts the task."""
        host, receiver = self._entry.host, self._receiver
        if receiver.armed_before(deadline):
            return
        if host is not None and host.is_owner():
            receiver.arm(host)
        else:
            self._exchange.at_home(self._entry, lambda: receiver.arm(self._entry.host))
