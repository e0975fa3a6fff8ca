"""`Inbox`: the only FIFO of a bus thread to which other threads may post.

Many threads post; the owner removes all items at once (BUS-ENT-5). A poster wakes the
owner only if it sleeps, and the owner sleeps only if the inbox is empty. Each of the
two is one step under the lock, so no wake-up is lost or useless (BUS-ROUTE-4).

The accounts of the addressees bound the messages in the inbox. Requests and answers
are bounded by the operations and questions that cause them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from bus.kernel.wire import Lengths
from bus.model.message import Incoming
from bus.process.account import Admission
from queuebroker import _sync
from queuebroker.waiting.parking import PENDING, Pending, WaitList, wait_for

if TYPE_CHECKING:
    import _thread
    from collections.abc import Sequence

    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import InboundRun
    from bus.process.account import Account
    from bus.process.mailbox import Delivery

__all__ = ["Inbox", "report_dropped"]

# The minimum number of dropped messages for which removing them is worth the scan.
_DROPPED_MIN: Final = 64


class Inbox:
    """The lock-protected FIFO of one bus thread.

    Lock: ``lock`` guards all attributes below it, and the parts of accounts that say
    so. It also guards the host of each task of the thread: a move and a deregistration
    change ``Entry.host`` under it. No callback runs and no other lock is taken while
    it is held.

    Attributes:
        taken: the items that `take_over` has removed and the owner has not yet put
          into mailboxes. Only the owner accesses it.

    Invariants, whenever ``lock`` is free:
    I1. the owner sleeps without a pending wake-up only while ``items`` is empty.
    I2. every message in ``items`` is for a task that the owner hosts.
    """

    __slots__ = ("_dropped", "arrived", "items", "lock", "room", "taken", "wakeups")

    def __init__(self) -> None:
        self.lock: Final[_thread.LockType] = _sync.Lock()
        self.items: deque[Any] = deque()
        self.taken: deque[Any] = deque()
        # The owner waits here; notified when ``items`` becomes non-empty.
        self.arrived: Final = WaitList()
        # Senders under policy `block` wait here; notified when a message is extracted.
        self.room: Final = WaitList()
        self.wakeups: int = 0
        self._dropped: int = 0

    # Waitable, for `wait_for`.

    def recover_locked(self) -> None:
        self.arrived.wake_all()
        self.room.wake_all()

    def settle(self) -> None:
        """Do nothing: no holder of the lock leaves work to be completed."""

    # Called in any thread.

    @property
    def idle(self) -> bool:
        """True if the owner sleeps and the inbox is empty."""
        with self.lock:
            return self.arrived.asleep and not self.items

    def push(self, request: object) -> None:
        """Post a request to the owner."""
        with self.lock:
            self.append_locked(request)

    def offer(self, message: Delivery, host: object) -> Admission:
        """Post an item for a task that ``host`` hosts.

        host: the thread manager that owns this inbox.

        Return GONE if it does not host the task any more, FULL if the task has no room.
        """
        dropped: list[Incoming | InboundRun] = []
        try:
            with self.lock:
                if message._to.host is not host:
                    return Admission.GONE
                admission = Admission.ACCEPTED
                try:
                    if message._account is not None:
                        admission = message._account.admit_locked(message, dropped)
                    if admission is Admission.ACCEPTED:
                        try:
                            if message._trace is not None:  # before the owner sees it
                                message._trace.record_accepted(message._to.id.number)
                        finally:
                            # No interrupt is raised between the admission, or the
                            # record, and the append.
                            self.items.append(message)
                finally:  # `_wake_locked`, inlined for each message
                    if self.arrived.asleep and self.items:
                        self.wakeups += 1
                        self.arrived.wake_one()
                if dropped:
                    self._forget_dropped_locked(len(dropped))
            report_dropped(dropped)
        except BaseException:  # an interrupt: they are dropped all the same
            report_dropped(dropped)
            raise
        return admission

    def offer_run(
        self,
        messages: Sequence[Incoming],
        account: Account,
        host: object,
        left: list[Incoming | InboundRun],
    ) -> int:
        """Post as many messages for one task as fit, in one step.

        left: begins with the messages; those posted are removed.

        Return the number posted, from the first. For the next one, `offer` returns the
        reason.
        """
        with self.lock:
            if messages[0]._to.host is not host:
                return 0
            sizes = Lengths.of([each._size for each in messages])
            try:
                # No traces here: messages from a link were recorded on arrival.
                # No call behind the first line: an interrupt finds all changes or none.
                if count := account.admit_run_locked(sizes):
                    self.items += messages[:count]
                    del left[:count]
            finally:
                self._wake_locked()
            return count

    def offer_inbound_run(self, run: InboundRun, account: Account, host: object) -> int:
        """Post as many messages of a run as fit (`Account.admit_inbound_locked`).

        Return the number posted; they are removed from ``run``.
        """
        dropped: list[Incoming | InboundRun] = []
        try:
            with self.lock:
                if run._to.host is not host:
                    return 0
                try:
                    some = account.admit_inbound_locked(run)
                    if some is None:
                        return 0
                    self.items.append(some)  # no call since the admission
                finally:
                    self._wake_locked()
                account.trim_locked(dropped)
                if dropped:
                    self._forget_dropped_locked(len(dropped))
            report_dropped(dropped)
        except BaseException:  # as in `offer`
            report_dropped(dropped)
            raise
        return len(some.payloads)

    def offer_until(
        self, message: Incoming, host: object, deadline: float | None
    ) -> Admission:
        """Wait for room and post a message; return FULL at the deadline."""

        def attempt() -> Admission | Pending:
            if message._to.host is not host:
                return Admission.GONE
            account: Account = message._account
            admission = account.admit_locked(message, [])  # `block` drops nothing
            if admission is Admission.FULL:
                return PENDING
            try:
                if message._trace is not None:
                    message._trace.record_accepted(message._to.id.number)
            finally:
                self.items.append(message)  # as in `offer`; else `Wait` wakes
            self._wake_locked()
            self.room.wake_one()  # room may remain for another sender
            return admission

        def ready() -> bool:
            moved = message._to.host is not host
            return moved or not message._account.full(message._size)

        outcome = wait_for(self, self.room, attempt, ready, deadline)
        return Admission.FULL if outcome is PENDING else outcome

    # Called by the owner.

    def wait(self, deadline: float | None) -> None:
        """Wait for an item until a deadline.

        deadline: on the monotonic clock in seconds; None for no limit.
        """
        if not self.items:
            wait_for(self, self.arrived, self._attempt_locked, self.has_items, deadline)

    def take_over(self) -> None:
        """Move all items to ``taken``, which is empty."""
        with self.lock:
            # No call between these lines: an interrupt finds the items in one place.
            self.items, self.taken = self.taken, self.items
            self._dropped = 0

    def give_back(self) -> None:
        """Put the items of ``taken`` back in front."""
        with self.lock:
            items, taken = deque([*self.taken, *self.items]), deque[Any]()
            self.items, self.taken = items, taken  # as in `take_over`

    def take_now(self) -> deque[Any]:
        """Remove and return all items; an interrupt may lose them."""
        self.take_over()
        taken, self.taken = self.taken, deque()
        return taken

    def wake_senders(self) -> None:
        """Wake the senders that wait for room, after a message was extracted."""
        if self.room.asleep:
            with self.lock:
                self.room.wake_all()

    def append_locked(self, item: object) -> None:
        """Append an item, and wake the owner if it sleeps.

        After an interrupt the item is not in the inbox.
        """
        if self.arrived.asleep:  # first: the owner cannot look before the lock is free
            self.wakeups += 1
            self.arrived.wake_one()
        self.items.append(item)

    def _wake_locked(self) -> None:
        """Wake the owner if it sleeps and there is an item, also after an interrupt."""
        if self.arrived.asleep and self.items:
            self.wakeups += 1
            self.arrived.wake_one()

    def split_locked(self, entry: Entry) -> tuple[list[Any], deque[Any]]:
        """Return the items for one task, and all others; changes nothing."""
        own: list[Any] = []
        others: deque[Any] = deque()
        for item in self.items:
            to = getattr(item, "_to", None)  # a request is for no task
            if to is entry:
                own.append(item)
            else:
                others.append(item)
        return own, others

    def _attempt_locked(self) -> Pending | None:
        return None if self.items else PENDING

    def has_items(self) -> bool:
        """Return True if there is an item."""
        return bool(self.items)

    def _forget_dropped_locked(self, count: int) -> None:
        """Remove dropped messages once they are about half of the items."""
        self._dropped += count
        if self._dropped > max(_DROPPED_MIN, len(self.items) // 2):
            self.items = deque(
                item for item in self.items if not getattr(item, "_dropped", False)
            )
            self._dropped = 0


def report_dropped(dropped: list[Incoming | InboundRun]) -> None:
    """Report to their senders the messages that the receiver's policy dropped.

    Each is removed from the list; after an interrupt the caller repeats the call. Of a
    run there is nothing to report: its sender is in another process.
    """
    while dropped:
        each = dropped[0]
        if isinstance(each, Incoming):
            each._source.mailbox.client.on_dropped(each)
        # Not before: a repeated report is harmless, and none may be lost.
        del dropped[0]
