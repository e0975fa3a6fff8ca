"""`Exchange`: drives the process manager among the threads of one process.

The manager decides under ``_lock`` and returns actions; the exchange executes them
after it has released the lock. Routing a message to a known name takes no ``_lock``.

Lock order: a serving thread holds ``ThreadManager.driving``, and on the fast path also
``FastPathDriver.hold``. ``_lock`` and the locks of inboxes come after these, and none
of them is taken under another. The sender looks up the route, then posts the message.
If the task has moved in between, the sender looks up the route again.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from bus.core.local.actions import (
    Action,
    Confirm,
    Evict,
    Fail,
    Open,
    Post,
    Reply,
    Settled,
    Tell,
)
from bus.core.local.trace import Tracer
from bus.errors import UnknownTaskError
from bus.message import Incoming, Kind
from bus.threads.account import Admission
from bus.threads.callback_failures import CallbackFailures
from bus.threads.delivery import Answer, Delivery, News, answer_of
from bus.threads.mailbox import Client, Mailbox
from queuebroker import _sync
from queuebroker.arguments import deadline_after

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.core.local.process_manager import ProcessManager
    from bus.core.local.routing_table import Entry
    from bus.core.local.trace import TraceSink
    from bus.errors import BusFullError
    from bus.payload import Payload
    from bus.registration import Visibility
    from bus.threads.comm import Comm
    from bus.threads.thread_manager import ThreadManager

__all__ = ["Exchange", "FastDelivery"]

T = TypeVar("T")


class FastDelivery(enum.Enum):
    """The outcome of a frame that a thread of tasks receives on the fast path.

    REFUSED: the frame must be handled as part of a round of the comm thread.
    QUEUED: its action is queued for `Exchange.act`.
    DELIVERED: its message is in the mailbox of the addressee.
    """

    REFUSED = enum.auto()
    QUEUED = enum.auto()
    DELIVERED = enum.auto()


class FastReceiver(Protocol):
    """The fast path of one link: see `bus.core.remote.fast_path`."""

    def receive(
        self, data: bytes, now: float, todo: deque[Action], *, answers_only: bool
    ) -> bool:
        """Handle a frame and append its action to ``todo``; return False to refuse."""


class Exchange:
    """The registrar and router of one process: finds addressees and posts to them.

    Any thread may call the methods, unless their docstrings say otherwise.

    Args:
        send_timeout_s: the maximum time, in seconds, that a sender blocks on a full
          receiver.
        may_wait: returns True if the calling thread may block: it runs no callback.

    Attributes:
        trace_sink: the trace sink; None if no journal records the bus.
        comm: the comm thread; None while this process is alone on the bus.
        failures: logs the exceptions of callbacks.
    """

    __slots__ = (
        "_acting",
        "_lock",
        "_may_wait",
        "_parked_check_at",
        "_send_timeout_s",
        "_taken",
        "_todo",
        "comm",
        "failures",
        "find",
        "manager",
        "trace_sink",
    )

    def __init__(
        self,
        manager: ProcessManager,
        *,
        send_timeout_s: float,
        may_wait: Callable[[], bool],
        trace_sink: TraceSink | None = None,
    ) -> None:
        self._send_timeout_s: Final = send_timeout_s
        self._may_wait: Final = may_wait
        self.manager: Final = manager
        self.trace_sink: Final = trace_sink
        self.comm: Comm | None = None
        self.failures: Final = CallbackFailures()
        # Guards the manager, except for look-ups in its table, and the queue of
        # actions. One thread at a time executes these, in the order of the decisions.
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self._todo: deque[Action] = deque()
        self._acting: bool = False
        self._taken: Action | None = None  # off the queue, not yet begun
        # The time of the next check of the parked list, if a timer is set.
        self._parked_check_at: float | None = None
        self.find: Final = manager.table.find

    def decide(self, event: Callable[[], list[Action]]) -> None:
        """Pass an event to the manager, and execute the resulting actions.

        If another thread is executing actions, that thread executes these, too.
        """
        self._decide(lambda: self._todo.extend(event()))
        self.act()
        self._request_flush()

    def query(self, event: Callable[[], Any]) -> Any:
        """Query the manager under the lock; ``event`` must not change it."""
        with self._lock:
            return event()

    def send_now(self, event: Callable[..., T | None], *about: object) -> T | None:
        """Call a function that sends on the fast path, if no action is pending.

        event: called with the arguments ``about``, under the lock. It makes no decision
          of the manager.

        Return its result, or None if it was not called.
        """
        if self._lock.locked():
            return None  # perhaps this thread holds it, and runs a finalizer
        with self._lock:
            return None if self._todo or self._acting else event(*about)

    def try_deliver_now(
        self, link: FastReceiver, frame: bytes, host: ThreadManager
    ) -> FastDelivery:
        """Handle a frame on the fast path, and try to deliver its message now.

        A message for a task of the calling thread, whose manager is ``host``, is
        delivered at once if no action precedes it. Otherwise its action is queued.
        """
        with self._lock:
            todo = self._todo
            first = not (todo or self._acting)
            if not link.receive(frame, _sync.monotonic(), todo, answers_only=host.main):
                return FastDelivery.REFUSED
            if first and self._try_accept(host, todo[0]):
                # If an interrupt precedes this line, the answer is delivered twice,
                # which is harmless. Only the main thread can be interrupted, and it
                # accepts nothing but answers here.
                del todo[0]
                return FastDelivery.DELIVERED
            return FastDelivery.QUEUED

    def _try_accept(self, host: ThreadManager, action: Action) -> bool:
        if type(action) is Reply:
            return host.accept(answer_of(action))
        assert type(action) is Post
        assert self.comm is not None
        [message] = action.messages
        assert type(message) is Incoming
        if self.comm.holds(action.entry):
            return False
        message._account = action.entry.mailbox.client.account
        return host.accept(message)

    def decide_remote(self, event: Callable[[], Any]) -> None:
        """Pass the manager an event that only affects other processes."""
        self._decide(event)
        self._request_flush()

    def _decide(self, event: Callable[[], T]) -> T:
        """Call ``event`` under the lock, and count it as a decision."""
        with self._lock:
            self.manager.revision += 1
            return event()

    def count_unheard(self, entry: Entry) -> None:
        """Count a notification without subscribers, while this process is alone."""
        with self._lock:
            entry.unheard += 1

    def _request_flush(self) -> None:
        if self.comm is not None:
            self.comm.request_flush()

    # Tasks.

    def register(
        self,
        name: str,
        visibility: Visibility,
        bus: str,
        host: ThreadManager,
        client: Client,
    ) -> Entry:
        """Register a task in a thread.

        Raises:
            NameTakenError: see `ProcessManager.register`.
            UnknownTaskError: the thread has ended.
        """
        mailbox = Mailbox(client)

        def register() -> Entry:
            entry, actions = self.manager.register(
                *(name, visibility, bus, host, mailbox, _sync.monotonic()),
                client.account.overflow,
            )
            if self.manager.awaits_verdict(entry):
                client.await_verdict()  # under the lock: before the master answers
            if self.trace_sink is not None:
                self.trace_sink.on_registered(entry.id.number, name)
            self._todo.extend(actions)
            return entry

        try:
            if not host.expect(mailbox):
                raise UnknownTaskError("", f"thread {host.name!r} is stopped")
            entry = self._decide(register)
        except BaseException:
            host.cancel_expect(mailbox)
            raise
        self.act()
        self._request_flush()
        return entry

    def deregister(self, entry: Entry, *, final: bool) -> None:
        """Deregister a task; its thread empties the mailbox between two callbacks."""
        # An interrupted registration may still hold the openings back.
        entry.mailbox.client.run_openings()
        self.decide(lambda: self.manager.leave(entry, final=final))
        self.at_home(entry, lambda: self._empty(entry, final=final))

    def move(self, entry: Entry, to: ThreadManager) -> None:
        """Move a task to another thread, after the current callback."""

        def go() -> None:
            if entry.host is not None and entry.host is not to:
                entry.host.hand_over(entry, to)
                if self.trace_sink is not None and entry.host is to:
                    self.trace_sink.on_moved(entry.id.number)

        self.at_home(entry, go)

    def at_home(self, entry: Entry, act: Callable[[], None]) -> None:
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

    def tracer(self, entry: Entry) -> Tracer | None:
        """Return the tracer for a task's messages; None if no journal records them."""
        if self.trace_sink is None:
            return None
        return Tracer(self.trace_sink, entry.id.number, itertools.count(1))

    # Messages.

    def send(self, message: Incoming) -> None:
        """Post a command to the task that has its name, or park it.

        Raises:
            BusFullError: the receiver or the parked list has no room (BUS-FLOW-2).
        """
        name = message._name
        assert name is not None
        while True:
            entry = self.find(name)
            if entry is None:
                entry = self._decide(partial(self._park, name, message))
                if entry is None:
                    message._source.order = object()
                    self._request_flush()  # the comm thread starts the search
                    host = message._source.host
                    if host is not None:
                        self.schedule_parked_expiry(host)
                    return
            message._to = entry
            message._account = entry.mailbox.client.account
            if self.post(message):
                return
            # The task has left its host. The thread that decides where the task goes
            # may hold the lock just now: wait for that thread.
            with self._lock:
                pass

    def _park(self, name: str, message: Incoming) -> Entry | None:
        entry = self.manager.park(name, message, _sync.monotonic())
        if entry is None and message._trace is not None:
            message._trace.number()
        return entry

    def waits_s(self) -> float:
        """Return how many seconds the calling thread may block for room; 0 if none."""
        return self._send_timeout_s if self._may_wait() else 0.0

    def schedule_parked_expiry(
        self, host: ThreadManager, *, anew: bool = False
    ) -> None:
        """Set a timer in a thread that expires parked messages (BUS-ROUTE-19).

        anew: True if the thread that had the timer has ended.
        """

        def look() -> None:
            now = _sync.monotonic()
            with self._lock:
                self._parked_check_at = None
            self.decide(lambda: self.manager.expire(now))
            self.schedule_parked_expiry(host)

        with self._lock:
            deadline = self.manager.parked.next_deadline()
            reminded = None if anew else self._parked_check_at
            if deadline is None or (reminded is not None and reminded <= deadline):
                return
            self._parked_check_at = deadline
        host.set_timer(deadline, look)

    def post(self, message: Delivery) -> bool:
        """Post to the task that ``_to`` names; return False if it has deregistered.

        The task may be a local one, or the relay of a task in another process.

        Raises:
            BusFullError: the receiver has no room for the message (BUS-FLOW-2).
        """
        entry: Entry = message._to
        if not (entry.remote and isinstance(message, Incoming)):
            return self._post(message, entry)
        try:
            if message.kind is Kind.COMMAND:
                assert self.comm is not None
                if self.comm.command(message):
                    return True
            return self._post(message, entry)
        finally:
            # Ends the sender's batches: no later command may overtake this message.
            message._source.order = object()

    def _post(self, message: Delivery, entry: Entry) -> bool:
        while True:
            host = entry.host
            if host is None:
                return False
            admission = host.post(message)
            if admission is Admission.ACCEPTED:
                return True
            if isinstance(message, Incoming):  # other deliveries have no account
                if admission is Admission.FULL:
                    admission = self._overflow(message, host)
                if admission is Admission.DROPPED:
                    message._source.mailbox.client.on_dropped(message)
            if admission is not Admission.GONE:
                return True

    def deliver_answer(self, answer: Answer) -> bool:
        """Deliver an answer to the asker, behind all earlier deliveries.

        Return False if the asker has deregistered. If the caller waits in a thread that
        does not host the asker, it is woken directly: the host thread need not wake
        only to wake the caller.
        """
        entry: Entry = answer._to
        host = entry.host
        if host is not None and host.idle:
            client: Client = entry.mailbox.client
            if client.try_deliver_directly(answer):
                return True
        return self.post(answer)

    def answer(self, question: Incoming, payload: Payload, error: str | None) -> None:
        """Send the answer to a message from another process."""
        assert self.comm is not None
        self.comm.answer(question, payload, error)

    def _overflow(self, message: Incoming, host: ThreadManager) -> Admission:
        """Apply the policy of a full receiver: block, disconnect or raise.

        The account applies the two policies that drop.

        Raises:
            BusFullError: the receiver still has no room.
        """
        overflow = message._account.overflow
        admission = Admission.FULL
        # If the caller hosts the receiver, waiting is futile: no other thread reads.
        if overflow == "block" and not host.is_owner() and self._may_wait():
            until = deadline_after(self._send_timeout_s)
            admission = host.inbox.offer_until(message, host, until)
        if admission is Admission.FULL:
            if overflow == "disconnect":
                message._to.mailbox.client.on_overflow(message)
            raise _full(message)
        return admission

    # Actions of the manager.

    @property
    def unfinished(self) -> bool:
        """True if actions are pending and no thread executes them."""
        return bool(self._todo) and not self._acting

    def act(self, most: float = math.inf) -> None:
        """Execute the pending actions, unless another thread is doing so.

        most: the maximum number of actions; the remaining ones wait for the next call.
        """
        mine, done = False, 0
        try:
            # The lines under the lock are one step: no interrupt comes between two of
            # them.
            with self._lock:
                if self._acting:
                    return
                self._acting = mine = True
            while True:
                with self._lock:
                    if not self._todo or done == most:
                        self._acting = mine = False
                        return
                    done += 1
                    action = self._taken = self._todo[0]
                    del self._todo[0]
                self._do(action)
        except BaseException:
            with self._lock:
                # The action was not begun, so it goes back. Only a reply may have
                # begun: to deliver it a second time is harmless.
                if self._taken is not None and mine:
                    self._todo.appendleft(self._taken)
                    self._taken = None
                if mine:
                    self._acting = False  # the next caller continues
            raise

    def _do(self, action: Action) -> None:
        if type(action) is Reply:
            assert self.comm is not None
            self.comm.do(action)
            self._taken = None
            return
        if type(action) is Open:
            self._open(action.entry, action.messages)
            return
        self._taken = None
        match action:
            case Tell(entry, watch, presence):
                self.post(News(_to=entry, watch=watch, presence=presence))
            case Fail(message, error):
                message._source.mailbox.client.on_undeliverable(message, error)
            case Confirm(entry):
                entry.mailbox.client.on_confirmed()
            case Settled(tell):
                tell()
            case Evict(entry, error):
                told = entry.mailbox.client.on_evicted(entry, error)
                self.deregister(entry, final=False)
                if not told:
                    assert self.comm is not None  # the master is another process
                    self.comm.report(f"task {entry.name!r} is deregistered: {error}")
            case _:
                assert self.comm is not None
                self.comm.do(action)

    def _open(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Open a task; fail each message that was parked for it and finds no room."""
        if entry.remote:
            self._taken = None
            assert self.comm is not None
            for message in messages:
                message._to = entry  # parked by name alone; the addressee is known now
                if message._trace is not None:
                    message._trace.record_accepted(entry.id.number)
            self.comm.open(entry, messages)
            return
        host: ThreadManager = entry.host  # the task cannot move until it is open
        mailbox: Mailbox = entry.mailbox
        fits: list[Incoming] = []

        def opens() -> None:
            if mailbox.held:  # after an interrupt this may be called a second time
                host.open(entry, fits)

        def opens_there() -> None:
            # The thread posts no request to itself: it may never serve, and then its
            # inbox would keep every task that registers and deregisters.
            if host.between_callbacks():
                opens()
            else:
                host.ask(opens)

        try:
            self._taken = None
            self._admit_first(entry, messages, fits)
            if not mailbox.client.postpone(opens_there):
                opens_there()
        except BaseException:
            # Open it after an interrupt, too: its thread cannot end before that.
            if not mailbox.client.postpone(opens_there):
                opens_there()
            raise

    def _admit_first(
        self, entry: Entry, messages: Sequence[Incoming], fits: list[Incoming]
    ) -> None:
        """Charge parked messages to an account; append the accepted ones to ``fits``.

        Each other message fails, and its sender gets the error.
        """
        host, account = entry.host, entry.mailbox.client.account
        dropped: list[Incoming] = []
        for message in messages:
            message._to, message._account = entry, account
            with host.inbox.lock:
                admission = account.admit_locked(message, dropped)
            if admission is Admission.ACCEPTED:
                if message._trace is not None:
                    message._trace.record_accepted(entry.id.number)
                fits.append(message)
            else:
                message._source.mailbox.client.on_undeliverable(message, _full(message))
        for message in dropped:
            message._source.mailbox.client.on_dropped(message)

    def _empty(self, entry: Entry, *, final: bool) -> None:
        """Empty the mailbox of a deregistered task, in the thread that hosts it."""
        host: ThreadManager = entry.host
        unread = []
        client: Client = entry.mailbox.client
        for item in [*client.take_unclaimed(), *host.remove(entry)]:
            if type(item) is Incoming and item._account.extract(item, host.inbox.lock):
                item._account.returned += 1
                item.gap = 0  # the gap concerned this receiver alone
                unread.append(item)
            elif type(item) is Answer:
                client.on_unread_answer(item)
        host.inbox.wake_senders()
        now = _sync.monotonic()

        def left() -> list[Action]:
            actions = self.manager.on_emptied(entry, unread, now, final=final)
            if self.trace_sink is not None:
                self.trace_sink.on_deregistered(entry.id.number)
            return actions

        if self.comm is None:
            self.decide(left)
        else:
            # Queued behind the task's own messages, answers and acknowledgements, so
            # that other processes receive these first.
            self.comm.decide(left)
            self.comm.on_room(entry)
        self.schedule_parked_expiry(host)
        client.on_deregistered()


def _full(message: Incoming) -> BusFullError:
    error: BusFullError = message._account.error(f"task {message._to.name!r}")
    return error
