"""`Inbox`: the one FIFO of a bus thread that every other thread may post to.

Many put in, one takes out: all that is here at once (BUS-ENT-5). Who posts wakes the
owner only if it sleeps, and it sleeps only having found nothing; both are one step
under the lock, so that no wake-up is lost and none is for nothing (BUS-ROUTE-4).

What lies here is bounded by the accounts of those it is for; requests and answers are
bounded by who is owed them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from bus.core.wire import Lengths
from bus.threads.account import Admission
from bus.threads.mailbox import DROPPED_MIN, without_dropped
from queuebroker import _sync
from queuebroker.parking import PENDING, Pending, WaitList, wait_for

if TYPE_CHECKING:
    import _thread
    from collections.abc import Sequence

    from bus.core.command_run import CommandRun
    from bus.message import Incoming
    from bus.threads.account import Account
    from bus.threads.delivery import Delivery

__all__ = ["Inbox"]


class Inbox:
    """The protected FIFO of one bus thread.

    Lock: ``lock`` guards everything below it, the part of accounts that says so, and
    for each task that the thread hosts *where that is*: a move and a departure change
    ``Entry.place`` under it. Nothing is called back and no other lock is taken while it
    is held (rule 12 of the delicate mechanisms).

    Invariants, whenever ``lock`` is free:
    I1. the owner sleeps un-woken only while ``items`` is empty.
    I2. every message in ``items`` is for a task that its thread hosts.
    """

    __slots__ = ("_dropped", "arrived", "items", "lock", "room", "wakeups")

    def __init__(self) -> None:
        self.lock: Final[_thread.LockType] = _sync.Lock()
        self.items: deque[Any] = deque()
        # Notified when ``items`` was empty and is not; the owner waits here.
        self.arrived: Final = WaitList()
        # Notified when a message was extracted; senders under policy `block` wait here.
        self.room: Final = WaitList()
        self.wakeups: int = 0
        self._dropped: int = 0

    # Waitable, for `wait_for`.

    def recover_locked(self) -> None:
        self.arrived.wake_all()
        self.room.wake_all()

    def settle(self) -> None:
        """Nothing is left undone here by those who hold the lock."""

    # For everybody.

    @property
    def idle(self) -> bool:
        """Whether the owner sleeps, having dealt with all that ever was here."""
        with self.lock:
            return self.arrived.asleep and not self.items

    def push(self, request: object) -> None:
        """Post a request to the owner."""
        with self.lock:
            self.append_locked(request)

    def offer(self, message: Delivery, place: object) -> Admission:
        """Post something for a task that ``place``, whose inbox this is, hosts.

        GONE if the task is there no more; FULL if it has no room for it.
        """
        dropped: list[Incoming] = []
        with self.lock:
            if message._to.place is not place:
                return Admission.GONE
            admission = Admission.ACCEPTED
            if message._account is not None:
                admission = message._account.admit_locked(message, dropped)
            if admission is Admission.ACCEPTED:
                if message._trace is not None:  # before the owner can see it
                    message._trace.accepted(message._to.id.number)
                self.items.append(message)
                if self.arrived.asleep:  # as in `_rouse_locked`, for each message
                    self.wakeups += 1
                    self.arrived.wake_one()
                if dropped:
                    self._forget_dropped_locked(len(dropped))
        for each in dropped:
            each._source.box.client.was_dropped(each)
        return admission

    def offer_run(
        self, messages: Sequence[Incoming], account: Account, place: object
    ) -> int:
        """Post messages for one task in one step, as many as there is room for.

        Returns how many, from the first. What becomes of the next one `offer` says.
        """
        with self.lock:
            if messages[0]._to.place is not place:
                return 0
            sizes = Lengths.of([each._size for each in messages])
            count = account.admit_run_locked(sizes)
            if count:
                # They came by a link, where a journal was told of them.
                self.items += messages[:count]
                self._rouse_locked()
            return count

    def offer_commands(self, run: CommandRun, account: Account, place: object) -> int:
        """Post commands that are kept as one, as many as there is room for.

        Returns how many; they are taken out of ``run``.
        """
        with self.lock:
            if run._to.place is not place:
                return 0
            count = account.admit_run_locked(run.lengths)
            if count:
                some = run.take(count)
                some._account = account
                self.items.append(some)
                self._rouse_locked()
            return count

    def offer_until(
        self, message: Incoming, place: object, deadline: float | None
    ) -> Admission:
        """Post a message as soon as there is room for it; FULL if time is up."""

        def attempt() -> Admission | Pending:
            if message._to.place is not place:
                return Admission.GONE
            account: Account = message._account
            admission = account.admit_locked(message, [])
            if admission is Admission.FULL:
                return PENDING
            if message._trace is not None:
                message._trace.accepted(message._to.id.number)
            self.append_locked(message)
            self.room.wake_one()  # there may be room for one more
            return admission

        def ready() -> bool:
            moved = message._to.place is not place
            return moved or not message._account.full(message._size)

        outcome = wait_for(self, self.room, attempt, ready, deadline)
        return Admission.FULL if outcome is PENDING else outcome

    # For the owner.

    def take(self, deadline: float | None) -> deque[Any]:
        """Remove and return all that is here; wait for it until a deadline.

        deadline: on the monotonic clock in seconds; None for ever.
        """
        with self.lock:
            if self.items:
                return self.take_locked()
        found = wait_for(self, self.arrived, self._attempt_locked, self._any, deadline)
        return deque() if found is PENDING else found

    def take_now(self) -> deque[Any]:
        """Remove and return all that is here."""
        with self.lock:
            return self.take_locked()

    def freed(self) -> None:
        """Wake who waits for room, since a message was extracted."""
        if self.room.asleep:
            with self.lock:
                self.room.wake_all()

    def append_locked(self, item: object) -> None:
        """Put something in, and wake the owner if it sleeps."""
        self.items.append(item)
        self._rouse_locked()

    def _rouse_locked(self) -> None:
        if self.arrived.asleep:
            self.wakeups += 1
            self.arrived.wake_one()

    def take_locked(self) -> deque[Any]:
        """Remove and return all that is here, in one step with what else is done."""
        taken, self.items = self.items, deque()
        self._dropped = 0
        return taken

    def _attempt_locked(self) -> deque[Any] | Pending:
        return self.take_locked() if self.items else PENDING

    def _any(self) -> bool:
        return bool(self.items)

    def _forget_dropped_locked(self, count: int) -> None:
        """Keep no more of what was dropped than of what was not, more or less."""
        self._dropped += count
        if self._dropped > max(DROPPED_MIN, len(self.items) // 2):
            self.items = without_dropped(self.items)
            self._dropped = 0
