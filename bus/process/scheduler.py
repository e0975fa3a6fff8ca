"""`Scheduler`: gives turns to the tasks of one thread, and keeps its timers.

The tasks that have unread items stand in a run queue. At its turn a task reads one item
and runs until its callback returns. So no task makes another wait for longer than one
callback (BUS-ENT-7).

It has no lock and needs none: only the thread itself calls it. Other threads may read
``running``, ``since`` and ``callbacks``, which may be out of date by then.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from bus.kernel.tasks.runs import InboundRun
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bus.process.account import Account
    from bus.process.inbox import Inbox
    from bus.process.mailbox import Client, Mailbox

__all__ = ["Scheduler"]


class Scheduler:
    """The run queue and the timers of one thread.

    Args:
        inbox, requests: other work of the thread; a task that reads a run stops for it.

    Attributes:
        ready: the run queue.
        timers: a heap of (deadline, tie-breaker, function).
        running: the task whose callback runs; None between callbacks.
        since: the start of the current callback, or of the search for one, on the
          monotonic clock in seconds; None while the thread waits.
        callbacks: the number of callbacks run.

    Invariants, between two callbacks:
    I1. ``ready`` holds, once each, the mailboxes that are not held and not empty. After
        an interrupt it may also hold an empty one, which costs one empty turn; and one
        twice, if a finalizer that runs in `put` sends to the same task.
    I2. all mailboxes in ``ready`` belong to tasks that the thread hosts.
    """

    __slots__ = (
        "_inbox",
        "_numbers",
        "_requests",
        "callbacks",
        "ready",
        "running",
        "since",
        "timers",
    )

    def __init__(self, inbox: Inbox, requests: Collection[object]) -> None:
        self._inbox: Final = inbox
        self._requests: Final = requests
        self.ready: Final[deque[Mailbox]] = deque()
        self.timers: Final[list[tuple[float, int, Callable[[], object]]]] = []
        self._numbers = itertools.count()
        self.running: Client | None = None
        self.since: float | None = None
        self.callbacks: int = 0

    def call_at(self, deadline: float, due: Callable[[], object]) -> None:
        """Set a timer: call ``due`` at or soon after a time of the monotonic clock."""
        heapq.heappush(self.timers, (deadline, next(self._numbers), due))

    def fire(self) -> None:
        """Call the function of the first timer, which is due, and remove the timer.

        An interrupt of the function, or a lack of memory, leaves the timer set, so that
        the function is called again: no deadline passes without effect.
        """
        timer = self.timers[0]
        try:
            timer[2]()
        except MemoryError:
            raise
        except Exception:
            self._remove(timer)
            raise
        self._remove(timer)

    def _remove(self, timer: tuple[float, int, Callable[[], object]]) -> None:
        if self.timers and self.timers[0] is timer:
            heapq.heappop(self.timers)
            return
        rest = [each for each in self.timers if each is not timer]
        heapq.heapify(rest)
        self.timers[:] = rest  # one step: an interrupt finds a heap before and after

    def put(self, mailbox: Mailbox, item: Any) -> None:
        """Put an item into a mailbox; after an exception it is not there."""
        items = mailbox.items
        if items is None:
            items = mailbox.begin()
        # No call below: an interrupt finds either all of these changes or none. In this
        # order: a lack of memory leaves at most an empty mailbox in the run queue, and
        # no item in a mailbox that gets no turn.
        if not (mailbox.ready or mailbox.held):
            ready = self.ready
            ready += (mailbox,)
            mailbox.ready = True
        items += (item,)

    def review(self, mailbox: Mailbox) -> None:
        """Put a mailbox into the run queue if it belongs there."""
        if mailbox.items and not (mailbox.ready or mailbox.held):
            mailbox.ready = True
            self.ready.append(mailbox)

    def turn(self, slice_s: float = 0.0) -> None:
        """Give a turn to the next task: it reads one item.

        slice_s: the maximum time, in seconds, that it reads on from a run, if
          no other task is ready.
        """
        ready = self.ready
        if not ready:
            return  # the task was removed meanwhile
        mailbox = ready[0]
        # Read the clock again: an earlier callback may have taken long.
        self.since = now = _sync.monotonic()
        # A mailbox stays in the queue as long as it may have items. So an interrupt
        # between two of these steps costs one empty turn, and no task loses its later
        # turns.
        items: Any = mailbox.items
        if not items or type(item := items[0]) is InboundRun:
            item = self._next(mailbox, now)
            if item is None:
                mailbox.ready = False
                ready.popleft()
                return
            if type(item) is InboundRun:
                ready.rotate(-1)
                self._read(mailbox, item, now + slice_s)
                return
            items = mailbox.items
        del items[0]  # no call: an interrupt finds the item here or in ``item``
        if items:
            try:
                ready.rotate(-1)
            except BaseException:
                items.appendleft(item)  # an interrupt: the next turn reads it
                raise
        else:
            mailbox.ready = False
            del ready[0]
        self.callbacks += 1
        self.running = client = mailbox.client
        try:
            client.handle(item)
        except BaseException as error:
            # An interrupt, or a lack of memory. No callback is called twice, but a
            # caller in another thread or process needs its answer.
            if client.on_interrupted(item, error):
                mailbox.items.appendleft(item)  # type: ignore[union-attr]  # it was there
                self.review(mailbox)
            raise
        self.running = None

    def turn_again(self, mailbox: Mailbox) -> None:
        """Give a task another turn, within that in which it has met a dropped message.

        Else a task whose senders fill its FIFO between two of its turns would meet only
        dropped ones.
        """
        mailbox.skip_dropped()
        if mailbox.items and self.ready and self.ready[-1] is mailbox:
            self.ready.rotate(1)
            self.turn()

    def _next(self, mailbox: Mailbox, now: float) -> Any:
        """Return the next item, or the run to read from; both stay in the mailbox.

        Return None if the mailbox is empty. If the task cannot read from the run, the
        remaining messages of the run become single items.
        """
        items = mailbox.items
        while items:
            item = items[0]
            if type(item) is not InboundRun:
                return item
            if item:
                late = item.deadline is not None and item.deadline <= now
                if mailbox.client.reads(item) is not None and not late:
                    return item
                with self._inbox.lock:
                    item._account.unpack_locked(item, mailbox)
                items = mailbox.items
            else:
                items.popleft()
        return None

    def _read(self, mailbox: Mailbox, run: InboundRun, until: float) -> None:
        """Let a task read one message of a run, and more until a time.

        It stops as soon as this thread has other work, such as the end of one of its
        subscriptions (`Subscription.cancel`). The accounting and the acknowledgement
        cover the run as a whole, not each message.
        """
        # Set before the look at the subscriptions: see `Subscription.cancel`.
        self.running = client = mailbox.client
        reads = client.reads(run)
        if reads is None:  # another thread has just cancelled the last subscription
            self.running = None
            return  # at its next turn the task gets the messages one by one
        callback, reference = reads
        account: Account = run._account
        monotonic = _sync.monotonic
        ready, inbox, requests = self.ready, self._inbox, self._requests
        if run.deadline is not None and run.deadline < until:
            until = run.deadline
        if self.timers and self.timers[0][0] < until:
            until = self.timers[0][0]
        now = 0.0
        account.begin(run, inbox.lock)
        try:
            client.on_run_begun(run)
            for message in account.read(run, reference, inbox.lock):
                # Not from ``run.at``, which counts dropped messages, too.
                self.callbacks += 1
                try:
                    callback(message)
                except Exception:  # noqa: BLE001 # contained (BUS-MSG-13)
                    client.on_exception(callback)
                now = monotonic()
                if now >= until or len(ready) > 1 or inbox.items or requests:
                    self.since = now
                    break
                self.since = now  # a plain statement before the jump: see `_sync.Lock`
        finally:
            account.settle(inbox.lock)
            client.on_run_read(run)
            self.running = None
        items = mailbox.items
        # `Mailbox.skip_dropped` may have removed the run during a callback.
        if not run and items and len(items) == 1 and items[0] is run:
            items.popleft()
            mailbox.ready = False
            ready.remove(mailbox)
