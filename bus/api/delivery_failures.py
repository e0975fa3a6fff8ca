"""`DeliveryFailures`: the messages of a task that could not be delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.address import Address
from bus.api.run_callback import run_callback
from bus.errors import BusError, InDoubtError, MovedError
from bus.message import Kind, Undelivered
from bus.threads.delivery import Answer, RepeatedAnswer, Returned
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from bus.api.questions import Questions
    from bus.api.task_owner import TaskOwner
    from bus.core.local.routing_table import Entry
    from bus.events import BusReason
    from bus.message import Incoming
    from bus.threads.mailbox import Client
    from bus.threads.router import Router

__all__ = ["DeliveryFailures"]

# How often a command follows a task, which may move to and fro in the meantime.
_MOVES_MAX: Final = 8


class DeliveryFailures:
    """The part of a task that reports its undeliverable messages.

    A command that requests an answer fails its question, if that is still open. A
    command that requests none is passed to ``on_undelivered``. Other messages are only
    recorded in the journal.

    Args:
        router: the router of the bus.
        questions: the open questions of the task.
        on_undelivered: the callback for commands that requested no answer.
        bus: the bus of the task; None if the task sends on that bus alone.
        follow_moved_tasks: as `BusConfig.follow_moved_tasks`.

    Attributes:
        undelivered: the number of undeliverable commands that requested no answer.
            Any thread increments it, under the lock.
    """

    __slots__ = (
        "_bus",
        "_follow_moved_tasks",
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
        bus: TaskOwner | None,
        *,
        follow_moved_tasks: bool,
    ) -> None:
        self._router: Final = router
        self._bus: Final = bus
        self._questions: Final = questions
        self._on_undelivered: Final = on_undelivered
        self._follow_moved_tasks: Final = follow_moved_tasks
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
        follows = self._follow_moved_tasks and message._moves < _MOVES_MAX
        if isinstance(error, MovedError) and follows:
            if message._report is not error:
                self._follow(message, error)
                return
            why = "an interrupt, such as Ctrl-C, ended the call that was sending it on"
            error = InDoubtError(message._name or error.name, why)
        begun = isinstance(message._report, (Answer, Returned))
        asked = message.wants_reply and message._id in self._questions
        told = message.kind is Kind.COMMAND and (asked or not message.wants_reply)
        if message._trace is not None and not begun:
            message._trace.record_failed(error, reason, told=told)
        if message.kind is not Kind.COMMAND:
            return
        source: Entry = message._source
        if message.wants_reply:
            if asked:
                kind = RepeatedAnswer if begun else Answer
                message._report = answer = kind(
                    _to=source, number=message._id, responder=None, error=error
                )
                self._router.post(answer)
            return
        if not begun:
            name = message._name or message._to.name
            returned = Returned(
                _to=source, undelivered=Undelivered(name, message.payload, error)
            )
            with self._lock:
                # No call between these lines: an interrupt finds both changes or none.
                self.undelivered += 1
                message._report = returned
        if self._on_undelivered is not None:
            self._router.post(message._report)

    def _follow(self, message: Incoming, moved: MovedError) -> None:
        """Send a message to the new address of its addressee, over the same bus."""
        message._report = moved  # from here on it is in doubt after an interrupt
        router, machine = self._router, message._source.address.machine
        if moved.bus != message._source.address.bus:
            bus = None if self._bus is None else self._bus._others.get(moved.bus)
            if bus is None:  # the process has left it
                message._moves = _MOVES_MAX
                self.report(message, moved)
                return
            router, machine = bus._router, bus.machine
        message._moves += 1
        new = Address.parse(moved.address)
        message._name = new.module if new.machine == machine else moved.address
        message._to = message._account = None
        try:
            router.send(message, at_once=True)
        except BusError as error:
            self.report(message, error)

    # Called in the thread that hosts the task.

    def on_returned(self, item: Returned, client: Client) -> None:
        """Call the callback of the task for one undeliverable command."""
        if self._on_undelivered is not None and not item.handled:
            item.handled = True
            run_callback(self._on_undelivered, item.undelivered, client)
