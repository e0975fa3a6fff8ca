"""`Receiver`: the half of a task that is called back, in the thread that hosts it.

Callbacks of a task run one at a time, and what they raise stays here (BUS-MSG-12,
BUS-MSG-13). Methods that other threads call say so.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bus.api.arguments import wrong_type
from bus.api.questions import Questions
from bus.api.reentry import calls_user, guarded
from bus.core.trace import dropped_by
from bus.error_text import error_text_of, fitting
from bus.errors import (
    AlreadyAnsweredError,
    BusError,
    ExpiredError,
    RemoteError,
    UnknownTaskError,
    UnreachableError,
)
from bus.events import BusReason
from bus.message import NOREPLY, Incoming, Kind, Presence, Response, Undelivered
from bus.payload import freeze_within
from bus.threads.delivery import Answer, News, Returned
from bus.threads.verdict import Verdict
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from bus.api.questions import Question
    from bus.api.subscription import Subscription, Watch
    from bus.config import BusConfig
    from bus.core.command_run import CommandRun
    from bus.core.routing_table import Entry
    from bus.core.trace import Trace
    from bus.threads.account import Account
    from bus.threads.exchange import Exchange
    from bus.threads.thread_manager import ThreadManager

__all__ = ["Receiver"]


class _TimeUp(Answer, eq=False, kw_only=True):
    """That the time of a question is up, posted by a task to itself.

    So it takes its turn behind the answers that are here already: these come first.
    """


class Receiver:
    """What a task does with what comes to it.

    account: what it has unread of commands.
    questions: what it has asked and has no answer to.
    interests: what it asked to hear of others, in the order it did.
    leaving: whether it was said that the task leaves; it does nothing any more.
    error: why it had to; None if it was its author's wish.
    late: answers that came when nobody waited for them any more (BUS-FLOW-5).
    unasked: answers it gave that nobody wanted (BUS-MSG-7).
    failures: callbacks that raised.
    undelivered: what it sent without a question and nobody got.
    verdict: the master's, on its name; None if that was not asked.

    Lock: ``_lock`` guards ``undelivered`` alone, which any thread counts up.
    """

    __slots__ = (
        "_armed",
        "_config",
        "_exchange",
        "_lock",
        "_on_command",
        "_on_undelivered",
        "_openings",
        "_reference",
        "_released",
        "_unclaimed",
        "account",
        "entry",
        "error",
        "failures",
        "interests",
        "late",
        "leaving",
        "questions",
        "unasked",
        "undelivered",
        "verdict",
    )

    entry: Entry  # set before anything is handled, or asked

    def __init__(
        self,
        exchange: Exchange,
        config: BusConfig,
        account: Account,
        on_command: Callable[[Incoming], Any] | None,
        reference: Any,
        on_undelivered: Callable[[Undelivered], object] | None,
    ) -> None:
        self._exchange: Final = exchange
        self._config: Final = config
        self._on_command = on_command
        self._reference = reference
        self._on_undelivered: Final = on_undelivered
        self.account: Final = account
        self.questions: Final = Questions()
        # A set that keeps its order; threads put in and take out one at a time.
        self.interests: Final[dict[Subscription | Watch, None]] = {}
        self._lock: Final[_thread.LockType] = _sync.Lock()
        # Commands that came while there was no callback; unread as far as anybody sees.
        self._unclaimed: deque[Incoming] | None = None  # made at the first
        # When the thread that hosts it will look at the questions' deadlines.
        self._armed: float | None = None
        self._released: bool = True
        # Not a deque, which takes ten times as much: most tasks are idle.
        self._openings: Final[list[Callable[[], object]]] = []
        self.leaving: bool = False
        self.error: BusError | None = None
        self.late: int = 0
        self.unasked: int = 0
        self.failures: int = 0
        self.undelivered: int = 0
        self.verdict: Verdict | None = None

    # What comes in, in the thread that hosts the task.

    def handle(self, item: Incoming | Answer | News | Returned) -> None:
        """Let the callback run that one item is for."""
        if type(item) is Incoming:
            callback = self._on_command
            if item.kind is Kind.NOTIFICATION:
                self._notification(item)
            elif callback is None:
                self._keep(item)
            elif self._extracted(item):
                item.reference = self._reference
                if item._trace is not None:
                    item._trace.delivered()
                self._command(callback, item)
        elif isinstance(item, Answer):
            self._answer(item)
        elif isinstance(item, News):
            if item.watch.active:
                seen = item.presence
                news = Presence(seen.address, seen.here, item.watch.reference)
                self._guarded(item.watch._callback, news)
        else:
            assert isinstance(item, Returned)
            if self._on_undelivered is not None:
                self._guarded(self._on_undelivered, item.undelivered)

    @property
    def commands_to(self) -> tuple[Callable[[Incoming], Any], Any] | None:
        """What is called with commands, and the reference they get; None if nothing."""
        callback = self._on_command
        return None if callback is None else (callback, self._reference)

    def begins(self, run: CommandRun) -> None:
        """Note that it reads commands of which none wants an answer."""
        if (comm := self._exchange.comm) is not None:
            comm.reading(run)

    def has_read(self, run: CommandRun) -> None:
        """Note that it has read some of them just now."""
        place: ThreadManager = self.entry.place
        if place.inbox.room.asleep:
            place.inbox.freed()
        if (comm := self._exchange.comm) is not None:
            comm.reading(run)

    def raised(self, callback: object) -> None:
        """Note that a callback raised what is being handled just now."""
        self._failed_callback(callback)

    def listen(self, callback: Callable[[Incoming], Any], reference: Any) -> None:
        """Let commands go to a callback from now on, those first that had none.

        Each of these in its turn: back into the FIFO, in front of all others.
        """
        self._on_command, self._reference = callback, reference
        place: ThreadManager = self.entry.place
        if self._unclaimed and place.expect(self.entry.box):
            place.open(self.entry, self.unclaimed())

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.entry.name

    @property
    def has_callback(self) -> bool:
        """Whether commands go to a callback."""
        return self._on_command is not None

    def unclaimed(self) -> list[Incoming]:
        """Give up the commands that no callback took, in order."""
        waiting, self._unclaimed = self._unclaimed, None
        return list(waiting or ())

    def claim(self) -> Incoming | None:
        """Take the oldest command that no callback took; None if there is none."""
        while self._unclaimed:
            message = self._unclaimed.popleft()
            if self._extracted(message):
                message.reference = self._reference
                if message._trace is not None:
                    message._trace.delivered()
                return message
        return None

    def _keep(self, message: Incoming) -> None:
        """Note a command that no callback took."""
        if self._unclaimed is None:
            self._unclaimed = deque()
        # What was dropped for it has to make room in memory, too.
        while self._unclaimed and self._unclaimed[0]._dropped:
            self._unclaimed.popleft()
        self._unclaimed.append(message)

    def arrived(self, entry: Entry, place: ThreadManager) -> None:
        """Note that a thread hosts the task from now on: it has to look at the time."""
        self.entry = entry
        self._armed = None
        self.arm(place)

    def arm(self, place: ThreadManager) -> None:
        """Let the thread that hosts the task look at its questions in time."""
        deadline = self.questions.next_deadline()
        if deadline is not None and not self.armed_before(deadline):
            self._armed = deadline
            place.call_at(
                deadline,
                lambda: self._exchange.at_home(self.entry, self._time_is_up),
            )

    def armed_before(self, deadline: float) -> bool:
        """Whether that thread will look by then anyway; a look, with no lock.

        It takes in all that was asked before this is read: it forgets when it is armed
        for, and only then reads when the next time is up.
        """
        armed = self._armed
        return armed is not None and armed <= deadline

    def _notification(self, message: Incoming) -> None:
        alive = tuple(each for each in message.subscriptions if each.active)
        if not self._extracted(message):
            return
        if not alive:
            message._account.returned += 1
            if message._trace is not None:
                message._trace.discarded(BusReason.UNWANTED)
            return
        if message._trace is not None:
            message._trace.delivered()
        message.subscriptions = alive
        message.reference = alive[0].reference
        self._guarded(alive[0]._callback, message)

    def _extracted(self, message: Incoming) -> bool:
        """Take a message off its account; False if it is not to be delivered."""
        place: ThreadManager = message._to.place
        if not message._account.extract(message, place.inbox.lock):
            return False
        if message._trace is not None:
            message._trace.extracted()
        if place.inbox.room.asleep:
            place.inbox.freed()
        if (comm := self._exchange.comm) is not None:
            comm.taken(message)
        deadline = message._deadline
        if deadline is not None and deadline <= (place.since or _sync.monotonic()):
            message._account.expired += 1
            if not message.wants_reply:  # else its own time is up where it was asked
                error = ExpiredError(self._name_of(message))
                message._source.box.client.failed(message, error)
            elif message._trace is not None:
                withdrawn = deadline == 0.0  # see `CommandHandle.cancel`
                message._trace.discarded(
                    BusReason.CANCELLED if withdrawn else BusReason.EXPIRED
                )
            return False
        return True

    @calls_user
    def _command(self, callback: Callable[[Incoming], Any], message: Incoming) -> None:
        try:
            answer = callback(message)
            if answer is NOREPLY or message._answered or not message.wants_reply:
                return
            place = message._to.place
            if place is None or not message._source.remote:
                self._respond(message, answer)
                return
            place.waits_next = True
            try:
                self._respond(message, answer)
            finally:
                place.waits_next = False  # the next callback may come before it waits
        except Exception as error:  # noqa: BLE001 # contained (BUS-MSG-13)
            self._failed_callback(callback)
            if message.wants_reply and not message._answered:
                self._respond(message, error=error_text_of(error))

    def _answer(self, answer: Answer) -> None:
        question = self.questions.answer(answer.number, final=answer.final)
        if question is None:
            if type(answer) is Answer:
                self._is_late(answer)
            return
        self._resolve(question, answer)

    def _is_late(self, answer: Answer) -> None:
        self.late += 1
        if answer._trace is not None:
            answer._trace.discarded(BusReason.UNWANTED)

    def hears(self, answer: Answer) -> bool:
        """Give an answer to who waits for it in another thread; False if nobody does.

        In any thread, while that of the task sleeps and nothing is on its way there: so
        nothing is overtaken that came before (BUS-MSG-15).
        """
        question = self.questions.get(answer.number)
        if question is None or not question.direct:
            return False
        question = self.questions.answer(answer.number, final=answer.final)
        if question is None:
            return False  # it has ended just now; so the answer is late
        if answer._trace is not None:
            answer._trace.accepted(self.entry.id.number)
        self._resolve(question, answer)
        return True

    def _resolve(self, question: Question, answer: Answer) -> None:
        if answer._trace is not None:
            answer._trace.delivered()
        responder, payload = answer.responder, answer.payload
        if responder is None:  # there is an error, or it is the end of a notification
            responder = question.asked(self.entry.address.machine)
            if responder is None:
                payload = question.answers
        response = Response(
            responder, payload, answer.error, question.reference, answer.final
        )
        self._guarded(question.callback, response)

    def _time_is_up(self) -> None:
        self._armed = None
        for number, question in self.questions.due(_sync.monotonic()):
            self._exchange.post(
                _TimeUp(
                    _to=self.entry,
                    number=number,
                    responder=None,
                    error=question.time_is_up(),
                )
            )
        self.arm(self.entry.place)

    @calls_user
    def _guarded(self, callback: Callable[[Any], object], argument: object) -> None:
        try:
            callback(argument)
        except Exception:  # noqa: BLE001 # contained (BUS-MSG-13)
            self._failed_callback(callback)

    def _failed_callback(self, callback: object) -> None:
        self.failures += 1
        # As it is written, not where it is in memory.
        name = getattr(callback, "__qualname__", None) or repr(callback)
        self._exchange.failures.log(name, f"task {self.entry.name!r}")

    # Answers.

    @guarded("respond")
    def respond(
        self, message: Incoming, payload: Any = None, *, error: str | None = None
    ) -> None:
        """Answer a message that this task has got; see `Incoming.respond`."""
        self._respond(message, payload, error=error)

    def _respond(
        self, message: Incoming, payload: Any = None, *, error: str | None = None
    ) -> None:
        entry: Entry = message._to
        if error is not None and not isinstance(error, str):
            raise wrong_type("error", "a str or None", error)
        if entry.place is None:
            raise UnknownTaskError(entry.name)
        if not message.wants_reply:
            self.unasked += 1
            return
        if message._answered:
            raise AlreadyAnsweredError(entry.name)
        asker, own = message._source, entry.address.bus
        if asker.remote and asker.address.bus != own:
            raise UnreachableError.across(asker.name, asker.address.bus, own)
        limit, encoders = self._config.message_bytes_max, self._config.encoders
        frozen, size = freeze_within(payload, limit, encoders)
        if error is not None:
            error = fitting(error, limit)
        message._answered = True
        if message._source.remote:
            self._exchange.answer(message, frozen, error)
            return
        trace: Trace | None = message._trace
        wanted = self._exchange.answered(
            Answer(
                _to=message._source,
                number=message._id,
                responder=entry.address,
                payload=frozen,
                error=None if error is None else RemoteError(entry.name, error),
                final=message.kind is Kind.COMMAND,
                _trace=None if trace is None else trace.answer(entry.id.number, size),
            )
        )
        if not wanted:  # who asked has left
            self.unasked += 1

    # Called in any thread: what became of what this task has sent.

    def failed(
        self, message: Incoming, error: BusError, reason: BusReason | None = None
    ) -> None:
        """Tell the task that nobody gets a message of its.

        reason: for a journal, if the error does not say it.
        """
        asked = message.wants_reply and message._id in self.questions
        told = message.kind is Kind.COMMAND and (asked or not message.wants_reply)
        if message._trace is not None:
            message._trace.failed(error, reason, told=told)
        if message.kind is not Kind.COMMAND:
            return
        source: Entry = message._source
        if message.wants_reply:
            if asked:
                self._exchange.post(
                    Answer(_to=source, number=message._id, responder=None, error=error)
                )
            return
        with self._lock:
            self.undelivered += 1
        if self._on_undelivered is not None:
            undelivered = Undelivered(self._name_of(message), message.payload, error)
            self._exchange.post(Returned(_to=source, undelivered=undelivered))

    def was_dropped(self, message: Incoming) -> None:
        """Tell the task that a newer message has taken the place of one of its."""
        account: Account = message._account
        error = account.error(f"task {message._to.name!r}")
        self.failed(message, error, dropped_by(account.overflow))

    # Called in any thread, of the task that is addressed.

    def overflowed(self, message: Incoming) -> None:
        """Cut off who cannot keep up and said that it wants that (BUS-FLOW-6)."""
        if message.kind is Kind.COMMAND:
            self.leaving = True
            message._to.order = object()
            self._exchange.deregister(message._to, final=True)
        for subscription in message.subscriptions:
            subscription.cancel()

    def hold(self) -> None:
        """Read nothing until `release`: as long as it is not known to have its name."""
        self._released = False

    def postponed(self, opening: Callable[[], object]) -> bool:
        """Keep the opening for `release`, unless that was."""
        if self.reads():
            return False
        self._openings.append(opening)
        if self.reads():
            self.release()  # just then: one of the two does it
        return True

    def reads(self) -> bool:
        """Whether it reads, or will as soon as it is opened."""
        return self._released

    def release(self) -> None:
        """Read from now on; harmless if it does."""
        self._released = True
        while self._openings:
            opening = self._openings[0]
            opening()  # twice is harmless; to be struck before it is not
            with suppress(ValueError):  # another thread was quicker
                self._openings.remove(opening)

    def asked(self) -> None:
        """Let who registers the task wait for the master's word (OPEN-3)."""
        self.verdict = Verdict()

    def confirmed(self) -> None:
        """Let who registers the task go on."""
        if self.verdict is not None:
            self.verdict.settle()

    def evicted(self, entry: Entry, error: BusError) -> bool:
        """Leave, and say why to whoever registers the task, or else uses it.

        Returns whether anybody is registering it.
        """
        self.leaving, self.error = True, error
        entry.order = object()
        return self.verdict is not None and self.verdict.settle(error)

    def unheard(self, answer: Answer) -> None:
        """Count an answer that was unread when the task left."""
        question = self.questions.close(answer.number)
        if question is not None:
            self._is_late(answer)
            if question.gone is not None:
                question.gone()

    def ended(self) -> None:
        """Forget what the task has asked, since it has left (BUS-DEREG-10).

        On all buses; who waits for an answer is told.
        """
        for interest in list(self.interests):
            interest.cancel()
        for question in self.questions.close_all():
            if question.gone is not None:
                question.gone()

    def _name_of(self, message: Incoming) -> str:
        return message._name or message._to.name
