"""`AwaitedOutcome`: an outcome for which one caller waits.

`Call` is a command whose caller waits for the answer (BUS-MSG-11). If the calling
thread hosts the task that gets the outcome, it serves its tasks while it waits.
Otherwise it is parked, and the thread that receives the outcome wakes it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from bus.api.arguments import UNSET, Unset, deadline_after
from bus.api.questions import why_unread
from bus.errors import BusError, CommandTimeoutError, UnknownTaskError
from bus.kernel.tasks.actions import Answer
from bus.model.address import SYSTEM, Address
from bus.model.message import Incoming, Response
from queuebroker import _sync
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.api.bus_thread import BusThread
    from bus.api.questions import Asker, Question, Questions
    from bus.api.receiver import Receiver
    from bus.api.sender import Sender
    from bus.kernel.tasks.routing_table import Entry
    from bus.process.thread_manager import ThreadManager

__all__ = ["AwaitedOutcome", "Call", "await_command", "call"]

T = TypeVar("T")


class AwaitedOutcome(Generic[T]):
    """An outcome at a task, and the caller that waits for it.

    Args:
        entry: the task.
        host: its thread manager at the time of the call.
        serves: False if the caller sleeps even if its thread hosts the task.

    Attributes:
        parker: the lock on which the caller sleeps; None if it serves its tasks.
        outcome: the outcome; None until there is one.
    """

    __slots__ = ("_entry", "_host", "outcome", "parker")

    def __init__(
        self, entry: Entry, host: ThreadManager, *, serves: bool = True
    ) -> None:
        self._entry: Final = entry
        self._host: Final = host
        self.parker: Final[_thread.LockType | None] = (
            None if serves and host.ident == _sync.get_ident() else taken_lock()
        )
        self.outcome: T | None = None

    def is_over(self) -> bool:
        """Return True if there is an outcome, or the task has deregistered."""
        return self.outcome is not None or self._entry.host is None

    def wait_until_over(self, deadline: float | None) -> None:
        """Wait until it is over, or until ``deadline``."""
        if self.parker is not None:
            _sync.park(self.parker, self.is_over, deadline)
        else:
            self._host.thread._serve_until(self.is_over, deadline)

    # Called in any thread, without a lock: the outcome is stored before the wake-up,
    # and the caller checks it before each sleep.

    def on_outcome(self, outcome: T) -> None:
        """Store the outcome and wake the caller."""
        self.outcome = outcome
        self.wake()

    def wake(self) -> None:
        """Wake the caller, so that it calls `is_over` again."""
        if self.parker is not None:
            with suppress(RuntimeError):  # the caller has been woken, but has not run
                self.parker.release()
        elif (
            self._host.ident != _sync.get_ident()
        ):  # the task has moved to another thread
            self._host.ask(_nothing)


def _nothing() -> None:
    """Do nothing: the request alone makes a thread check its condition again."""


def await_command(
    thread: BusThread,
    sender: Sender,
    receiver: Receiver,
    timeout: float | None,
) -> Incoming:
    """Wait for a command and return it; see `Task.receive`.

    thread: hosts the task, and serves its other tasks meanwhile.
    """
    deadline, name = deadline_after(timeout), receiver.entry.name
    found = list[Incoming]()
    thread._check_mine(f"receive for {name!r}")
    if receiver.has_callback:
        msg = f"cannot receive for {name!r}: its commands go to a callback"
        raise RuntimeError(msg)

    def claimed() -> bool:
        sender.require_host()
        message = receiver.claim()
        if message is not None:
            found.append(message)
        return bool(found)

    if not thread._serve_until(claimed, deadline):
        assert timeout is not None
        raise CommandTimeoutError(name, timeout, missing="command for")
    return found[0]


_LATE_S: Final = 1.0  # maximum wait for an answer that another thread is handing over
_WHY_S: Final = 0.2  # maximum wait for the cause of a timeout


def call(
    sender: Sender,
    to: str | Address,
    payload: Any,
    bus: str | None,
    timeout: float | Unset | None,
    *,
    asks_why: bool = True,
) -> Any:
    """Send a command, wait, and return the payload of the answer.

    sender: the sender of the calling task.
    bus, timeout: as of `bus.api.task.Task.call`.
    asks_why: True to request the cause of a timeout from the addressee's process.

    Raises:
        UnknownTaskError: the calling task deregisters meanwhile.
        BusError: the command failed.
    """
    if timeout is UNSET:
        timeout = sender._config.command_timeout_s
    deadline = deadline_after(timeout)
    host, entry = sender.require_host(), sender._entry
    awaited = Call(entry, host)
    error: BusError | None = None
    try:
        if awaited.parker is None:
            host.waits_next = True  # withdrawn below, if interrupted
        question = sender.ask(to, payload, bus, timeout, deadline, awaited)
        if awaited.parker is None:
            error = awaited.serve(question, sender.asker, deadline)
        else:
            error = awaited.park(question, sender.asker.questions, deadline)
        if awaited.outcome is None:
            sender.asker.questions.cancel(question)
    except BaseException:
        if awaited.parker is None and host.is_owner():
            host.return_lease()
        # An interrupt may precede the assignment of the question.
        sender.asker.questions.cancel_for(awaited)
        raise
    response = awaited.outcome
    if response is not None and response.error is None:
        return response.payload
    error = error if response is None else response.error
    if error is None:
        sender.bus._lifetime.check()  # a closed bus is the more precise error
        raise UnknownTaskError(entry.name)
    here = awaited.parker is not None or entry.host is not host
    raise _explained(error, sender, question, bus, here=here) if asks_why else error


def _explained(
    error: BusError,
    sender: Sender,
    question: Question,
    bus: str | None,
    *,
    here: bool,
) -> BusError:
    """Return the error; a timeout with its cause.

    The inspector of the addressee's process knows why its task does not answer.

    here: True if the thread of the calling task may be the cause.
    """
    if not isinstance(error, CommandTimeoutError) or error.why:
        return error
    why: object = why_unread(sender._entry) if here else ""
    entry = None if question.message is None else question.message._to
    if not why and entry is not None and entry.remote:
        inspector = Address(f"{SYSTEM}/{entry.id.process}", machine=entry.id.machine)
        asked = {"unanswered": entry.address.module}
        wait_s = min(_WHY_S, error.timeout_s)
        with suppress(BusError):  # the first error is the one to report
            why = call(sender, inspector, asked, bus, wait_s, asks_why=False)
    # The inspector of an earlier version answers with its whole report.
    text = why if isinstance(why, str) else ""
    return CommandTimeoutError(error.name, error.timeout_s, text)


class Call(AwaitedOutcome[Answer | Response]):
    """A command, and the wait of its caller for the answer; used once."""

    __slots__ = ()

    def serve(
        self, question: Question, asker: Asker, deadline: float | None
    ) -> BusError | None:
        """Serve the tasks of this thread until the call is over.

        Return the error if it has timed out after the task has moved to another thread.
        """
        host, entry, late = self._host, self._entry, False
        while self.outcome is None and entry.host is not None:
            if deadline is not None and deadline <= _sync.monotonic():
                asker.post_timeout(question)
                deadline, late = None, True
            # Nothing may serve the other thread and read the timeout there.
            if late and entry.host is not host and asker.questions.cancel(question):
                return question.timeout_error()
            host.thread._poll(deadline)
        return None

    def park(
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
