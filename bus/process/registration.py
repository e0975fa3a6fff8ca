"""`RegistrationAttempt`: the registration of a task in a thread, and its undoing.

`Opening` opens the mailbox of the task, with the messages parked for its name, and
`Emptying` empties that of a task that departs. `undoable` calls a decision that an
interrupt may cut off.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bus.errors import UnknownTaskError
from bus.kernel.tasks.actions import Answer
from bus.model.events import BusOperation
from bus.model.message import Incoming
from bus.process.account import Admission
from bus.process.inbox import report_dropped
from bus.process.mailbox import Mailbox
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.kernel.tasks.actions import Action, ActionQueue
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import InboundRun
    from bus.kernel.trace import TraceSink
    from bus.model.registration import Visibility
    from bus.process.mailbox import Client
    from bus.process.thread_manager import ThreadManager

__all__ = ["Emptying", "Opening", "RegistrationAttempt", "undoable"]


class Opening:
    """The opening of the mailbox of one task, at most once, in its thread.

    The task cannot move, and its thread cannot end, until it is open.
    """

    __slots__ = (
        "_dropped",
        "_entry",
        "_fits",
        "_host",
        "_left",
        "_mailbox",
        "_taken",
        "_verdict",
    )

    def __init__(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        self._entry: Final = entry
        self._host: Final[ThreadManager] = entry.host
        self._mailbox: Final[Mailbox] = entry.mailbox
        self._fits: Final[list[Incoming]] = []
        self._left: Final = deque(messages)
        # The message that is being admitted, or was when an interrupt came, and what
        # the account has decided on it; None before.
        self._taken: Incoming | None = None
        self._verdict: Admission | None = None
        self._dropped: Final[list[Incoming | InboundRun]] = []

    def _admit(self) -> None:
        """Charge the parked messages to the account of the task; keep those that fit.

        Each other message fails, and its sender gets the error. After an interrupt, the
        next call continues with the message that was being admitted: none is lost, or
        admitted or counted twice.
        """
        if self._taken is not None:
            self._settle(self._taken)
        while self._left:
            # No call between these lines: an interrupt finds the message in one place.
            message = self._taken = self._left[0]
            self._verdict = None
            del self._left[0]
            self._settle(message)
        report_dropped(self._dropped)

    def _settle(self, message: Incoming) -> None:
        entry, account = self._entry, self._mailbox.client.account
        if self._verdict is None:
            message._to, message._account = entry, account
            with self._host.inbox.lock:
                self._verdict = account.admit_locked(message, self._dropped)
        if self._verdict is Admission.ACCEPTED:
            if not (self._fits and self._fits[-1] is message):
                if message._trace is not None:
                    message._trace.record_accepted(entry.id.number)
                self._fits.append(message)
        else:
            error = account.error(f"task {entry.name!r}")
            message._source.mailbox.client.on_undeliverable(message, error)
        self._taken = None

    def open(self) -> None:
        """Admit the messages; open the mailbox now, or in `Receiver.run_openings`.

        After an interrupt the caller repeats the call.
        """
        self._admit()
        if not self._mailbox.client.postpone(self._open_in_host_thread):
            self._open_in_host_thread()

    def _open_in_host_thread(self) -> None:
        # The thread posts no request to itself: it may never serve, and then its inbox
        # would keep every task that registers and deregisters.
        if self._host.between_callbacks():
            self._open()
        else:
            self._host.ask(self._open)

    def _open(self) -> None:
        if self._mailbox.held:
            self._host.open(self._entry, self._fits)
        else:  # an interrupt has ended the first call
            self._host.resume(self._mailbox)


class Emptying:
    """The emptying of a mailbox, in the thread that hosts the task, and its report.

    Args:
        entry: the entry of the task, which is no longer found.
        final: as in `Task.deregister`.

    Attributes:
        host: the thread.

    After an interrupt the caller repeats the call.
    """

    __slots__ = (
        "_client",
        "_counted",
        "_entry",
        "_final",
        "_items",
        "_now",
        "_recorded",
        "_unread",
        "host",
    )

    def __init__(self, entry: Entry, *, final: bool) -> None:
        self._entry: Final = entry
        self._final: Final = final
        self.host: Final[ThreadManager] = entry.host
        self._client: Final[Client] = entry.mailbox.client
        self._now: Final = _sync.monotonic()
        self._items: Final[list[Any]] = []  # those that were unread
        self._counted: int = 0  # how many of them the accounts have counted
        # The messages among them; None before they are determined.
        self._unread: list[Incoming] | None = None
        self._recorded: bool = False

    def take(self) -> None:
        """Remove the task from its thread, with its unread items."""
        entry, client = self._entry, self._client
        if entry.host is not None:
            self.host.remove(entry, None, Mailbox(client), self._items)
        if self._unread is None:
            items = [*client.unclaimed(), *self._items]
            self._count(items)
            unread = [
                each for each in items if type(each) is Incoming and not each._dropped
            ]
            for each in unread:
                each.gap = 0  # the gap concerned this receiver alone
            self._unread = unread
        self.host.inbox.wake_senders()

    def _count(self, items: list[Any]) -> None:
        lock = self.host.inbox.lock
        for item in items[self._counted :]:
            self._counted += 1  # first: no account counts a message twice
            if type(item) is Incoming:
                item._account.discard(item, lock, "returned")
            elif type(item) is Answer:
                self._client.on_unread_answer(item)

    def report(
        self,
        manager: ProcessManager,
        todo: ActionQueue,
        trace_sink: TraceSink | None,
    ) -> list[Action]:
        """Report the unread messages to the manager; called under the lock."""
        entry, unread = self._entry, self._unread
        assert unread is not None
        manager.on_emptied(entry, unread, self._now, todo, final=self._final)
        if trace_sink is not None and not self._recorded:
            self._recorded = True
            trace_sink.on_task_event(BusOperation.DEREGISTER, entry.id.number)
        return []


T = TypeVar("T")


def undoable(manager: ProcessManager, event: Callable[[], T]) -> T:
    """Call ``event``, a decision; called under the lock of the exchange.

    If an interrupt ends the decision before its actions are queued, the parked messages
    that it removed for them are put back. The next decision on them repeats the one
    cut off, so that each sender gets its outcome. The actions that an earlier interrupt
    has left for this decision are left for the next one.
    """
    parked, remote = manager.parked, manager.remote
    if parked.removals:
        manager.restore()  # a second interrupt has ended the call below
    todo = [] if remote is None else remote.todo
    left = (*todo,)
    parked.removals = ()
    try:
        result = event()
        # For the events that queue no actions; others have done this with that.
        parked.removals = None
    except BaseException:
        if remote is not None and left and parked.removals is not None:
            remote.put_back(todo, left)
        manager.restore()
        raise
    return result


class RegistrationAttempt:
    """The attempt to register a task in a thread, and its undoing.

    If an interrupt ends the attempt, its caller gets no task that it could deregister.
    So the name must be free again.

    Args:
        manager, todo: the process manager, and the queue of the actions it decides on.
        trace_sink: as in `Exchange`.
        host, client: the thread, and the task.
    """

    __slots__ = (
        "_client",
        "_host",
        "_mailbox",
        "_manager",
        "_queued",
        "_todo",
        "_trace_sink",
    )

    def __init__(
        self,
        manager: ProcessManager,
        todo: deque[Action],
        trace_sink: TraceSink | None,
        host: ThreadManager,
        client: Client,
    ) -> None:
        self._manager: Final = manager
        self._todo = todo
        self._trace_sink: Final = trace_sink
        self._host: Final = host
        self._client: Final = client
        self._mailbox: Final = Mailbox(client)
        # True once the actions of the registration are queued.
        self._queued: bool = False

    def announce(self) -> None:
        """Announce the task to its thread, which then does not end.

        Raises:
            UnknownTaskError: the thread has ended.
        """
        host = self._host
        if not host.expect(self._mailbox):
            raise UnknownTaskError("", f"thread {host.name!r} is stopped")

    def withdraw(self) -> None:
        """Withdraw the announcement of a task that is not registered."""
        self._host.cancel_expect(self._mailbox)

    # Called under the lock of the exchange.

    def register(self, name: str, visibility: Visibility, bus: str) -> Entry:
        """Register the task, and queue the actions that follow.

        Raises:
            NameTakenError: see `ProcessManager.claim`.
        """
        manager, client = self._manager, self._client
        manager.claim(name, visibility, self._todo)
        entry, actions = manager.register(
            *(name, visibility, bus, self._host, self._mailbox, _sync.monotonic()),
            client.account.overflow,
            None if self._trace_sink is None else self._trace_sink.on_registered,
        )
        if manager.awaits_verdict(entry):
            client.await_verdict()  # under the lock: before the master answers
        # No call between these lines: an interrupt comes before all or after all.
        self._todo += actions
        manager.parked.removals = None
        self._queued = True
        return entry

    def find(self) -> Entry | None:
        """Return the entry of the task; None if the interrupt preceded it."""
        table, mailbox = self._manager.table, self._mailbox
        return next((each for each in table if each.mailbox is mailbox), None)

    def undo(self, entry: Entry) -> list[Action]:
        """Remove the entry of the task from the table."""
        if self._queued:
            self._manager.leave(entry, self._todo)
        else:
            self._manager.undo(entry, _sync.monotonic(), self._todo)
        return []
