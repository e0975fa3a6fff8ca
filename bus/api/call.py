"""`Call`: a command whose caller waits for the answer (BUS-MSG-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.api.awaited_outcome import AwaitedOutcome
from bus.api.unanswered import why_unread
from bus.errors import CommandTimeoutError, UnknownTaskError
from bus.message import Response
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.address import Address
    from bus.api.command_handle import CommandHandle
    from bus.api.questions import Questions
    from bus.api.sender import Sender

__all__ = ["Call"]

_LATE_S: Final = 1.0  # maximum wait for an answer that another thread is handing over


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
    ) -> Any:
        """Send the command, wait, and return the payload of the answer.

        sender: the sender of the calling task.
        bus: the bus of the addressee; None for that of the task.

        Raises:
            RuntimeError: called within a callback.
            UnknownTaskError: the calling task deregisters meanwhile.
            BusError: the command failed.
        """
        threads = sender.bus._threads
        if threads.in_callback():
            msg = (
                f"cannot call {str(to)!r} within a callback, whose thread may have to"
                " answer: use command(on_response=)"
            )
            raise RuntimeError(msg)
        thread = threads.of(self._entry, self._host)
        callback = self.on_outcome  # one bound method: `close_for` compares by identity
        try:
            if self.in_host_thread:
                self._host.waits_next = True  # withdrawn below, if interrupted
            handle = sender.command(
                *((to,), payload, bus, callback, None, timeout, deadline, self.wake),
                direct=not self.in_host_thread,
            )
            if self.parker is None:
                thread._serve_until(self.is_over, None)
            else:
                self._await(sender.asker.questions, handle, deadline)
            if self.outcome is None:
                handle._cancel()
        except BaseException:
            if self.in_host_thread and self._host.is_owner():
                self._host.return_lease()
            # An interrupt may precede the assignment of the handle, so the question is
            # looked up by its callback.
            for question in sender.asker.questions.close_for(callback):
                if question.message is not None:
                    question.message._deadline = 0.0  # as in `CommandHandle.cancel`
            raise
        response = self.outcome
        if response is None:
            sender.bus._lifetime.check()  # a closed bus is the more precise error
            raise UnknownTaskError(self._entry.name)
        if response.error is not None:
            raise response.error
        return response.payload

    def _await(
        self, questions: Questions, handle: CommandHandle, deadline: float | None
    ) -> None:
        """Sleep until the call is over, in a thread that does not host the task.

        Raises:
            BusError: the call timed out.
        """
        assert self.parker is not None
        question = questions.get(handle._numbers[0])
        if _sync.park(self.parker, self.is_over, deadline) or self.is_over():
            return
        # This thread checks the deadline itself: the thread of the task may be busy.
        if not handle._cancel():
            # Another thread has just closed the question, and hands over the outcome
            # next, unless it is interrupted.
            soon = _sync.monotonic() + _LATE_S
            if _sync.park(self.parker, self.is_over, soon) or self.is_over():
                return
        assert question is not None
        error = question.timeout_error()
        assert error is not None
        if isinstance(error, CommandTimeoutError) and not error.why:
            why = why_unread(self._entry)
            raise CommandTimeoutError(error.name, error.timeout_s, why)
        raise error
