"""`Mailbox`: the FIFO of one task, which only the thread that hosts it touches.

It has no lock and needs none (BUS-ENT-6); what comes from elsewhere comes through the
`Inbox` of that thread. A task that moves gets a new one at its new place.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.core.command_run import CommandRun
    from bus.core.routing_table import Entry
    from bus.errors import BusError
    from bus.events import BusReason
    from bus.message import Incoming
    from bus.threads.account import Account
    from bus.threads.delivery import Answer
    from bus.threads.thread_manager import ThreadManager

__all__ = ["DROPPED_MIN", "Client", "Mailbox", "without_dropped"]


# From how many on it is worth to look for what was dropped.
DROPPED_MIN: Final = 64


def without_dropped(items: Iterable[Any]) -> deque[Any]:
    """Return what was not dropped of a FIFO."""
    return deque(item for item in items if not getattr(item, "_dropped", False))


class Client(Protocol):
    """A task, as the thread that hosts it sees it."""

    @property
    def account(self) -> Account:
        """What it has unread of commands."""

    @property
    def name(self) -> str:
        """The name of the task, for people."""

    @property
    def has_callback(self) -> bool:
        """Whether commands go to a callback."""

    # In the thread that hosts it.

    def handle(self, item: Any) -> None:
        """Let the callback run that one item of the mailbox is for."""

    @property
    def commands_to(self) -> tuple[Callable[[Incoming], object], Any] | None:
        """What is called with commands, and the reference they get; None if nothing."""

    def begins(self, run: CommandRun) -> None:
        """Note that it reads commands of which none wants an answer."""

    def has_read(self, run: CommandRun) -> None:
        """Note that it has read some of them just now."""

    def raised(self, callback: object) -> None:
        """Note that a callback raised what is being handled just now."""

    def arrived(self, entry: Entry, place: ThreadManager) -> None:
        """Note what it is registered as, and that it is at a new place."""

    def ended(self) -> None:
        """Note that it has left."""

    def unclaimed(self) -> list[Incoming]:
        """Take and return commands that it took in and gave to no callback yet."""

    def unheard(self, answer: Answer) -> None:
        """Note an answer that was unread when it left."""

    # In any thread.

    def failed(
        self, message: Incoming, error: BusError, reason: BusReason | None = None
    ) -> None:
        """Note that nobody gets what this task has sent; reason: for a journal."""

    def hears(self, answer: Answer) -> bool:
        """Give an answer to who waits for it in a thread of its own; False if none."""

    def was_dropped(self, message: Incoming) -> None:
        """Note that what this task has sent was dropped for something newer."""

    def overflowed(self, message: Incoming) -> None:
        """Cut off this task, for which there was no room, as it asked."""

    def release(self) -> None:
        """Be opened now, if it has postponed that."""

    def postponed(self, opening: Callable[[], object]) -> bool:
        """Whether it sees to its being opened by itself, when it is ready to read."""

    def asked(self) -> None:
        """Note that the master is to say whether it may have its name."""

    def confirmed(self) -> None:
        """Note that it may."""

    def evicted(self, entry: Entry, error: BusError) -> bool:
        """Note that it leaves, since its name belongs to somebody else (OPEN-3).

        True if anybody waits to be told.
        """


class Mailbox:
    """What one task has not read, in order, at one place.

    items: None before the first, since most tasks of most programs are idle.
    held: nothing is read from it yet: what was sent before is still on its way here,
      and goes in front (BUS-MSG-15).
    ready: whether it stands in its thread's queue of tasks that are to run.
    deferred: what is to be done with the task once it may be read.
    """

    __slots__ = ("_dropped", "client", "deferred", "held", "items", "ready")

    def __init__(self, client: Client) -> None:
        self.client: Final = client
        self.items: deque[Any] | None = None
        self.held: bool = True
        self.ready: bool = False
        self._dropped: int = 0
        self.deferred: list[Callable[[], object]] = []

    def open(self, first: Iterable[Any]) -> None:
        """Put in front what was sent before all that is here, and let it be read."""
        items = self.items
        if waited := list(first):
            items = deque([*waited, *(items or ())])
        # No call between the two: an interrupt finds it open with all, or held.
        self.items = items
        self.held = False

    def begin(self) -> deque[Any]:
        """Have something to keep what comes in, since now something does."""
        self.items = deque()
        return self.items

    def forget_dropped(self, count: int) -> None:
        """Keep no more of what was dropped than of what was not, more or less."""
        self._dropped += count
        if self.items and self._dropped > max(DROPPED_MIN, len(self.items) // 2):
            self.items = without_dropped(self.items)
            self._dropped = 0
