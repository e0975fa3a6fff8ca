"""`ThreadManager`: one thread of a bus, and the tasks that take turns in it.

A task runs when something is in its FIFO, until its callback returns; tasks that have
something to read stand in a queue, and each reads one item when its turn comes, so that
none keeps another waiting for longer than one callback (BUS-ENT-7). Between two turns
the manager takes in what other threads have posted, moves tasks away, and looks at the
time.

Methods are for the thread itself, which is whoever calls `adopt`, unless they say
otherwise.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from bus.core.command_run import CommandRun
from bus.message import Incoming, Kind
from bus.threads.account import Admission
from bus.threads.inbox import Inbox
from bus.threads.mailbox import Mailbox
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterable

    from bus.core.routing_table import Entry
    from bus.threads.account import Account
    from bus.threads.delivery import Delivery
    from bus.threads.mailbox import Client

__all__ = ["Request", "ThreadManager"]

_COMMAND: Final = Kind.COMMAND

_TURNS_MAX: Final = 64  # before a thread looks at its deadlines again
# For how long a task reads what came together before the others are told of it.
_SLICE_S: Final = 0.001


class Request:
    """Something to be done by a thread, between two callbacks."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], object]) -> None:
        self.run: Final = run


class Way(Protocol):
    """Where else a thread may wait: see `bus.links.bypass`."""

    def leave(self, place: ThreadManager) -> None:
        """Let others see what comes there, unless ``place`` does not wait there."""

    def wait(self, place: ThreadManager, deadline: float | None) -> bool:
        """Wait there and for the inbox of the calling thread, which is ``place``.

        False if it is to be the inbox alone the next time.
        """


class ThreadManager:
    """The tasks of one thread, their FIFOs, and whose turn it is.

    name: of the thread, for people.
    ident: the thread that runs it; None before one has adopted it.
    main: whether that is the main one, the only one where an interrupt may strike.
    running: the task whose callback runs, None between callbacks.
    way: where it may wait as well as at its inbox, since what it speaks with is there;
      None if nowhere.
    waits_next: whether it is about to wait, unless there is anything for it to do.
    leading: the way by which nobody else sees what comes now; None for none.
    waiting: whether it waits there: then what it does is done for all of its process,
      and not between two callbacks, so that nothing is done to its own tasks at once.
    since: when it began with the callback that runs, or to look for one, on the
      monotonic clock in seconds; None while it waits.

    Invariants, between two callbacks:
    I1. ``_ready`` holds, once each, the mailboxes that are not held and not empty.
    I2. all mailboxes in it are of tasks that are here.
    """

    __slots__ = (
        "_expected",
        "_numbers",
        "_ready",
        "_requests",
        "_stop_at",
        "_timers",
        "callbacks",
        "driving",
        "ended",
        "ident",
        "inbox",
        "leading",
        "main",
        "name",
        "running",
        "since",
        "waiting",
        "waits_next",
        "way",
    )

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.inbox: Final = Inbox()
        self.ident: int | None = None
        self.main: bool = False
        # Held while the thread serves: who takes it over waits for that.
        self.driving: Final[_thread.LockType] = _sync.Lock()
        self.running: Client | None = None
        self.since: float | None = None
        self.callbacks: int = 0
        self.way: Way | None = None
        self.waits_next: bool = False
        self.leading: Way | None = None
        self.waiting: bool = False
        # Under the lock of the inbox: tasks that will be opened here; whether nobody
        # serves here any more.
        self._expected: Final[set[Mailbox]] = set()
        self.ended: bool = False
        self._ready: deque[Mailbox] = deque()
        self._requests: deque[Request] = deque()
        # Deadline, tie-breaker, what is due then.
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._stop_at: float | None = None

    # For any thread.

    def owned(self) -> bool:
        """Whether the calling thread is the one that runs this."""
        return self.ident == _sync.get_ident()

    def between_callbacks(self) -> bool:
        """Whether the calling thread hosts this, runs no callback and does not wait."""
        return (
            self.ident == _sync.get_ident()
            and self.running is None
            and not self.waiting
        )

    def serving(self) -> bool:
        """Whether the calling thread is serving: in a callback, or between two."""
        return self.ident == _sync.get_ident() and self.driving.locked()

    def expect(self, box: Mailbox) -> bool:
        """Announce that a task will be opened here; False if the thread has ended.

        After an interrupt nobody knows whether it was announced; so it is named by its
        mailbox, and may be taken back or opened either way.
        """
        with self.inbox.lock:
            if self.ended:
                return False
            self._expected.add(box)
            return True

    def expect_not(self, box: Mailbox) -> None:
        """Take back what was announced, if it was."""
        with self.inbox.lock:
            if box not in self._expected:
                return
            self._expected.remove(box)
        self.ask(self.pending)  # whoever waits for it looks again

    @property
    def idle(self) -> bool:
        """Whether its thread sleeps, having dealt with all that was for it.

        One that reads a link in its sleep, so to speak, puts some of that in mailboxes
        at once: what comes behind must not overtake it.
        """
        return not self.pending() and self.inbox.idle

    def post(self, message: Delivery) -> Admission:
        """Post something for a task that is here; see `Inbox.offer`."""
        # Behind what other threads have posted: it may be of the same sender, who has
        # sent that first (BUS-MSG-15). Of what comes at the same time nobody knows.
        # One that is recorded gets its number under the lock of the inbox, and has to
        # lie there in that order (B5).
        if (
            self.ident == _sync.get_ident()
            and not self.inbox.items
            and not self.waiting
            and message._trace is None
        ):
            return self._post_inside(message)
        return self.inbox.offer(message, self)

    def ask(self, request: Callable[[], object]) -> None:
        """Let this thread call something, between two callbacks of its tasks."""
        self.inbox.push(Request(request))

    def remind(self, deadline: float, due: Callable[[], object]) -> None:
        """Call something at a point of the monotonic clock, or soon after."""
        if self.owned() and not self.waiting:
            self.call_at(deadline, due)
        else:
            self.ask(lambda: self.call_at(deadline, due))

    def stop(self, until: float) -> None:
        """Let `run` return as soon as there is nothing to do, or time is up."""
        self.ask(lambda: self._stop(until))

    # For the thread itself.

    def adopt(self) -> None:
        """Run from now on in the calling thread; waits until no other serves."""
        with self.driving:
            self.main = _sync.may_be_struck()
            self.ident = _sync.get_ident()

    def run(self) -> None:
        """Serve until stopped."""
        while self._stop_at is None or (
            self.pending() and _sync.monotonic() < self._stop_at
        ):
            with self.driving:
                assert self.owned()
                self._serve(None)
                self._serve_on()
        self.leave_way()

    def poll(self, timeout: float | None) -> int:
        """Serve what is here, waiting for it at most ``timeout`` seconds.

        None waits for ever. Returns how many callbacks have run. What they cause in
        this thread is served by the next call.
        """
        with self.driving:
            assert self.owned()
            until = None if timeout is None else _sync.monotonic() + timeout
            try:
                return self._serve(until)
            finally:
                self.leave_way()

    def leave_way(self) -> None:
        """Wait nowhere else any more, since something else is to be done."""
        self.waits_next = False
        if self.leading is not None:
            self.leading.leave(self)
            self.leading = None  # last: an interrupt before leaves it to the next call

    def pending(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._ready or self._requests or self.inbox.items)

    def _serve(self, until: float | None) -> int:
        """Give a turn to each task that has something to read; return how many."""
        self._take_in(until)
        self.since = now = _sync.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        turns = len(self._ready)
        try:
            for _ in range(turns):
                self._turn()
        finally:
            self.running = self.since = None
        return turns

    def _serve_on(self) -> None:
        """Give more turns, as long as there is nothing else to look at, and not long.

        So what is done once a `_serve` is not done for each message of many.
        """
        try:
            for _ in range(_TURNS_MAX):
                due = self._timers and self._timers[0][0] <= _sync.monotonic()
                if not self._ready or due or self._stop_at is not None:
                    return
                self._turn(_SLICE_S)
        finally:
            self.running = self.since = None

    def end(self) -> bool:
        """Take no more tasks; False if some are on their way, to be opened first."""
        with self.inbox.lock:
            self.ended = not (self._expected or self.inbox.items)
            return self.ended

    def call_at(self, deadline: float, due: Callable[[], object]) -> None:
        """Call something at a point of the monotonic clock, or soon after."""
        heapq.heappush(self._timers, (deadline, next(self._numbers), due))

    def open(self, entry: Entry, first: Iterable[Incoming]) -> None:
        """Let a task that came here read, first what was sent before it came."""
        box: Mailbox = entry.box
        with self.inbox.lock:
            self._expected.discard(box)
        box.client.arrived(entry, self)
        box.open(first)
        self._review(box)
        # At once, not as a request: this is between two callbacks, and the thread may
        # never serve again.
        while box.deferred:
            box.deferred.pop(0)()

    def hand_over(self, entry: Entry, to: ThreadManager) -> None:
        """Let a task go on in another thread, with all it has not read (BUS-MOVE-2).

        It stays if that one has ended.
        """
        new = Mailbox(entry.box.client)
        unread: list[Any] = []

        def opens() -> None:
            if new.held:
                to.open(entry, unread)

        try:
            if to.expect(new):
                unread.extend(self._let_go(entry, to, new))
                to.ask(opens)
        except BaseException:
            # An interrupt: that thread shall not wait for a task that does not come.
            if entry.place is to:
                to.ask(opens)
            else:
                to.expect_not(new)
            raise

    def let_go(self, entry: Entry) -> list[Any]:
        """Let a task end; return what it has not read, in order."""
        return self._let_go(entry, None, Mailbox(entry.box.client))

    def _let_go(
        self, entry: Entry, to: ThreadManager | None, new: Mailbox
    ) -> list[Any]:
        """Take a task out, with what it has not read, and say where it is from now on.

        What is in the inbox is taken out in the same step: whoever posts later finds
        the task elsewhere, or nowhere: all that is returned was sent before that.
        """
        assert self.owned()
        old: Mailbox = entry.box
        with self.inbox.lock:
            items = self.inbox.take_locked()
            entry.box, entry.place = new, to
            if to is None:
                entry.order = object()  # what it sends from now on is refused
            self.inbox.room.wake_all()  # who waits for room looks where the task is
        strays = self._distribute(items)
        if old.ready:
            self._ready.remove(old)
        unread: list[Any] = []
        for item in [*(old.items or ()), *strays]:
            unread += item.rest() if type(item) is CommandRun else (item,)
        return unread

    def _post_inside(self, message: Delivery) -> Admission:
        """Post something in the thread itself: no lock, and nobody to wake."""
        entry = message._to
        if entry.place is not self:
            return Admission.GONE
        if message._account is not None:
            dropped: list[Incoming] = []
            admission: Admission = message._account.admit_inside(
                message, dropped, self.inbox.lock
            )
            for each in dropped:
                each._source.box.client.was_dropped(each)
            if admission is not Admission.ACCEPTED:
                return admission
            if dropped:
                entry.box.forget_dropped(len(dropped))
        self._put(entry.box, message)
        return Admission.ACCEPTED

    def accept(self, message: Delivery) -> bool:
        """Put something in a mailbox at once, with no lock, and nobody to be told.

        False if anything is in the way, or might go first; then nothing has happened.
        """
        entry: Entry = message._to
        if entry.place is not self or self.inbox.items:
            return False
        if isinstance(message, Incoming) and not message._account.admit_at_once(
            message
        ):
            return False
        self._put(entry.box, message)
        return True

    def _take_in(self, until: float | None) -> None:
        """Take in what was posted; wait for it only if there is nothing else to do."""
        if not (self._ready or self._requests or self.inbox.items):
            if self._timers and (until is None or self._timers[0][0] < until):
                until = self._timers[0][0]
            self.waits_next = False
            items = self._await(until)
        else:
            self.leave_way()
            items = self.inbox.take_now()
        if items:
            strays = self._distribute(items)
            assert not strays
        while self._requests:
            self._requests.popleft().run()

    def _await(self, deadline: float | None) -> deque[Any]:
        """Return what was posted, as soon as anything is, or time is up."""
        while (way := self.way) is not None:
            self.waiting = True
            try:
                stays = way.wait(self, deadline)
            finally:
                self.waiting = False
            if not stays:
                self.way = None
            # Not only what was posted: what others decided may have been done here, and
            # what came by that way may be in a mailbox.
            late = deadline is not None and deadline <= _sync.monotonic()
            if late or self._ready or self._requests or self.inbox.items:
                return self.inbox.take_now() if self.inbox.items else deque()
        return self.inbox.take(deadline)

    def _distribute(self, items: Iterable[Any]) -> list[Any]:
        """Put what came into the mailboxes; return what is for somebody else by now.

        That is asked a second time here (BUS-ROUTE-3); only a task that is just being
        taken out can have left. Requests are done later, since they may move tasks.
        """
        strays = []
        for item in items:
            if type(item) is Request:
                self._requests.append(item)
            elif item._to.place is self:
                self._put(item._to.box, item)
            else:
                strays.append(item)
        return strays

    def _put(self, box: Mailbox, item: Any) -> None:
        items = box.begin() if box.items is None else box.items
        items.append(item)
        if not (box.ready or box.held):
            box.ready = True
            self._ready.append(box)

    def _review(self, box: Mailbox) -> None:
        if box.items and not (box.ready or box.held):
            box.ready = True
            self._ready.append(box)

    def _turn(self, slice_s: float = 0.0) -> None:
        """Let the task whose turn it is read one item.

        slice_s: for how long it may go on if all it has is commands that came together,
          and nobody waits for a turn.
        """
        ready = self._ready
        if not ready:
            return  # it was taken out meanwhile
        box = ready[0]
        # Anew: a callback before may have taken long.
        self.since = now = _sync.monotonic()
        # The box keeps its place, and then the next one, as long as it may have
        # anything to read: an interrupt between two of these steps costs one more turn,
        # in which there is nothing, and no task its turn for good.
        item = self._next(box, now)
        if item is None:
            box.ready = False
            ready.popleft()
            return
        if type(item) is CommandRun:
            ready.rotate(-1)
            self._read(box, item, now + slice_s)
            return
        assert box.items is not None  # there was something
        if box.items:
            ready.rotate(-1)
        else:
            box.ready = False
            ready.popleft()
        self.callbacks += 1
        self.running = client = box.client
        client.handle(item)
        self.running = None
        if self.inbox.items or self._requests:
            self._take_in(now)

    @staticmethod
    def _next(box: Mailbox, now: float) -> Any:
        """Return what a task reads next: taken out, or a run that it is to read from.

        None if there is nothing. What is not read from a run is taken out of that.
        """
        items = box.items
        while items:
            item = items[0]
            if type(item) is not CommandRun:
                return items.popleft()
            if item:
                late = item.deadline is not None and item.deadline <= now
                if box.client.commands_to is not None and not late:
                    return item
                items.popleft()
                items.extendleft(reversed(item.rest()))
            else:
                items.popleft()
        return None

    def _read(self, box: Mailbox, run: CommandRun, until: float) -> None:
        """Let a task read one command, and more until a point of the clock.

        It goes on only as long as there is nothing else to do in this thread. What
        each counted as, and who is told that it was taken, is known of the run.
        """
        client = box.client
        assert client.commands_to is not None
        callback, reference = client.commands_to
        account: Account = run._account
        monotonic = _sync.monotonic
        ready, inbox, requests = self._ready, self.inbox, self._requests
        if run.deadline is not None and run.deadline < until:
            until = run.deadline
        if self._timers and self._timers[0][0] < until:
            until = self._timers[0][0]
        first, now = run.at, 0.0
        account.begin(run, inbox.lock)
        self.running = client
        try:
            client.begins(run)
            for message in run.read(reference):
                try:
                    callback(message)
                except Exception:  # noqa: BLE001 # contained (BUS-MSG-13)
                    client.raised(callback)
                now = monotonic()
                if now >= until or len(ready) > 1 or inbox.items or requests:
                    self.since = now
                    break
                self.since = now  # a statement before the jump: see `_sync.Lock`
        finally:
            self.callbacks += run.at - first
            account.settle(inbox.lock)
            client.has_read(run)
            self.running = None
        if not run and box.items and len(box.items) == 1:
            box.items.popleft()
            box.ready = False
            ready.remove(box)
        if inbox.items or requests:
            self._take_in(now)

    def _stop(self, until: float) -> None:
        self._stop_at = until
