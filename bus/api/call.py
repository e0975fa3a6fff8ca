"""`Call`: a command whose caller waits for the answer (BUS-MSG-11)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bus.address import SYSTEM, Address
from bus.api.awaited_outcome import AwaitedOutcome
from bus.api.unanswered import why_unread
from bus.errors import BusError, CommandTimeoutError, UnknownTaskError
from bus.message import Response
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.questions import Question, Questions
    from bus.api.sender import Sender

__all__ = ["Call"]

_LATE_S: Final = 1.0  # maximum wait for an answer that another thread is handing over
_WHY_S: Final = 0.2  # maximum wait for the cause of a timeout


class Call(AwaitedOutcome[Response]):
    """A command, and the wait of its caller for the answer; used once."""

    __slots__ = ()

    def send_and_wait(
        self,
        sender: Sender,
        to: str | Address,
        payload: Any,
        bus: str | None,
        timeout: float | None,
        deadline: float | None,
        *,
        asks_why: bool = True,
    ) -> Any:
        """Send the command, wait, and return the payload of the answer.

        sender: the sender of the calling task.
        bus: the bus of the addressee; None for that of the task.
        asks_why: True to request the cause of a timeout from the addressee's process.

        Raises:
            UnknownTaskError: the calling task deregisters meanwhile.
            BusError: the command failed.
        """
        thread = sender.bus._threads.of(self._entry, self._host)
        callback = self.on_outcome  # one bound method: `close_for` compares by identity
        error: BusError | None = None
        try:
            if self.in_host_thread:
                self._host.waits_next = True  # withdrawn below, if interrupted
            question = sender.ask(
                *(to, payload, bus, callback, timeout, deadline, self.wake),
                direct=not self.in_host_thread,
            )
            questions = sender.asker.questions
            if self.parker is None:
                thread._serve_until(self.is_over, None)
            else:
                error = self._await(question, questions, deadline)
            if self.outcome is None:
                questions.cancel(question)
        except BaseException:
            if self.in_host_thread and self._host.is_owner():
                self._host.return_lease()
            # An interrupt may precede the assignment of the question, so it is looked
            # up by its callback.
            for each in sender.asker.questions.close_for(callback):
                if each.message is not None:
                    each.message._deadline = 0.0  # as in `CommandHandle.cancel`
            raise
        response = self.outcome
        if response is not None and response.error is None:
            return response.payload
        error = error if response is None else response.error
        if error is None:
            sender.bus._lifetime.check()  # a closed bus is the more precise error
            raise UnknownTaskError(self._entry.name)
        raise self._explained(error, sender, question, bus) if asks_why else error

    def _explained(
        self,
        error: BusError,
        sender: Sender,
        question: Question,
        bus: str | None,
    ) -> BusError:
        """Return the error; a timeout with its cause.

        The inspector of the addressee's process knows why its task does not answer.
        """
        if not isinstance(error, CommandTimeoutError) or error.why:
            return error
        why: object = "" if self.parker is None else why_unread(self._entry)
        entry = None if question.message is None else question.message._to
        if not why and entry is not None and entry.remote:
            inspector = Address(
                f"{SYSTEM}/{entry.id.process}", machine=entry.id.machine
            )
            asked = {"unanswered": entry.address.module}
            wait_s = min(_WHY_S, error.timeout_s)
            until = _sync.monotonic() + wait_s
            call = Call(self._entry, self._host)
            with suppress(BusError):  # the first error is the one to report
                why = call.send_and_wait(
                    *(sender, inspector, asked, bus, wait_s, until), asks_why=False
                )
        # The inspector of an earlier version answers with its whole report.
        text = why if isinstance(why, str) else ""
        return CommandTimeoutError(error.name, error.timeout_s, text)

    def _await(
        self, question: Question, questions: Questions, deadline: float | None
    ) -> BusError | None:
        """Sleep until the call is over, in a thread that does not host the task.

        Return the error if it has timed out.
        """
        assert self.parker is not None
        if _sync.park(self.parker, self.is_over, deadline) or self.is_over():
            return None
        # This thread checks the deadline itself: the thread of the task may be busy.
        if not questions.cancel(question):
            # Another thread has just closed the question, and hands over the outcome
            # next, unless it is interrupted.
            soon = _sync.monotonic() + _LATE_S
            if _sync.park(self.parker, self.is_over, soon) or self.is_over():
                return None
        error = question.timeout_error()
        assert error is not None
        return error
