"""`Receiver`: the receiving half of a task, in the thread that hosts it.

It runs the callbacks of the task one at a time, and contains their exceptions
(BUS-MSG-12, BUS-MSG-13). Only that thread calls the methods, unless their section says
otherwise.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bus.api.arguments import wrong_type
from bus.api.delivery_failures import DeliveryFailures
from bus.api.questions import Asker, Call
from bus.api.reentry import calls_user, guarded
from bus.api.run_callback import run_callback
from bus.errors import (
    AlreadyAnsweredError,
    ExpiredError,
    NotJoinedError,
    RemoteError,
    UnknownTaskError,
)
from bus.kernel.tasks.actions import Answer
from bus.kernel.tasks.runs import InboundRun
from bus.kernel.trace import dropped_by
from bus.model.error_text import error_text_of, fitting
from bus.model.events import BusReason
from bus.model.message import NOREPLY, Incoming, Kind
from bus.model.payload import freeze_within
from bus.model.snapshot import TaskTotals
from bus.process.verdict import Verdict
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.api.questions import Questions
    from bus.api.task_owner import TaskOwner
    from bus.errors import BusError
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.trace import Trace
    from bus.model.config import BusConfig
    from bus.model.message import Undelivered
    from bus.process.account import Account
    from bus.process.exchange import Exchange
    from bus.process.mailbox import Host, Mailbox
    from bus.process.router import Router
    from bus.process.thread_manager import ThreadManager
    from queuebroker.waiting.parking import Parker

__all__ = ["Receiver", "Responder"]

_NOTHING: Final = TaskTotals()


class Responder:
    """The part of a task that answers; only the thread that hosts the task calls it.

    Args:
        bus: the bus of the task; None if the task asks and answers on that bus alone.

    Attributes:
        unasked: the number of answers that nobody requested (BUS-MSG-7).
    """

    __slots__ = ("_bus", "_encoders", "_limit", "_router", "unasked")

    def __init__(
        self,
        router: Router,
        config: BusConfig,
        bus: TaskOwner | None,
    ) -> None:
        self._router: Final = router
        self._limit: Final = config.message_bytes_max
        self._encoders: Final = config.encoders
        self._bus: Final = bus
        self.unasked: int = 0

    def respond(
        self, message: Incoming, payload: Any = None, *, error: str | None = None
    ) -> None:
        """Answer a message; see `Incoming.respond`."""
        entry: Entry = message._to
        if error is not None and not isinstance(error, str):
            raise wrong_type("error", "a str or None", error)
        if entry.host is None:
            raise UnknownTaskError(entry.name)
        if not message.wants_reply:
            self.unasked += 1
            return
        if message._answered:
            raise AlreadyAnsweredError(entry.name)
        self.answer(message, payload, error)

    def answer(self, message: Incoming, payload: Any, error: str | None) -> None:
        """Answer a message whose answer is still wanted."""
        entry, asker, router = message._to, message._source, self._router
        frozen, size, encoded = freeze_within(payload, self._limit, self._encoders)
        if error is not None:
            error = fitting(error, self._limit)
        if asker.remote:
            if asker.address.bus != entry.address.bus:
                router = self._router_to(str(asker.address.bus))
            comm = router.exchange.comm
            assert comm is not None
            message._answered = True
            try:
                comm.answer(message, frozen, error, encoded)
            except BaseException:
                message._answered = False  # a second answer would be ignored
                raise
            return
        trace: Trace | None = message._trace
        if trace is not None:
            names = entry.name, asker.name
            traced = trace.answer_payload(names, frozen, encoded, error)
            trace = trace.answer(entry.id.number, size, traced)
        answer = Answer(
            _to=asker,
            number=message._id,
            responder=entry.address,
            payload=frozen,
            error=None if error is None else RemoteError(entry.name, error),
            final=message.kind is Kind.COMMAND,
            _trace=trace,
        )
        message._answered = True
        try:
            wanted = router.deliver_answer(answer)
        except BaseException:
            message._answered = False  # as above
            raise
        if not wanted:  # the asker has deregistered
            self.unasked += 1

    def _router_to(self, name: str) -> Router:
        """Return the router of another bus, over which a question came.

        Raises:
            NotJoinedError: this process has left that bus.
        """
        bus = None if self._bus is None else self._bus._others.get(name)
        if bus is None:
            raise NotJoinedError(name)
        return bus._router


class Receiver:
    """The handler of all items in a task's mailbox.

    Attributes:
        entry: the routing entry of the task; set before the first item is handled.
        account: the account of unread commands.
        claimed: the command that `Task.receive` is about to return.
        asker, responder: asks the questions of the task; answers those of others.
        delivery_failures: reports the messages of the task that were not delivered.
        questions: those of the asker. try_deliver_directly: their method.
        interests: its subscriptions and watches, in order of creation.
        leaving: True once the deregistration has begun; the task does nothing then.
        on_leave: returns the state of the task for `Bus.hand_over`; None without one.
        error: the reason for a forced deregistration; None for a requested one.
        failures: the number of callbacks that raised.
        cancelled: the accounts of subscriptions that were cancelled, and may still have
            unread messages; past: the counters of the others. The exchange's lock
            guards both.
        verdict: the master's decision on its name; None if none was requested.
        waiters: the parkers of the coroutines that wait for an unclaimed message.
        dropped: True if the iterator that reads its messages was collected.
        reads_by: returns why a coroutine has not read its commands, for `why_unread`;
          None if no coroutine reads them.
    """

    __slots__ = (
        "_bus",
        "_exchange",
        "_on_command",
        "_openings",
        "_reference",
        "_released",
        "_unclaimed",
        "account",
        "asker",
        "cancelled",
        "claimed",
        "delivery_failures",
        "dropped",
        "entry",
        "error",
        "failures",
        "interests",
        "leaving",
        "on_leave",
        "past",
        "questions",
        "reads_by",
        "responder",
        "try_deliver_directly",
        "verdict",
        "waiters",
    )

    entry: Entry

    def __init__(
        self,
        router: Router,
        config: BusConfig,
        account: Account,
        on_command: Callable[[Incoming], Any] | None,
        reference: Any,
        on_undelivered: Callable[[Undelivered], object] | None,
        bus: TaskOwner | None = None,
    ) -> None:
        self._exchange: Final = router.exchange
        self._on_command = on_command
        self._reference = reference
        self.on_leave: Callable[[], Any] | None = None
        self.account: Final = account
        self.asker: Final[Asker] = Asker(router, self)
        self.questions: Final[Questions] = self.asker.questions
        self.try_deliver_directly: Final = self.questions.try_deliver_directly
        self._bus: Final = bus
        self.responder: Final = Responder(router, config, bus)
        follow = None if bus is None else bus._follow
        self.delivery_failures: Final = DeliveryFailures(
            router, self.questions, on_undelivered, follow
        )
        # An ordered set. Threads add and remove single keys, which is atomic.
        self.interests: Final[dict[Any, None]] = {}
        # Commands that arrived without a callback; the counters show them as unread.
        self._unclaimed: deque[Incoming] | None = None  # created for the first command
        self.claimed: Incoming | None = None
        self._released: bool = True
        # Not a deque, which takes ten times the memory: most tasks are idle.
        self._openings: Final[list[Callable[[], object]]] = []
        self.leaving: bool = False
        self.error: BusError | None = None
        self.failures: int = 0
        self.cancelled: tuple[Account, ...] = ()
        self.past: TaskTotals = _NOTHING
        self.verdict: Verdict | None = None
        # A list from the first wait on: most tasks have none.
        self.waiters: Sequence[Parker] = ()
        self.dropped: bool = False
        self.reads_by: Callable[[], str] | None = None

    # Called in the thread that hosts the task.

    @calls_user
    def handle(self, item: Any) -> None:
        """Run the callback for one item."""
        if type(item) is not Incoming:
            if isinstance(item, Answer):
                self.asker.on_answer(item)
            else:
                item.deliver(self)
            return
        if item.subscriptions:  # a notification has at least one
            self._notification(item)
            return
        callback = self._on_command
        if callback is None:
            self._keep(item)
            return
        host: ThreadManager = item._to.host
        if not self._extract(item, host):
            if item._dropped:
                self._skip(item)
            return
        item.reference = self._reference
        if item._trace is not None:
            item._trace.record_delivered()
        try:
            answer = callback(item)
            if answer is NOREPLY or item._answered or not item.wants_reply:
                return
            host.waits_next = True
            try:
                self.responder.answer(item, answer, None)
            finally:
                host.waits_next = False  # the next callback may come before it waits
        except Exception as error:  # noqa: BLE001 # contained (BUS-MSG-13)
            self.on_exception(callback)
            if item.wants_reply and not item._answered:
                self.responder.respond(item, error=error_text_of(error))

    def reads(self, run: InboundRun) -> tuple[Callable[[Incoming], Any], Any] | None:
        """Return the callback for a run, and its reference; None if there is none."""
        if not run.subscriptions:
            callback = self._on_command
            return None if callback is None else (callback, self._reference)
        alive = _alive(run.subscriptions)
        if not alive or alive[0]._callback is None:
            return None
        run.subscriptions = alive
        return alive[0]._callback, alive[0].reference

    def on_run_begun(self, run: InboundRun) -> None:
        """Note that the task starts to read a run."""
        if (comm := self._exchange.comm) is not None:
            comm.on_run_progress(run)

    def on_run_read(self, run: InboundRun) -> None:
        """Note that the task has read a part of the run."""
        host: ThreadManager = self.entry.host
        if host.inbox.room.asleep:
            host.inbox.wake_senders()
        if (comm := self._exchange.comm) is not None:
            comm.on_run_progress(run)

    def on_exception(self, callback: object) -> None:
        """Record the exception of a callback; called in the exception handler."""
        self.failures += 1
        # Not the repr of a function, which contains its memory address.
        name = getattr(callback, "__qualname__", None) or repr(callback)
        self._exchange.failures.log(name, f"task {self.entry.name!r}")

    def set_callback(self, callback: Callable[[Incoming], Any], reference: Any) -> None:
        """Set the command callback; the unclaimed commands go to it first.

        They return to the front of the mailbox, so that each is read in its own turn.
        """
        self._on_command, self._reference = callback, reference
        if self.claimed is not None:  # of an interrupted `Task.receive`; none follows
            self.on_interrupted(self.claimed, KeyboardInterrupt())
            self.claimed = None
        mailbox: Mailbox = self.entry.mailbox
        if self._unclaimed:
            items = deque([*self._unclaimed, *(mailbox.items or ())])
            # No call between these lines: an interrupt finds both changes or none.
            mailbox.items = items
            self._unclaimed = None
        # In any case: an interrupt may have ended an earlier call before this.
        self.entry.host.scheduler.review(mailbox)

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.entry.name

    @property
    def has_callback(self) -> bool:
        """True if the task has a command callback."""
        return self._on_command is not None

    def has_unclaimed(self) -> bool:
        """Return True if there are unclaimed commands."""
        return bool(self._unclaimed)

    def unclaimed(self) -> list[Incoming]:
        """Return the unclaimed commands, in order."""
        return list(self._unclaimed or ())

    def claim(self) -> bool:
        """Move the oldest unclaimed message to ``claimed``; return False without one.

        The caller empties ``claimed`` as it hands the command over. If an interrupt
        comes before, the next call finds the command there.
        """
        while self.claimed is None and self._unclaimed:
            message = self._unclaimed[0]
            account: Account = message._account
            extracted, expired = account.extracted, account.expired
            try:
                if self._extract(message, message._to.host):
                    message.reference = (
                        message.subscriptions[0].reference
                        if message.subscriptions
                        else self._reference
                    )
                    if message._trace is not None:
                        message._trace.record_delivered()
            finally:
                # No call between these lines, which an interrupt of the others finds
                # undone, or which follow it.
                if message._dropped:
                    del self._unclaimed[0]
                elif account.extracted != extracted:
                    del self._unclaimed[0]
                    if account.expired == expired:
                        self.claimed = message
        return self.claimed is not None

    def _keep(self, message: Incoming) -> None:
        """Queue a message until the task has a callback for it, or claims it."""
        if self._unclaimed is None:
            self._unclaimed = deque()
        # Release the memory of commands that were dropped to make room.
        while self._unclaimed and self._unclaimed[0]._dropped:
            self._unclaimed.popleft()
        self._unclaimed.append(message)
        self.wake_next_waiter()
        if self.dropped:
            self.leave(self.entry, final=False)

    def wake_next_waiter(self) -> None:
        """Wake the first sleeping coroutine that waits, if there is a message."""
        if self._unclaimed:
            for parker in self.waiters:
                if parker.locked():
                    parker.release()
                    return

    def wake_waiters(self) -> None:
        """Wake the coroutines that wait, since something else has changed.

        Any thread may call this.
        """
        for parker in [*self.waiters]:
            parker.release()

    def why_unread(self) -> str:
        """Return why the task does not answer, and the remedy; it has no callback."""
        if self.reads_by is not None:
            return self.reads_by()
        return "it has no callback; register it with on_command="

    def on_arrival(self, entry: Entry, host: Host) -> None:
        """Note the new host of the task, and arm the timer of its questions there."""
        self.entry = entry
        self.asker.on_arrival(entry, host)

    def _notification(self, message: Incoming) -> None:
        alive = _alive(message.subscriptions)
        if alive and alive[0]._callback is None:
            message.subscriptions = alive
            self._keep(message)
            return
        if not self._extract(message, message._to.host, not alive):
            if message._dropped:
                self._skip(message)
            return
        if not alive:
            if message._trace is not None:
                message._trace.record_discarded(BusReason.UNWANTED)
            return
        if message._trace is not None:
            message._trace.record_delivered()
        message.subscriptions = alive
        message.reference = alive[0].reference
        run_callback(alive[0]._callback, message, self)

    def on_interrupted(self, item: Any, error: BaseException) -> bool:
        """Answer a question with the interrupt of its callback, or of its answer.

        Return True if the item is an answer for which a caller still waits, or a
        message that is still unread.
        """
        if isinstance(item, Answer):
            return type(self.questions.get(item.number)) is Call
        if type(item) is not Incoming or item._dropped:
            return False
        if self._is_unread(item):
            return True
        if item.wants_reply and not item._answered:
            with suppress(Exception):  # `error` is the one to report
                why = f"interrupted by {error_text_of(error)}"
                self.responder.respond(item, error=why)
        return False

    @staticmethod
    def _skip(message: Incoming) -> None:
        """Read the next message in place of a dropped one."""
        host: ThreadManager | None = message._to.host
        if host is not None:
            host.scheduler.turn_again(message._to.mailbox)

    def _is_unread(self, message: Incoming) -> bool:
        """Return True if its account counts a message that is in no queue any more.

        Such a message would keep its room without end. Only an interrupt before
        `_extract` leaves one, so nothing is noted for each message, and this counts all
        of them.
        """
        entry = message._to
        account: Account = message._account
        host: ThreadManager | None = entry.host
        if host is None:
            return False
        inbox = host.inbox
        with inbox.lock:
            queues = entry.mailbox.items, inbox.taken, inbox.items, self._unclaimed
            items = [each for queue in queues for each in queue or ()]
            queued = sum(
                len(each) if type(each) is InboundRun else not each._dropped
                for each in items
                if getattr(each, "_account", None) is account
            )
            return account.unread > queued

    def _extract(
        self, message: Incoming, host: ThreadManager, unwanted: bool = False
    ) -> bool:
        """Take a message off its account; return False if it must not be delivered.

        host: of the task. unwanted: True if no subscription of the notification is
          left.
        """
        inbox, account, deadline = host.inbox, message._account, message._deadline
        late = deadline is not None and deadline <= (
            host.scheduler.since or _sync.monotonic()
        )
        if late or unwanted:
            end = "expired" if late else "returned"
            if not account.discard(message, inbox.lock, end):
                return False
        elif not account.extract(message, inbox.lock):
            return False
        if message._trace is not None:
            message._trace.record_extracted()
        if inbox.room.asleep:
            inbox.wake_senders()
        if (comm := self._exchange.comm) is not None:
            comm.on_extracted(message)
        if late:
            if not message.wants_reply:  # else the sender's question times out
                error = ExpiredError(message._name or message._to.name)
                message._source.mailbox.client.on_undeliverable(message, error)
            elif message._trace is not None:
                withdrawn = deadline == 0.0  # see `CommandHandle.cancel`
                message._trace.record_discarded(
                    BusReason.CANCELLED if withdrawn else BusReason.EXPIRED
                )
            return False
        return True

    @guarded("respond")
    def respond(
        self, message: Incoming, payload: Any = None, *, error: str | None = None
    ) -> None:
        """Answer a message that this task has received; see `Incoming.respond`."""
        self.responder.respond(message, payload, error=error)

    # Called in any thread.

    def on_unsubscribed(self, interest: Any, account: Account) -> None:
        """Remove a subscription, and keep its counters; may be called again."""
        self._exchange.query(lambda: self._unsubscribe(interest, account))

    def _unsubscribe(self, interest: Any, account: Account) -> None:
        if interest not in self.interests:
            return
        host = self.entry.host
        over = [] if host is None else [x for x in self.cancelled if not x.unread]
        past = self.past
        for each in over:
            past += _of_subscription(each, host.inbox.lock)
        cancelled = *(x for x in self.cancelled if x not in over), account
        # No call between these lines: an interrupt finds all changes or none.
        self.past, self.cancelled = past, cancelled
        del self.interests[interest]

    def totals(self, lock: _thread.LockType) -> TaskTotals:
        """Return the counters of the task; see `bus.process.mailbox.Client`."""
        found = self.past + TaskTotals(
            commands=self.account.counters(lock),
            failures=self.failures,
            late=self.asker.late,
            unasked=self.responder.unasked,
            undelivered=self.delivery_failures.undelivered,
        )
        # A watch has no account.
        live = [getattr(each, "_account", None) for each in [*self.interests]]
        for account in (*self.cancelled, *live):
            if account is not None:
                found += _of_subscription(account, lock)
        return found

    # Called in any thread, on the receiver of the sender.

    def on_undeliverable(
        self, message: Incoming, error: BusError, reason: BusReason | None = None
    ) -> None:
        """Report to the task that one of its messages is undeliverable."""
        self.delivery_failures.report(message, error, reason)

    def on_dropped(self, message: Incoming) -> None:
        """Report to the task that the receiver's policy dropped one of its messages."""
        account: Account = message._account
        error = account.error(f"task {message._to.name!r}")
        self.delivery_failures.report(message, error, dropped_by(account.overflow))

    # Called in any thread, on the receiver of the addressee.

    def on_overflow(self, message: Incoming) -> None:
        """Cut off this task, whose policy is ``disconnect`` (BUS-FLOW-6)."""
        if message.kind is Kind.COMMAND:
            self.leave(message._to, final=True)
        for subscription in message.subscriptions:
            subscription.cancel()

    def leave(self, entry: Entry, *, final: bool, moved_to: str = "") -> None:
        """Deregister the task; see `Task.deregister`.

        entry: its entry; a full mailbox may cut the task off before `entry` is set.
        """
        # Set here, since the thread that removes the task may be busy for a while.
        self.leaving = True
        entry.order = object()  # ends the task's send batches: sends raise now
        self._exchange.deregister(entry, final=final, moved_to=moved_to)

    def postpone_openings(self) -> None:
        """Postpone openings until `run_openings`; the right to the name is unknown."""
        self._released = False

    def postpone(self, opening: Callable[[], object]) -> bool:
        """Keep an opening for `run_openings`; return False if the caller must open."""
        if self.is_released():
            return False
        self._openings.append(opening)
        if self.is_released():
            self.run_openings()  # released just now: one of the two threads runs it
        return True

    def is_released(self) -> bool:
        """Return True if the opening of the task need not be postponed."""
        return self._released

    def run_openings(self) -> None:
        """Run the postponed openings; does nothing if there are none."""
        self._released = True
        for opening in self._openings.copy():  # later ones are run by `postpone`
            opening()  # before the removal: an interrupt may repeat it, never lose it
            with suppress(ValueError):  # another thread was quicker
                self._openings.remove(opening)

    def await_verdict(self) -> None:
        """Create the verdict for which the registering thread waits (OPEN-3)."""
        self.verdict = Verdict()

    def on_confirmed(self) -> None:
        """Wake the registering thread: the master grants the name."""
        if self.verdict is not None:
            self.verdict.settle()

    def on_evicted(self, entry: Entry, error: BusError) -> bool:
        """Mark the task as deregistered by the master's decision.

        The registering thread raises ``error``; so does each later use of the task.
        Return True if that thread still waits for the decision.
        """
        self.leaving, self.error = True, error
        entry.order = object()
        return self.verdict is not None and self.verdict.settle(error)

    def on_unread_answer(self, answer: Answer) -> None:
        """Count an answer that was unread when the task deregistered."""
        self.asker.on_unread_answer(answer)

    def on_deregistered(self) -> None:
        """Cancel the interests and questions of a deregistered task (BUS-DEREG-10).

        This covers all buses, and wakes the callers that wait for answers. After an
        interrupt the call is repeated.
        """
        for interest in list(self.interests):
            interest.cancel()
        if self._bus is not None:
            for other in list(self._bus._others.values()):
                if other is not self._bus:
                    _end_proxy(other._exchange, self.entry)
        self.asker.on_deregistered()
        self._unclaimed = None
        self.wake_waiters()


def _of_subscription(account: Account, lock: _thread.LockType) -> TaskTotals:
    return TaskTotals(notifications=account.counters(lock), missed=account.missed)


def _alive(subscriptions: tuple[Any, ...]) -> tuple[Any, ...]:
    for each in subscriptions:
        if not each.active:
            return tuple([each for each in subscriptions if each.active])
    return subscriptions  # as nearly always


def _end_proxy(exchange: Exchange, task: Entry) -> None:
    """End the proxy of a deregistered task on another bus (BUS-NAME-5)."""
    manager = exchange.manager
    if exchange.comm is not None:  # behind the last messages and answers of the task
        exchange.comm.decide(lambda: manager.end_proxy(task, _sync.monotonic()))
