"""`Questions`: the open questions of one task, each awaiting an answer.

Each question closes once: by an answer, an error or its timeout (BUS-FLOW-5). This
class neither blocks nor runs callbacks; the caller passes the time as an argument.

`Asker` opens the questions of a task, and reports their outcomes. The thread that hosts
the task calls the callback of the question. A `Call` has no callback but a caller that
waits (BUS-MSG-11); any thread may hand it the answer.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.api.outcome import Awaited
from bus.api.run_callback import run_callback
from bus.errors import BusError, CommandTimeoutError, UnknownTaskError, UnresolvedError
from bus.kernel.tasks.actions import Answer
from bus.kernel.tasks.routing_table import Entry
from bus.model.address import Address
from bus.model.events import BusReason
from bus.model.message import Incoming, Response
from bus.process.thread_manager import ThreadManager, call_in_host_thread
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread

    from bus.process.mailbox import Client, Host
    from bus.process.router import Router

__all__ = ["Asker", "Call", "Question", "Questions", "why_unanswered", "why_unread"]

_BUSY_S: Final = 0.05  # a callback that has run for less is not worth a mention


def why_unanswered(entry: Entry | None) -> str:
    """Return the reason why a task of this process does not answer, and the remedy.

    Return an empty string if the task is in another process, or no reason is visible.
    Any thread may call this; it takes no lock.
    """
    host: ThreadManager | None = None if entry is None else entry.host
    if entry is None or entry.remote or host is None:
        return ""
    scheduler, name = host.scheduler, host.name
    running, since = scheduler.running, scheduler.since
    if running is not None and since is not None:
        for_s = _sync.monotonic() - since
        if for_s >= _BUSY_S:
            return (
                f"its thread {name!r} has been in a callback of task"
                f" {running.name!r} for {for_s:.1f} s; register it with another"
                " thread=bus.thread(), or shorten that callback"
            )
    if not host.driving.locked():
        return (
            f"its thread {name!r} is not being served; call run() or poll() there,"
            " or register it with thread=bus.thread()"
        )
    if not entry.mailbox.client.has_callback:
        why: str = entry.mailbox.client.why_unread()
        return why
    return ""


def why_unread(asker: Entry) -> str:
    """Return why a task cannot read its answer, and the remedy; empty if it can."""
    host: ThreadManager | None = asker.host
    if host is None or host.driving.locked():
        return ""
    return (
        f"an answer to task {asker.name!r} is read in its thread {host.name!r}, which"
        " is not being served; call run() or poll() there, or register the task with"
        " thread=bus.thread()"
    )


class Question(Struct, eq=False):
    """A question to one addressee, or to all subscribers of a notification.

    to: the name or the address of the addressee, as sent; None for all subscribers.
    timeout_s, deadline: the time to wait, in seconds, and its end on the monotonic
      clock in seconds; None for no limit.
    callback, reference: those of the asker; None for a `Call`.
    bus: the bus of the addressee, for the callback.
    message: the message sent; None if there are several.
    answers: the number of answers received that were not the final one.
    """

    to: str | Address | None
    timeout_s: float | None
    deadline: float | None
    bus: str = ""
    callback: Callable[[Response], object] | None = None
    reference: Any = None
    message: Incoming | None = None
    answers: int = 0

    def addressee(self, machine: str | None) -> Address | None:
        """Return the full address of the addressee.

        machine: the machine of the asker, used if the name contains none.
        """
        if self.to is None:
            return None
        address = Address.parse(str(self.to))
        return Address(address.module, machine=address.machine or machine, bus=self.bus)

    def timeout_error(self) -> BusError | None:
        """Return the error for a timeout.

        Return None for a question to all subscribers: its timeout is its regular end.
        """
        if self.to is None:
            return None
        assert self.timeout_s is not None
        if self.message is not None and self.message._to is None:
            # No task has had that name the whole time (BUS-ROUTE-19).
            elsewhere = str(self.message._name).startswith("ism://")
            return UnresolvedError(str(self.to), self.timeout_s, elsewhere=elsewhere)
        why = "" if self.message is None else why_unanswered(self.message._to)
        return CommandTimeoutError(str(self.to), self.timeout_s, why)


class Call(Awaited[Answer], Question, eq=False, kw_only=True):
    """A question to one addressee, and the wait of its caller for the answer.

    It is used once; see `Awaited` for its own fields.
    """

    entry: Entry
    host: ThreadManager | None
    parker: Any
    outcome: Answer | None = None

    def inspector_payload(self) -> dict[str, str]:
        """Return the command that asks an inspector why a task does not answer."""
        assert self.message is not None
        entry = self.message._to
        return {"unanswered": entry.address.module}

    def serve(self, asker: Asker) -> BusError | None:
        """Serve the tasks of this thread until the call is over.

        Return the error if it has timed out after the task has moved to another thread.
        """
        host, entry, deadline, late = self.host, self.entry, self.deadline, False
        assert host is not None
        while self.outcome is None and entry.host is not None:
            # Nothing may serve the other thread and read the timeout there.
            if late and entry.host is not host and asker.questions.cancel(self):
                return self.timeout_error()
            host.thread._poll(deadline)
            if (
                self.outcome is None  # type: ignore[redundant-expr]  # set meanwhile
                and deadline is not None
                and deadline <= _sync.monotonic()
            ):
                asker.post_timeout(self)
                deadline, late = None, True
        return None

    def park(self, questions: Questions) -> BusError | None:
        """Sleep until the call is over, in a thread that does not host the task.

        Return the error if it has timed out.
        """
        assert self.parker is not None
        if _sync.park(self.parker, self.is_over, self.deadline) or self.is_over():
            return None
        # This thread checks the deadline itself: the thread of the task may be busy. If
        # another thread has just closed the question, the outcome is here.
        if not questions.cancel(self) and self.is_over():
            return None
        error = self.timeout_error()
        assert error is not None
        return error


class Questions:
    """The open questions of one task, by number.

    open: the mapping from number to question; only this class modifies it, and
      `Sender.call`, which opens its question by itself.
    numbers: the numbers of the next questions.
    closed: True once `close_all` has begun.

    Lock: ``_lock`` guards all attributes: a task may ask in any thread, and the thread
    that hosts it handles the answers. `Sender.call` needs no lock, since `close_all`
    sets ``closed`` before it reads the questions: it finds the question of a call that
    has found the flag unset. Nor does an answer to a caller in the same thread.
    """

    __slots__ = ("_deadlines", "_left", "_lock", "closed", "numbers", "open")

    def __init__(self) -> None:
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self.numbers: Final = itertools.count(1)
        self.open: dict[int, Question] = {}
        # A heap; the entry of a closed question is removed when it reaches the top.
        self._deadlines: list[tuple[float, int]] = []
        self.closed: bool = False
        self._left: list[Question] = []  # closed by `close_all`, until `forget_left`

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, number: int) -> bool:
        """Return True if a question is open; takes no lock."""
        return number in self.open

    def get(self, number: int) -> Question | None:
        """Return an open question; None if it is closed."""
        return self.open.get(number)

    def ask(self, question: Question) -> int | None:
        """Open a question; return its number, or None after `close_all`.

        The message gets the number, too.
        """
        with self._lock:
            if self.closed:
                return None
            number = next(self.numbers)
            # First: an interrupted caller finds its question by the message.
            if question.message is not None:
                question.message._id = number
            self.open[number] = question
            # A call that waits checks its deadline itself.
            if question.callback is not None and question.deadline is not None:
                heapq.heappush(self._deadlines, (question.deadline, number))
        return number

    def try_deliver_directly(
        self, answer: Answer, host: Host | None = None, *, read: bool = False
    ) -> bool:
        """Hand an answer to its caller, if that waits; False if none does.

        Any thread may call this for a caller that waits in another thread, while the
        host thread sleeps and has no item pending. So the answer overtakes no earlier
        message (BUS-MSG-15). An interrupt leaves the question open, or its caller with
        the answer, and woken.

        host: the host thread, if that calls this in its wait. A caller that waits in
          it, too, finds the answer when the wait ends; one with a parker is woken.
        read: True for an answer that the task reads from its mailbox.
        """
        call = self.open.get(answer.number)
        if type(call) is not Call:
            return False  # it is late
        if host is not None and call.host is host:
            # The caller runs in this thread. So there is no lock: another thread closes
            # the question only while it ends the tasks of this one.
            try:
                # No call between these lines: as below.
                del self.open[answer.number]
            except KeyError:
                return False
            call.outcome = answer
            if answer._trace is not None:
                answer._trace.record_accepted(answer._to.id.number)
                answer._trace.record_delivered()
            return True
        if call.parker is None and not read:
            return False
        try:
            with self._lock:
                if self.open.get(answer.number) is not call:
                    return False
                # No call between these lines: an interrupt, and a caller whose time is
                # up, find the question open, or closed with its outcome.
                del self.open[answer.number]
                call.outcome = answer
            if answer._trace is not None:
                if not read:
                    answer._trace.record_accepted(answer._to.id.number)
                answer._trace.record_delivered()
            call.wake()
            return True
        except BaseException:
            # An interrupt, or a lack of memory. The outcome of a call that is still
            # open is None, and to wake its caller would end it.
            if call.outcome is not None:
                call.wake()
            raise

    def answer(self, number: int, *, final: bool) -> Question | None:
        """Return the question of an answer, and close it if the answer is final.

        Return None if the question is closed: the answer is late.
        """
        if final:
            return self.close(number)
        with self._lock:
            question = self.open.get(number)
            if question is not None:
                question.answers += 1
            return question

    def close(self, number: int) -> Question | None:
        """Close a question and return it; return None if it was closed."""
        with self._lock:
            question = self.open.pop(number, None)
            if self.open:
                self._prune_locked()
            else:
                self._deadlines.clear()
            return question

    def cancel(self, question: Question) -> bool:
        """Close the question of a command; return False if it is not open.

        If the addressee has not read the command yet, it does not receive it.
        """
        message = question.message
        if message is None or self.close(message._id) is None:
            return False
        message._deadline = 0.0
        return True

    def close_all(self) -> list[Question]:
        """Close and return all questions, oldest first; refuse further ones.

        Until `forget_left` each call returns them: the caller may be interrupted.
        """
        with self._lock:
            self.closed = True  # first: see `Questions`
            left = [*self._left, *self.open.values()]
            # No call between these lines: an interrupt finds all changes or none.
            self._left = left
            self.open = {}
            self._deadlines = []
        return left

    def forget_left(self) -> None:
        """Forget the questions that `close_all` has returned."""
        self._left = []

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None if there is none."""
        with self._lock:
            self._prune_locked()  # an interrupt may have come before the last one
            return self._deadlines[0][0] if self._deadlines else None

    def due(self, now: float) -> tuple[int, Question] | None:
        """Return the question with the earliest deadline, if that has passed.

        It stays open: an answer that has already arrived takes precedence. Until
        `forget_deadline` each call returns it: the caller may be interrupted.
        """
        with self._lock:
            self._prune_locked()
            if not self._deadlines or self._deadlines[0][0] > now:
                return None
            number = self._deadlines[0][1]
            return number, self.open[number]

    def forget_deadline(self, number: int) -> None:
        """Forget the deadline of a question that `due` has returned."""
        with self._lock:
            # Another thread may have asked a question with an earlier deadline.
            if self._deadlines and self._deadlines[0][1] == number:
                heapq.heappop(self._deadlines)

    def _prune_locked(self) -> None:
        while self._deadlines and self._deadlines[0][1] not in self.open:
            heapq.heappop(self._deadlines)


class _Timeout(Answer, eq=False, kw_only=True):
    """A timeout of a question, which a task posts to itself.

    So it is queued behind the answers that have arrived: these take precedence.
    """


class Asker:
    """The part of a task that asks questions and handles their answers.

    Attributes:
        entry: the routing entry of the task; set before the first question.
        questions: the open questions.
        armed: the time of the next check of the questions' deadlines; None if no timer
          is set.
        late: the number of answers that arrived after their question had closed
          (BUS-FLOW-5).

    The thread that hosts the task calls the methods, unless their section says
    otherwise.
    """

    __slots__ = ("_client", "_router", "armed", "entry", "late", "questions")

    entry: Entry

    def __init__(self, router: Router, client: Client) -> None:
        self._router: Final = router
        self._client: Final = client
        self.questions: Final = Questions()
        self.armed: float | None = None
        self.late: int = 0

    # Called in any thread.

    def ask(self, question: Question) -> int:
        """Open a question and return its number.

        Raises:
            UnknownTaskError: the task is deregistered.
        """
        number = self.questions.ask(question)
        if number is None:
            raise UnknownTaskError(self.entry.name)
        return number

    def arm(self, deadline: float) -> None:
        """Arm a timer for an open question, in the thread that hosts the task."""
        # The timer covers every question asked before this read, which takes no lock:
        # its function resets ``armed`` first, and only then reads the deadlines.
        armed = self.armed
        if armed is not None and armed <= deadline:
            return
        host = self.entry.host
        if host is not None and host.is_owner():
            self._arm_in(host)
        else:
            call_in_host_thread(self.entry, lambda: self._arm_in(self.entry.host))

    # Called in the thread that hosts the task.

    def on_arrival(self, entry: Entry, host: Host) -> None:
        """Arm the timer in the thread that hosts the task from now on."""
        self.entry = entry
        self.armed = None
        self._arm_in(host)

    def _arm_in(self, host: Host) -> None:
        """Set a timer for the next deadline, in the thread that hosts the task."""
        deadline, armed = self.questions.next_deadline(), self.armed
        if deadline is not None and (armed is None or deadline < armed):
            self.armed = deadline
            host.call_at(
                deadline,
                lambda: call_in_host_thread(self.entry, self._on_timeout),
            )

    def _on_timeout(self) -> None:
        self.armed = None
        now = _sync.monotonic()
        while (late := self.questions.due(now)) is not None:
            self._post_timeout(*late)
            # Not before: after an interrupt the timer posts it again, and the second
            # one has no effect.
            self.questions.forget_deadline(late[0])
        self._arm_in(self.entry.host)

    def post_timeout(self, question: Question) -> None:
        """Post the timeout of a call, behind the answers that have arrived."""
        assert question.message is not None
        self._post_timeout(question.message._id, question)

    def _post_timeout(self, number: int, question: Question) -> None:
        error = question.timeout_error()
        self._router.post(_Timeout(self.entry, number, None, error=error))

    def on_answer(self, answer: Answer) -> None:
        """Resolve the question of an answer, or count the answer as late."""
        if self.questions.try_deliver_directly(answer, read=True):
            return
        question = self.questions.answer(answer.number, final=answer.final)
        if question is None:
            if type(answer) is Answer:
                self._count_late(answer)
            return
        if answer._trace is not None:
            answer._trace.record_delivered()
        assert question.callback is not None
        run_callback(question.callback, self._response(question, answer), self._client)

    def _response(self, question: Question, answer: Answer) -> Response:
        """Return the outcome of a question, for its callback."""
        responder, payload = answer.responder, answer.payload
        if responder is None:  # an error, or the end of the wait after a notification
            responder = question.addressee(self.entry.address.machine)
            if responder is None:
                payload = question.answers
        return Response(
            responder, payload, answer.error, question.reference, answer.final
        )

    def _count_late(self, answer: Answer) -> None:
        self.late += 1
        if answer._trace is not None:
            answer._trace.record_discarded(BusReason.UNWANTED)

    def on_unread_answer(self, answer: Answer) -> None:
        """Count an answer that was unread when the task deregistered.

        `on_deregistered` closes its question, and wakes the caller.
        """
        if answer.number in self.questions:
            self._count_late(answer)

    def on_deregistered(self) -> None:
        """Close all questions, and wake the callers that wait for their answers."""
        for question in self.questions.close_all():
            if isinstance(question, Call):
                question.wake()
        self.questions.forget_left()
