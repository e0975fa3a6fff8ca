"""`ThreadManager`: the tasks of one thread of a bus, and the work of that thread.

The `Scheduler` gives turns to the tasks. Between two turns the manager drains the
inbox, moves tasks to other threads, and runs due timers.

Only the thread itself, the one that called `adopt`, may call the methods, unless their
docstrings say otherwise.

`call_in_host_thread` calls a function in the thread that hosts a task. The task may
move, or deregister, at any time; so each attempt looks up the host again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from bus.kernel.tasks.actions import Answer
from bus.kernel.tasks.runs import InboundRun
from bus.model.events import BusOperation
from bus.model.message import Incoming
from bus.process.account import Admission
from bus.process.failures import InternalErrors
from bus.process.inbox import Inbox
from bus.process.mailbox import Mailbox
from bus.process.scheduler import Scheduler
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterable

    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.trace import TraceSink
    from bus.process.account import Place
    from bus.process.mailbox import Delivery

__all__ = ["Request", "ThreadManager", "call_in_host_thread", "move"]


def call_in_host_thread(entry: Entry, act: Callable[[], None]) -> None:
    """Call ``act`` in the thread that hosts a task, between two callbacks.

    If the calling thread hosts the task and is between two callbacks, it calls
    ``act`` at once. A thread that waits on the fast path does not: there it may
    execute actions of its whole process. The call never precedes the opening of the
    mailbox.
    """

    def here() -> None:
        host = entry.host
        if host is None:
            return
        if not host.is_owner():
            host.ask(here)  # the task has moved since
        elif entry.mailbox.held:
            entry.mailbox.deferred.append(here)
        else:
            act()

    host = entry.host
    if host is None:
        return
    if host.between_callbacks():
        here()
    else:
        host.ask(here)


def move(entry: Entry, to: ThreadManager, trace_sink: TraceSink | None = None) -> None:
    """Move a task to another thread, after the current callback (BUS-MOVE-2).

    Its unread items move along. If that thread has ended, the task stays.
    """

    def go() -> None:
        if entry.host is not None and entry.host is not to:
            _hand_over(entry, to)
            if trace_sink is not None and entry.host is to:
                trace_sink.on_task_event(BusOperation.MOVE, entry.id.number)

    call_in_host_thread(entry, go)


def _hand_over(entry: Entry, to: ThreadManager) -> None:
    host: ThreadManager = entry.host
    new = Mailbox(entry.mailbox.client)
    unread: list[Any] = []

    def opens() -> None:
        if new.held:
            to.open(entry, unread)
        else:
            to.resume(new)

    try:
        if to.expect(new):
            host.remove(entry, to, new, unread)
            to.ask(opens)
    except BaseException:
        # An interrupt: the other thread must not wait for a task that never comes.
        if entry.host is to:
            to.ask(opens)
        else:
            to.cancel_expect(new)
        raise


def _unpack_runs_locked(place: Place, entry: Entry) -> None:
    """Replace the runs for a task by their unread messages."""
    for item in list(place.items or ()):
        if type(item) is InboundRun and item._to is entry and item:
            item._account.unpack_locked(item, place)


_TURNS_MAX: Final = 64  # turns before a thread runs the next full round of `_serve`
# Maximum time, in seconds, that a task reads from one run before it reports its reads.
_SLICE_S: Final = 0.001


class Request:
    """A function that a thread calls between two callbacks."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], object]) -> None:
        self.run: Final = run


class WaitableLink(Protocol):
    """A link at which a task thread may wait; see `bus.process.fast_path_driver`."""

    def return_lease(self, host: ThreadManager) -> None:
        """Release the read lease of the link, if ``host`` holds it."""

    def wait(self, host: ThreadManager, deadline: float | None) -> bool:
        """Wait for the link, and for the inbox of the calling thread, ``host``.

        Return False if the next wait must be for the inbox alone.
        """


class ThreadManager:
    """The tasks of one thread, and their mailboxes.

    Attributes:
        name: the name of the thread, for errors and logs.
        ident: the ident of the thread; None before a thread has called `adopt`.
        main: True if that is the main thread, the only one that can be interrupted.
        scheduler: the run queue and the timers. call_at: sets a timer.
        link_wait: the fast path where the thread may wait, besides its inbox, for
          messages of its peers; None for the inbox alone. Any thread may set it,
          without a lock; the thread itself clears it.
        waits_next: True if the thread waits next, unless it finds work.
        leased: the fast path whose read lease the thread holds, so that no other
          thread reads the link; None if it holds none.
        waiting: True while the thread waits on the fast path. Its actions then serve
          the whole process and are not between two callbacks, so nothing is done to
          its own tasks at once.
        driving: the lock that a thread holds while it serves; its caller takes it. A
          thread that takes over acquires it first.
        on_internal_error: called after an error of the code of the bus in `run`.
        ended: True if no thread serves the manager any more.
        stop_at: the time at which `run` returns even if something is left to do, on the
          monotonic clock in seconds; None before `stop`.
        thread: the `bus.api.bus_thread.BusThread` whose manager this is.
    """

    __slots__ = (
        "_answered",
        "_expected",
        "_put",
        "_ready",
        "_requests",
        "call_at",
        "driving",
        "ended",
        "ident",
        "inbox",
        "leased",
        "link_wait",
        "main",
        "name",
        "on_internal_error",
        "scheduler",
        "stop_at",
        "thread",
        "waiting",
        "waits_next",
    )

    thread: Any

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.inbox: Final = Inbox()
        self.ident: int | None = None
        self.main: bool = False
        self.driving: Final[_thread.LockType] = _sync.Lock()
        self.on_internal_error: Callable[[], object] | None = None
        self.link_wait: WaitableLink | None = None
        self.waits_next: bool = False
        self.leased: WaitableLink | None = None
        self.waiting: bool = False
        # Both guarded by the inbox's lock. The mailboxes of tasks that will be opened
        # here keep the thread from ending.
        self._expected: Final[set[Mailbox]] = set()
        self.ended: bool = False
        self._requests: Final[deque[Request]] = deque()
        # True if `accept` has handed an answer to a caller that waits in this thread.
        self._answered: bool = False
        self.scheduler: Final = Scheduler(self.inbox, self._requests)
        # Used for each message, so looked up once.
        self._put: Final = self.scheduler.put
        self._ready: Final = self.scheduler.ready
        self.call_at: Final = self.scheduler.call_at
        self.stop_at: float | None = None

    # Called in any thread.

    def is_owner(self) -> bool:
        """Return True if the calling thread has adopted this manager."""
        return self.ident == _sync.get_ident()

    def between_callbacks(self) -> bool:
        """Return True if the owner calls, between two callbacks and not in a wait."""
        return (
            self.ident == _sync.get_ident()
            and self.scheduler.running is None
            and not self.waiting
        )

    def expect(self, mailbox: Mailbox) -> bool:
        """Announce that a task will be opened here; return False if this has ended.

        An interrupted caller does not learn whether the announcement was recorded. So
        the mailbox identifies it, and the caller can withdraw it or open the mailbox in
        either case.
        """
        with self.inbox.lock:
            if self.ended:
                return False
            self._expected.add(mailbox)
            return True

    def cancel_expect(self, mailbox: Mailbox) -> None:
        """Withdraw an announcement; does nothing if there is none."""
        with self.inbox.lock:
            if mailbox not in self._expected:
                return
            self._expected.remove(mailbox)
        self.ask(self.pending)  # wakes the thread, so that it tries `end` again

    @property
    def idle(self) -> bool:
        """True if the thread sleeps and no item for it is unread.

        The mailboxes count, too: a thread that waits on the fast path delivers messages
        to them directly, and later messages must not overtake these.
        """
        return not self.pending() and self.inbox.idle

    def post(self, message: Delivery) -> Admission:
        """Post an item for a task that this manager hosts; see `Inbox.offer`."""
        # The direct path is for an empty inbox only: an item there may be an earlier
        # one of the same sender (BUS-MSG-15). Concurrent items have no order. A
        # recorded message always takes the inbox: it gets its number under the inbox's
        # lock, and the numbers must follow the order of the inbox (B5).
        if (
            self.ident == _sync.get_ident()
            and not self.inbox.items
            and not self.waiting
            and message._trace is None
        ):
            return self._post_inside(message)
        return self.inbox.offer(message, self)

    def ask(self, request: Callable[[], object]) -> None:
        """Request a call in this thread, between two callbacks of its tasks."""
        self.inbox.push(Request(request))

    def set_timer(self, deadline: float, due: Callable[[], object]) -> None:
        """Set a timer from any thread; see `Scheduler.call_at`."""
        if self.is_owner() and not self.waiting:
            self.call_at(deadline, due)
        else:
            self.ask(lambda: self.call_at(deadline, due))

    def stop(self, until: float) -> None:
        """Make `run` return when nothing is left to do, at ``until`` at the latest.

        If an interrupt has lost the request of an earlier call, this one counts.
        """
        if self.stop_at is None:
            self.ask(lambda: self._stop(until))

    # Called in the thread itself.

    def adopt(self) -> None:
        """Make the calling thread the owner; no other thread serves."""
        self.main = _sync.may_be_interrupted()
        self.ident = _sync.get_ident()

    def run(self) -> None:
        """Serve until stopped; an internal error ends only the step in which it occurs.

        So a lack of memory, for example in a read, ends no task of this thread.
        """
        errors, failed = InternalErrors(f"thread {self.name!r}"), False
        try:
            while self.stop_at is None or (
                self.pending() and _sync.monotonic() < self.stop_at
            ):
                try:
                    # Here: an error of this call, too, ends only this step.
                    again, failed = failed, False
                    if again and self.on_internal_error is not None:
                        self.on_internal_error()
                    assert self.ident == _sync.get_ident()
                    self.step(None)
                    if self._ready:
                        self._serve_on()
                    if again:
                        errors.on_success()
                except Exception as error:  # of the bus: a callback contains its own
                    if not self.is_owner():
                        raise
                    failed = True
                    errors.on_error(error)
        finally:
            # Also after an interrupt: else no thread would read the link.
            if self.is_owner():
                self.return_lease()

    def poll(self, until: float | None) -> int:
        """Serve the items that are here; wait for one until a deadline.

        until: on the monotonic clock in seconds; None for no limit, 0 for no wait.

        Return the number of callbacks run. The next call serves the items that these
        callbacks cause in this thread.
        """
        try:
            return self.step(until)
        finally:
            if self.leased is not None:
                self.return_lease()

    def step(self, until: float | None) -> int:
        """As `poll`; the thread may still hold a read lease afterwards."""
        inbox, timers = self.inbox, self.scheduler.timers
        if inbox.taken:
            self._give_back()  # an interrupt has ended an earlier call of it
        self.waits_next = self._answered = False
        if self._ready or self._requests or inbox.items:
            self.return_lease()
        else:
            if timers and (until is None or timers[0][0] < until):
                until = timers[0][0]
            while (waitable := self.link_wait) is not None:
                self.waiting = True
                try:
                    stays = waitable.wait(self, until)
                finally:
                    self.waiting = False
                if not stays:
                    self.link_wait = None
                # Check more than the inbox: this thread may have executed actions of
                # other threads, and the fast path may have put messages into mailboxes.
                if (
                    self._answered
                    or self._ready
                    or self._requests
                    or inbox.items
                    or (until is not None and until <= _sync.monotonic())
                ):
                    break
            else:
                inbox.wait(until)
        if self._requests or inbox.items:
            self._drain_inbox()
        if self._answered and not (
            self._ready or (timers and timers[0][0] <= _sync.monotonic())
        ):
            return 0  # to the caller, which waited for that
        return self._serve()

    def return_lease(self) -> None:
        """Release the read lease of the fast path, since there is other work."""
        self.waits_next = False
        if self.leased is not None:
            self.leased.return_lease(self)
            self.leased = None  # last: after an interrupt the next call repeats this

    def pending(self) -> object:
        """Return a true value if there is work: ready tasks, requests, or items."""
        return self._ready or self._requests or self.inbox.items

    def _serve(self) -> int:
        """Give one turn to each task that is ready; return the number of turns."""
        scheduler = self.scheduler
        timers = scheduler.timers
        if timers:
            now = _sync.monotonic()
            while timers and timers[0][0] <= now:
                scheduler.fire()
        if not self._ready:
            return 0
        turns = len(self._ready)
        inbox, requests = self.inbox, self._requests
        try:
            for _ in range(turns):
                scheduler.turn()
                if inbox.items or requests:
                    self._drain_inbox()
                # A plain statement before the jump back: see `_sync.Lock`.
                scheduler.since = None
        except BaseException:
            # An interrupt may have struck between the removal of a message from its
            # mailbox and the note for its sender that the task has taken it.
            scheduler.running = scheduler.since = None
            if self.main and self.on_internal_error is not None:
                self.on_internal_error()
            raise
        return turns

    def _serve_on(self) -> None:
        """Give up to `_TURNS_MAX` more turns, until a timer is due or none is ready.

        This spreads the fixed costs of a `_serve` over many messages.
        """
        scheduler, inbox, requests = self.scheduler, self.inbox, self._requests
        try:
            for _ in range(_TURNS_MAX):
                due = scheduler.timers and scheduler.timers[0][0] <= _sync.monotonic()
                if not self._ready or due or self.stop_at is not None:
                    return
                scheduler.turn(_SLICE_S)
                if inbox.items or requests:
                    self._drain_inbox()
                scheduler.running = None  # as in `_serve`
        finally:
            scheduler.running = scheduler.since = None

    def end(self) -> bool:
        """Refuse further tasks; return False if some are announced or posted here."""
        with self.inbox.lock:
            self.ended = not (self._expected or self.inbox.items)
            return self.ended

    def open(self, entry: Entry, first: Iterable[Incoming]) -> None:
        """Open the mailbox of a task; put the items sent earlier in front."""
        mailbox: Mailbox = entry.mailbox
        with self.inbox.lock:
            self._expected.discard(mailbox)
        mailbox.client.on_arrival(entry, self)
        mailbox.open(first)
        self.resume(mailbox)

    def resume(self, mailbox: Mailbox) -> None:
        """Do what follows the opening of a mailbox, or what an interrupt left of it."""
        self.scheduler.review(mailbox)
        # Called directly, not as requests: this is between two callbacks, and the
        # thread may never serve again.
        while mailbox.deferred:
            function = mailbox.deferred[0]
            del mailbox.deferred[0]
            try:
                function()
            except Exception:
                raise
            except BaseException:
                mailbox.deferred.insert(0, function)  # an interrupt: called again
                raise

    def remove(
        self,
        entry: Entry,
        to: ThreadManager | None,
        new: Mailbox,
        unread: list[Any],
    ) -> None:
        """Remove a task, set its new host, and put its unread items into ``unread``.

        Its items leave the inbox in the same step. A later sender finds the task at its
        new host, or nowhere. So every item was posted before the change.
        """
        assert self.is_owner()
        old: Mailbox = entry.mailbox
        order = object()
        with self.inbox.lock:
            _unpack_runs_locked(old, entry)
            _unpack_runs_locked(self.inbox, entry)
            own, others = self.inbox.split_locked(entry)
            items = [*(old.items or ()), *own]
            # No call between these lines: an interrupt finds all changes or none. The
            # mailbox may stay in the run queue, empty (I1 of `Scheduler`).
            unread += items
            old.items = None
            self.inbox.items = others
            entry.mailbox, entry.host = new, to
            if to is None:
                entry.order = order  # ends its send batches: a later send raises
            self.inbox.room.wake_all()  # blocked senders look up the new host
        if old.ready:
            self._ready.remove(old)

    def _post_inside(self, message: Delivery) -> Admission:
        """Post an item in the thread itself, without the inbox's lock or a wake-up.

        A message that does not fit at once goes to the inbox, or is refused there.
        """
        entry, lock = message._to, self.inbox.lock
        account: Any = message._account
        if entry.host is not self:
            return Admission.GONE
        if account is not None and not account.admit_at_once(message, lock):
            refused: Admission = self.inbox.offer(message, self)
            return refused
        try:
            self._put(entry.mailbox, message)
        except BaseException:
            if account is not None:
                account.withdraw(message, lock)
            raise
        return Admission.ACCEPTED

    def accept(self, post: Any, comm: Any) -> bool:
        """Put the only message of a `Post` into its mailbox at once, without a wake-up.

        comm: the comm thread of the process.

        Return False and deliver nothing if the task has moved, or an earlier message
        for it may be elsewhere, or the account does not admit the message at once.
        """
        entry, [message], inbox = post.entry, post.messages, self.inbox
        if (
            entry.host is not self
            or inbox.items
            or message.gap  # `InboundDelivery` counts it
            or comm.holds(entry)
        ):
            return False
        mailbox, subscriptions = entry.mailbox, message.subscriptions
        message._account = account = (
            subscriptions[0]._account if subscriptions else mailbox.client.account
        )
        if mailbox.items is None:
            mailbox.begin()
        if not account.admit_at_once(message, inbox.lock):
            return False
        items: Any = mailbox.items
        try:
            # `Scheduler.put`, inlined: called for each message. As there, no call: an
            # interrupt finds the message in the mailbox and on the account, or the
            # action unchanged.
            if not (mailbox.ready or mailbox.held):
                ready = self._ready
                ready += (mailbox,)
                mailbox.ready = True
            items += (message,)
        except MemoryError:
            account.withdraw(message, inbox.lock)
            raise
        return True

    def accept_answer(self, answer: Answer) -> bool:
        """Hand an answer to its caller in this thread, or put it into its mailbox.

        Return False and deliver nothing if the asker has moved, or items are in the
        inbox.
        """
        entry = answer._to
        if entry.host is not self or self.inbox.items:
            return False
        mailbox: Mailbox = entry.mailbox
        if (
            # An item in the mailbox may be an earlier one (BUS-MSG-15).
            not (mailbox.ready or mailbox.held)
            and mailbox.client.try_deliver_directly(answer, self)
        ):
            self._answered = True
            return True
        self._put(mailbox, answer)
        return True

    def _drain_inbox(self) -> None:
        """Drain the inbox and run the requests: there is other work than a wait."""
        self.return_lease()
        if self.inbox.items:
            self._distribute()
        if self._requests:
            self._run_requests()

    def _run_requests(self) -> None:
        while self._requests:
            try:
                self._requests[0].run()
            except Exception:
                del self._requests[0]
                raise
            # Not before: after an interrupt the next call runs the request again.
            del self._requests[0]

    def _distribute(self) -> None:
        """Move the items of the inbox into the mailboxes.

        After an interrupt, or a lack of memory, those not moved are in the inbox.
        """
        inbox = self.inbox
        try:
            inbox.take_over()
            strays = self._move(inbox.taken)
        except BaseException:
            self._give_back()
            raise
        assert not strays

    def _move(self, items: deque[Any]) -> list[Any]:
        """Move items into the mailboxes; return those whose task has left.

        This is the second check of the host (BUS-ROUTE-3). There should be none, since
        `remove` takes the items of its task along. Requests run later, since they may
        move tasks.
        """
        strays = []
        while items:
            item = items[0]
            if type(item) is Request:
                self._requests.append(item)
            elif item._to.host is self:
                self._put(item._to.mailbox, item)
            else:
                strays.append(item)
            del items[0]
        return strays

    def _give_back(self) -> None:
        """Put the items that `_move` has not moved back into the inbox."""
        taken = self.inbox.taken
        if taken and self._has_moved(taken[0]):
            del taken[0]
        self.inbox.give_back()

    def _has_moved(self, item: Any) -> bool:
        """Return True if `_move` has moved an item and not yet removed it."""
        if type(item) is Request:
            moved: Any = self._requests
        else:
            moved = item._to.mailbox.items if item._to.host is self else None
        return bool(moved) and moved[-1] is item

    def _stop(self, until: float) -> None:
        if self.stop_at is None:
            self.stop_at = until
