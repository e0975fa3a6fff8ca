"""`Mailbox`: the FIFO of one task, which only the thread that hosts it accesses.

It has no lock and needs none (BUS-ENT-6). Items from other threads pass through the
`Inbox` of the host thread. A task that moves gets a new mailbox at its new host.

A `Delivery` is any item in it. Of these, only commands and notifications (`Incoming`)
are on an account. An `Answer` always finds room, since each question has only one
(BUS-FLOW-4).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from bus.kernel.tasks.actions import Answer
from bus.model.message import Undelivered

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterable

    from bus.errors import BusError
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import InboundRun
    from bus.model.events import BusReason
    from bus.model.message import Incoming
    from bus.model.snapshot import TaskTotals
    from bus.process.account import Account

__all__ = [
    "Client",
    "Delivery",
    "Host",
    "Mailbox",
    "RepeatedAnswer",
    "Returned",
]


class Delivery(Protocol):
    """An item for a task's mailbox: an `Incoming`, an `Answer`, or another one.

    The latter has a method ``deliver``, which the receiver of the task calls with
    itself, in the thread that hosts the task.
    """

    _to: Any
    _account: Any
    _trace: Any


class RepeatedAnswer(Answer, eq=False, kw_only=True):
    """The failure of a question, posted again after an interrupt of the first post.

    If the first one has arrived, this one has no effect and is not counted as late.
    """


class Returned(msgspec.Struct, eq=False, kw_only=True):
    """The return of an undeliverable command that requested no answer.

    handled: True once the callback is called. After an interrupt the same object may
      be posted again.
    """

    _to: Any
    undelivered: Undelivered
    handled: bool = False
    _account: None = None
    _trace: None = None

    def deliver(self, receiver: Any) -> None:
        """Call the callback of the task that sent the command."""
        receiver.delivery_failures.on_returned(self, receiver)


class Host(Protocol):
    """The thread that hosts a task, as the task sees it."""

    def call_at(self, deadline: float, due: Callable[[], object]) -> None:
        """Call a function in the thread, once a deadline has passed."""


class Client(Protocol):
    """A task, as the thread that hosts it sees it."""

    @property
    def account(self) -> Account:
        """The account of its unread commands."""

    @property
    def name(self) -> str:
        """The name of the task, for logs and errors."""

    @property
    def has_callback(self) -> bool:
        """True if the task has a command callback."""

    def why_unread(self) -> str:
        """Return why a task without a callback does not answer, and the remedy."""

    # Called in the thread that hosts the task.

    def handle(self, item: Any) -> None:
        """Run the callback for one item of the mailbox."""

    def on_interrupted(self, item: Any, error: BaseException) -> bool:
        """Report the interrupt of `handle` to the task that waits for an answer.

        Return True if the item must be handled again: it is an answer for which a
        caller still waits, or a message that is still unread.
        """

    def reads(self, run: InboundRun) -> tuple[Callable[[Incoming], object], Any] | None:
        """Return the callback for a run, and its reference; None if there is none."""

    def on_run_begun(self, run: InboundRun) -> None:
        """Note that the task starts to read a run."""

    def on_run_read(self, run: InboundRun) -> None:
        """Note that the task has read a part of the run."""

    def on_exception(self, callback: object) -> None:
        """Record the exception of a callback; called in the exception handler."""

    def on_arrival(self, entry: Entry, host: Host) -> None:
        """Note the entry of the task and its new host."""

    def on_deregistered(self) -> None:
        """Note that the task has deregistered; after an interrupt, once more."""

    def unclaimed(self) -> list[Incoming]:
        """Return the commands that no callback has received yet."""

    def on_unread_answer(self, answer: Answer) -> None:
        """Count an answer that was unread when the task deregistered."""

    def totals(self, lock: _thread.LockType) -> TaskTotals:
        """Return the counters of the task; any thread may call this.

        lock: that of the inbox of its host. The caller holds the exchange's lock.
        """

    # Called in any thread.

    def on_undeliverable(
        self, message: Incoming, error: BusError, reason: BusReason | None = None
    ) -> None:
        """Report that a message of this task is undeliverable.

        reason: the reason for the journal, if the error does not determine it.
        """

    def try_deliver_directly(self, answer: Answer, host: Host | None = None) -> bool:
        """Hand an answer to a caller in another thread; False if none waits for it.

        host: the host, if that calls this, for a caller that waits in its thread.
        """

    def on_dropped(self, message: Incoming) -> None:
        """Report that the receiver's policy dropped a message of this task."""

    def on_overflow(self, message: Incoming) -> None:
        """Cut off this task, which has no room and the policy ``disconnect``."""

    def run_openings(self) -> None:
        """Run the postponed openings."""

    def postpone(self, opening: Callable[[], object]) -> bool:
        """Keep an opening for `run_openings`; return False if the caller must open."""

    def await_verdict(self) -> None:
        """Note that the master must decide on the name of the task."""

    def on_confirmed(self) -> None:
        """Note that the master grants the name."""

    def on_evicted(self, entry: Entry, error: BusError) -> bool:
        """Note that the task is deregistered, since it may not have its name (OPEN-3).

        Return True if a registering thread still waits for the decision.
        """


class Mailbox:
    """The unread items of one task at one host, in order.

    items: the items; None before the first, since most tasks of most programs are idle.
    held: True until `open`. The task reads nothing before, since earlier items may
      still arrive and go in front (BUS-MSG-15).
    ready: True if the mailbox is in the run queue of its thread.
    deferred: the functions to call once the mailbox is open.
    """

    __slots__ = ("client", "deferred", "held", "items", "ready")

    def __init__(self, client: Client) -> None:
        self.client: Final = client
        self.items: deque[Any] | None = None
        self.held: bool = True
        self.ready: bool = False
        self.deferred: list[Callable[[], object]] = []

    def open(self, first: Iterable[Any]) -> None:
        """Put the items sent earlier in front, and allow reading."""
        items = self.items
        if waited := list(first):
            items = deque([*waited, *(items or ())])
        # No call between these two lines: an interrupt finds the mailbox held, or open
        # with all items.
        self.items = items
        self.held = False

    def begin(self) -> deque[Any]:
        """Create and return ``items``, for the first item."""
        self.items = deque()
        return self.items

    def skip_dropped(self) -> None:
        """Remove the dropped messages at the front."""
        items = self.items
        while items and getattr(items[0], "_dropped", False):
            del items[0]
