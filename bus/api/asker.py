"""`Asker`: the questions of a task, from their opening to their outcome.

The outcome of a question is an answer, an error or its timeout (BUS-FLOW-5). The thread
that hosts the task calls the callback of the question. If the callback only wakes a
waiting caller, any thread may call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.api.questions import Questions
from bus.api.run_callback import run_callback
from bus.errors import UnknownTaskError
from bus.events import BusReason
from bus.message import Response
from bus.threads.delivery import Answer
from bus.threads.host_thread import call_in_host_thread
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.questions import Question
    from bus.core.local.routing_table import Entry
    from bus.threads.mailbox import Client, Host
    from bus.threads.router import Router

__all__ = ["Asker"]


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

    def try_deliver_directly(self, answer: Answer, *, here: bool = False) -> bool:
        """Hand an answer to a caller that waits in another thread; False if none does.

        Any thread may call this while the host thread sleeps and has no item pending.
        So the answer overtakes no earlier message (BUS-MSG-15).

        here: True if the host thread calls this in its wait, for a caller that waits in
          that thread instead, and finds the answer when the wait ends.
        """
        question = self.questions.open.get(answer.number)
        if (
            question is None
            or question.on_asker_gone is None  # no caller waits
            or question.direct is here
        ):
            return False
        question = self.questions.answer(answer.number, final=answer.final)
        if question is None:
            return False  # it has just closed, so the answer is late
        if answer._trace is not None:
            answer._trace.record_accepted(self.entry.id.number)
        question.callback(self._response(question, answer))
        return True

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
        for number, question in self.questions.due(_sync.monotonic()):
            self._router.post(
                _Timeout(
                    _to=self.entry,
                    number=number,
                    responder=None,
                    error=question.timeout_error(),
                )
            )
        self._arm_in(self.entry.host)

    def on_answer(self, answer: Answer) -> None:
        """Resolve the question of an answer, or count the answer as late."""
        question = self.questions.answer(answer.number, final=answer.final)
        if question is None:
            if type(answer) is Answer:
                self._count_late(answer)
            return
        run_callback(question.callback, self._response(question, answer), self._client)

    def _response(self, question: Question, answer: Answer) -> Response:
        """Return the outcome of a question, for its callback."""
        if answer._trace is not None:
            answer._trace.record_delivered()
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
        """Count an answer that was unread when the task deregistered."""
        question = self.questions.close(answer.number)
        if question is not None:
            self._count_late(answer)
            if question.on_asker_gone is not None:
                question.on_asker_gone()

    def on_deregistered(self) -> None:
        """Close all questions, and wake the callers that wait for their answers."""
        for question in self.questions.close_all():
            if question.on_asker_gone is not None:
                question.on_asker_gone()
