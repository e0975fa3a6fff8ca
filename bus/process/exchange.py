"""`Exchange`: drives the process manager among the threads of one process.

The manager decides under ``_lock`` and returns actions; the exchange executes them
after it has released the lock. Messages to known names need no decision: the `Router`
posts them without ``_lock``.

Lock order: a serving thread holds ``ThreadManager.driving``, and on the fast path also
``Rounds.hold``. ``_lock`` and the locks of inboxes come after these. A thread holds one
of the latter at a time, except that `try_deliver_now` and `totals` take the lock of an
inbox, and the first one that of a task's questions, under ``_lock``; no thread takes
``_lock`` under one of these.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from bus.errors import BusError, HorizonError
from bus.kernel.tasks.actions import (
    Action,
    Answer,
    Confirm,
    Evict,
    Fail,
    Open,
    Post,
    Resume,
    Settled,
)
from bus.kernel.trace import Tracer
from bus.model.address import is_system
from bus.model.message import Incoming
from bus.model.snapshot import TaskTotals
from bus.process.failures import CallbackFailures
from bus.process.parked_expiry import ParkedExpiry
from bus.process.registration import Emptying, Opening, RegistrationAttempt, undoable
from bus.process.thread_manager import call_in_host_thread
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Sequence

    from bus.kernel.hooks import Hooks, OpenHooks
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.trace import TraceSink
    from bus.model.registration import Visibility
    from bus.process.comm import Comm
    from bus.process.mailbox import Client
    from bus.process.thread_manager import ThreadManager

__all__ = ["Exchange", "FastReceiver"]


class FastReceiver(Protocol):
    """The fast path of one link: see `bus.kernel.fast_path`."""

    def receive(
        self, data: bytes, now: float, todo: deque[Action], *, tasks_only: bool
    ) -> bool:
        """Handle a frame and append its action to ``todo``; return False to refuse."""


T = TypeVar("T")

_Performer: TypeAlias = "Callable[[Any, deque[Action], _thread.LockType], object]"


class Exchange:
    """The decisions of one process, and the actions that follow from them.

    Any thread may call the methods, unless their docstrings say otherwise.

    Attributes:
        manager: the process manager; call it by `decide` or `query` alone.
        trace_sink: the trace sink; None if no journal records the bus.
        hooks: those that the features gave when the bus opened.
        remote_features: each gives its hooks to the comm thread; see `RemoteManager`.
        comm: the comm thread; None while this process is alone on the bus.
        failures: logs the exceptions of callbacks.
        parked_expiry: the timer that expires parked messages.
        performers: the functions that perform the actions of features, by type. Each is
            called with the action, the queue of actions and the lock; after an
            interrupt it is called again. After a `HorizonError` the process leaves the
            bus.
        find: returns the task that has a name; None if there is none. It takes no lock.
        send_at_once: `Router.send` of this bus, for messages that waited; set by the
            router.
    """

    __slots__ = (
        "_acting",
        "_emptyings",
        "_lock",
        "_past",
        "_taken",
        "_todo",
        "comm",
        "failures",
        "find",
        "hooks",
        "manager",
        "parked_expiry",
        "performers",
        "remote_features",
        "send_at_once",
        "trace_sink",
    )

    send_at_once: Callable[[Incoming], None]

    def __init__(
        self,
        manager: ProcessManager,
        trace_sink: TraceSink | None = None,
        hooks: Sequence[OpenHooks] = (),
        remote_features: Sequence[Callable[[RemoteManager], Hooks]] = (),
    ) -> None:
        self.manager: Final = manager
        self.trace_sink: Final = trace_sink
        self.hooks: Final = hooks
        self.remote_features: Final = remote_features
        self.comm: Comm | None = None
        self.failures: Final = CallbackFailures()
        # Guards the manager, except for look-ups in its table, and the queue of
        # actions. One thread at a time executes these, in the order of the decisions.
        # The fast path sends under the lock, too, if no action is pending or under way.
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self._todo: deque[Action] = deque()
        self._acting: bool = False
        self._taken: Action | None = None  # off the queue, not yet begun
        # Those that are under way, or were when an interrupt came. Only the thread that
        # hosts the task changes its item.
        self._emptyings: Final[dict[Entry, Emptying]] = {}
        # The counters of the tasks that have departed.
        self._past: TaskTotals = TaskTotals()
        self.performers: Final[dict[type, _Performer]] = {
            kind: perform for each in hooks for kind, perform in each.performers.items()
        }
        self.parked_expiry: Final = ParkedExpiry(
            manager, self._lock, self._todo, self.decide
        )
        self.find: Final = manager.table.find

    def decide(self, event: Callable[[], list[Action]]) -> None:
        """Pass an event to the manager, and execute the resulting actions.

        If another thread is executing actions, that thread executes these, too.
        """

        def queue() -> None:
            actions = event()
            # No call between these lines: an interrupt comes before all or after all.
            self._todo += actions
            self.manager.parked.removals = None

        self._decide(queue)
        self.act()
        self._request_flush()

    def query(self, event: Callable[[], Any]) -> Any:
        """Query the manager under the lock; ``event`` must not change it."""
        with self._lock:
            return event()

    def try_deliver_now(
        self, link: FastReceiver, frame: bytes, host: ThreadManager
    ) -> bool | None:
        """Handle a frame on the fast path, and try to deliver its message now.

        A message for a task of the calling thread, whose manager is ``host``, is
        delivered at once if no action precedes it. Otherwise its action is queued.

        Return True if its message is in the mailbox of the addressee, False if an
        action is queued for `act`, and None if the frame must be handled as part of a
        round of the comm thread.
        """
        with self._lock:
            todo = self._todo
            first = not (todo or self._acting)
            if not link.receive(frame, _sync.monotonic(), todo, tasks_only=host.main):
                return None
            if first:
                action = todo[0]
                try:
                    accepted = (
                        host.accept_answer(action)
                        if type(action) is Answer
                        else host.accept(action, self.comm)
                    )
                except BaseException:
                    # After an interrupt, an answer may be delivered twice, which is
                    # harmless; a command that is in its mailbox may not.
                    if type(action) is Post and not action.messages:
                        del todo[0]
                    raise
                if accepted:
                    del todo[0]
                    return not todo
            return False

    def decide_remote(self, event: Callable[[], Any]) -> None:
        """Pass the manager an event that only affects other processes."""
        self._decide(event)
        self._request_flush()

    def _decide(self, event: Callable[[], T]) -> T:
        """Call ``event`` under the lock, and count it as a decision."""
        with self._lock:
            self.manager.revision += 1
            return undoable(self.manager, event)

    def count_unheard(self, entry: Entry) -> None:
        """Count a notification without subscribers, while this process is alone."""
        with self._lock:
            entry.no_subscriber += 1

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
            NameTakenError: see `ProcessManager.claim`.
            UnknownTaskError: the thread has ended.
        """
        attempt = RegistrationAttempt(
            self.manager, self._todo, self.trace_sink, host, client
        )
        try:
            attempt.announce()
            entry = self._decide(lambda: attempt.register(name, visibility, bus))
            self.act()
            self._request_flush()
        except BusError:
            attempt.withdraw()
            raise
        except BaseException:
            # An interrupt: the caller gets no task that it could deregister.
            if (registered := self.query(attempt.find)) is None:
                attempt.withdraw()
                self._request_flush()  # a relay may have lost the name
            else:
                self.decide(lambda: attempt.undo(registered))
                self.deregister(registered, final=False)
            raise
        return entry

    def deregister(self, entry: Entry, *, final: bool, moved_to: str = "") -> None:
        """Deregister a task; its thread empties the mailbox between two callbacks.

        After an interrupt the next call continues.

        moved_to: as `Entry.moved_to`.
        """
        # An interrupted registration may still hold the openings back.
        entry.mailbox.client.run_openings()

        def leave() -> list[Action]:
            if entry in self.manager.table:
                entry.moved_to = moved_to
            self.manager.leave(entry, self._todo, final=final)
            return []

        def empty() -> None:
            self._empty(entry, final=final)

        self.decide(leave)
        begun = self._emptyings.get(entry)
        if begun is None:
            call_in_host_thread(entry, empty)
        elif begun.host.between_callbacks():
            empty()
        else:
            begun.host.ask(empty)

    def hosted_by(self, host: ThreadManager) -> list[Entry]:
        """Return the tasks of a thread; also those whose departure is not finished."""

        def hosted() -> list[Entry]:
            leaving = self.manager.departures.leaving.values()
            entries = [
                *self.manager.table,
                *(entry for each in leaving for entry, _ in each),
            ]
            return [entry for entry in entries if entry.host is host]

        begun = list(self._emptyings.items())
        cut_off = [entry for entry, emptying in begun if emptying.host is host]
        return [*self.query(hosted), *cut_off]

    def totals(self) -> TaskTotals:
        """Return the sums of the counters of all tasks, departed ones included."""
        departures = self.manager.departures
        with self._lock:
            hosts = {entry: entry.host for entry in self.manager.table}
            for leaving in departures.leaving.values():
                hosts |= {entry: entry.host for entry, _ in leaving}
            # Last: an entry loses its host only while it is one of these.
            for entry, emptying in [*self._emptyings.items()]:
                hosts[entry] = emptying.host
            found = self._past
            # No condition in the loop: its jump back would leave the lock taken on an
            # interrupt (`_sync.Lock`).
            local = [
                (entry, host)
                for entry, host in hosts.items()
                if host is not None and not entry.remote
            ]
            for entry, host in local:
                found += _totals_of(entry, host)
        return found

    def tracer(self, entry: Entry) -> Tracer | None:
        """Return the tracer for a task's messages; None if no journal records them."""
        if self.trace_sink is None:
            return None
        return Tracer(self.trace_sink, entry.id.number, itertools.count(1), entry.name)

    # Messages.

    def park(
        self, name: str, message: Incoming, *, again: bool = False
    ) -> Entry | None:
        """Park a command, or return the task that has registered its name by now.

        again: as for `ProcessManager.park`.

        Raises:
            BusFullError: the parked list has no room (BUS-FLOW-2).
        """
        host = message._source.host
        try:
            entry = self._decide(partial(self._park, name, message, again=again))
            if entry is None:
                message._source.order = object()
                self._request_flush()  # the comm thread starts the search
                if host is not None:
                    self.parked_expiry.schedule(host)
        except BaseException:
            # After an interrupt the message may be parked, and must not wait for ever.
            if host is not None:
                self.parked_expiry.schedule(host)
            raise
        return entry

    def _park(self, name: str, message: Incoming, *, again: bool) -> Entry | None:
        entry = self.manager.park(name, message, _sync.monotonic(), again=again)
        if entry is None and message._trace is not None:
            message._trace.wait()
        return entry

    # Actions of the manager.

    @property
    def at_rest(self) -> bool:
        """True if no action is pending or under way; for a holder of the lock."""
        return not (self._todo or self._acting)

    def on_internal_error(self) -> None:
        """Check the accounts with other processes after an error of a task's thread."""
        if self.comm is not None:
            self.comm.on_internal_error()

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
            # The lines under the lock are one step: no interrupt comes in between.
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
                # The action was not begun, so it goes back. Only an answer, a report, a
                # confirmation or a feature's action may have begun: to repeat it is
                # harmless.
                if self._taken is not None and mine:
                    self._todo.appendleft(self._taken)
                    self._taken = None
                if mine:
                    self._acting = False  # the next caller continues
            self._request_flush()  # in any case the comm thread, if there is one
            raise

    def _do(self, action: Action) -> None:  # a dispatch table
        if type(action) is Answer:
            assert self.comm is not None
            self.comm.do(action)
            self._taken = None
            return
        if type(action) is Fail:
            message = action.message
            message._source.mailbox.client.on_undeliverable(message, action.error)
            # Not before: an interrupt puts it back, and a repeated report is harmless.
            self._taken = None
            return
        if type(action) is Open:
            self._open(action.entry, action.messages)
            return
        if type(action) is Post:
            assert self.comm is not None
            self._taken = None
            try:
                self.comm.do(action)
            except BaseException:
                # After an interrupt, too: the action has the messages that are left.
                # The first of the others may be held back, and wait for its turn.
                self._taken = action if action.messages else Resume(action.entry)
                raise
            return
        if type(action) is Settled:
            action.callback()
            self._taken = None  # not before, as above
            return
        if (perform := self.performers.get(type(action))) is not None:
            self._perform(perform, action)
            # Not before: an interrupt puts it back, and the performer continues it. No
            # message may precede its horizon.
            self._taken = None
            return
        self._taken = None  # no call between this line and those below
        match action:
            case Confirm(entry):
                entry.mailbox.client.on_confirmed()
            case Evict(entry, error):
                told = entry.mailbox.client.on_evicted(entry, error)
                self.deregister(entry, final=False)
                if not told:
                    assert self.comm is not None  # the master is another process
                    self.comm.report(f"task {entry.name!r} is deregistered: {error}")
            case _:
                assert self.comm is not None
                try:
                    self.comm.do(action)
                except BaseException:
                    self.comm.on_cut_off(action)
                    raise

    def _perform(self, perform: _Performer, action: Action) -> None:
        try:
            perform(action, self._todo, self._lock)
        except HorizonError as error:
            assert self.comm is not None  # the messages came from another process
            self.comm.fail(error)

    def _open(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Open a task; fail each message that was parked for it and finds no room."""
        if entry.remote:
            assert self.comm is not None
            _address(messages, entry)
            taken, self._taken = self._taken, None
            try:
                self.comm.open(entry, messages)
            except MemoryError:
                if not entry.mailbox.opened:
                    self._taken = taken  # nothing of it is done
                raise
            return
        opening = Opening(entry, messages)
        try:
            self._taken = None
            opening.open()
        except BaseException:
            # After an interrupt, too: the thread cannot end, no message may be lost.
            opening.open()
            raise

    def _empty(self, entry: Entry, *, final: bool) -> None:
        """Empty the mailbox of a deregistered task, in the thread that hosts it."""
        emptying = self._emptyings.get(entry)
        if emptying is None:
            if entry.host is None:
                return  # it was called twice
            emptying = self._emptyings[entry] = Emptying(entry, final=final)
        emptying.take()
        left = partial(emptying.report, self.manager, self._todo, self.trace_sink)
        if self.comm is None:
            self.decide(left)
        else:
            # Queued behind the task's own messages, answers and acknowledgements, so
            # that other processes receive these first.
            self.comm.decide(left)
            self.comm.on_room(entry)
        self.parked_expiry.schedule(emptying.host)
        client: Client = entry.mailbox.client
        client.on_deregistered()
        with self._lock:
            if self._emptyings.get(entry) is emptying:
                past = self._past + _totals_of(entry, emptying.host)
                # No call between these lines: a task is among the past ones or not.
                # Last: until then the next call continues.
                self._past = past
                del self._emptyings[entry]


def _totals_of(entry: Entry, host: ThreadManager) -> TaskTotals:
    """Return the counters of a task; none of one that the bus itself has registered."""
    if is_system(entry.name):
        return TaskTotals()
    client: Client = entry.mailbox.client
    unheard = TaskTotals(no_subscriber=entry.no_subscriber)
    return client.totals(host.inbox.lock) + unheard


def _address(messages: Sequence[Incoming], entry: Entry) -> None:
    """Set the addressee of messages that were parked by name alone."""
    for message in messages:
        if message._to is not entry and message._trace is not None:
            message._trace.record_accepted(entry.id.number)
        message._to = entry
