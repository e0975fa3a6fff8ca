"""`DeliveryFailures`: the messages of a task that could not be delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.api.run_callback import run_callback
from bus.errors import BusError, MovedError
from bus.kernel.tasks.actions import Answer
from bus.model.message import Kind, Undelivered
from bus.model.payload import plain
from bus.process.mailbox import RepeatedAnswer, Returned
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from bus.api.questions import Questions
    from bus.kernel.tasks.routing_table import Entry
    from bus.model.events import BusReason
    from bus.model.message import Incoming
    from bus.process.mailbox import Client
    from bus.process.router import Router

__all__ = ["DeliveryFailures"]


class DeliveryFailures:
    """The part of a task that reports its undeliverable messages.

    A command that requests an answer fails its question, if that is still open. A
    command that requests none is passed to ``on_undelivered``. Other messages are only
    recorded in the journal.

    Args:
        router: the router of the bus.
        questions: the open questions of the task.
        on_undelivered: the callback for commands that requested no answer.
        follow: as `TaskOwner._follow`.

    Attributes:
        undelivered: the number of undeliverable commands that requested no answer.
            Any thread increments it, under the lock.
    """

    __slots__ = (
        "_follow",
        "_lock",
        "_on_undelivered",
        "_questions",
        "_router",
        "undelivered",
    )

    def __init__(
        self,
        router: Router,
        questions: Questions,
        on_undelivered: Callable[[Undelivered], object] | None,
        follow: Callable[[Incoming, MovedError], BusError | None] | None,
    ) -> None:
        self._router: Final = router
        self._questions: Final = questions
        self._on_undelivered: Final = on_undelivered
        self._follow: Final = follow
        # Guards ``undelivered`` alone.
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self.undelivered: int = 0

    # Called in any thread.

    def report(
        self, message: Incoming, error: BusError, reason: BusReason | None = None
    ) -> None:
        """Report to the task that one of its messages is undeliverable.

        If the error says that the addressee has moved, and this process follows moves,
        the message is sent there instead.

        After an interrupt, the caller repeats the call. The task gets one report, and
        the message is counted once, wherever the interrupt came.

        reason: the reason for the journal, if the error does not determine it.
        """
        begun = isinstance(message._report, (Answer, Returned))
        # If the report has begun, the message was sent on before, and that failed.
        if self._follow is not None and isinstance(error, MovedError) and not begun:
            outcome = self._follow(message, error)
            if outcome is None:
                return
            error = outcome
        asked = message.wants_reply and message._id in self._questions
        told = message.kind is Kind.COMMAND and (asked or not message.wants_reply)
        if message._trace is not None and not begun:
            message._trace.record_failed(error, reason, told=told)
        if message.kind is not Kind.COMMAND:
            return
        source: Entry = message._source
        if message.wants_reply:
            if asked:
                kind = Answer
                if begun:
                    kind, error = RepeatedAnswer, message._report.error
                message._report = answer = kind(
                    _to=source, number=message._id, responder=None, error=error
                )
                self._router.post(answer)
            return
        if not begun:
            name = message._name or message._to.name
            returned = Returned(
                _to=source,
                undelivered=Undelivered(name, plain(message.payload), error),
            )
            with self._lock:
                # No call between these lines: an interrupt finds both changes or none.
                self.undelivered += 1
                message._report = returned
        if self._on_undelivered is not None:
            self._router.post(message._report)

    # Called in the thread that hosts the task.

    def on_returned(self, item: Returned, client: Client) -> None:
        """Call the callback of the task for one undeliverable command."""
        if self._on_undelivered is not None and not item.handled:
            item.handled = True
            run_callback(self._on_undelivered, item.undelivered, client)
