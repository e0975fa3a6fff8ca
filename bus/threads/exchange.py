"""`Exchange`: one process's bus manager at work among its threads.

The manager decides under ``_lock``; what it decides is done here, after letting go of
it. Messages find their way without that lock as long as there is a route.

Order of locks: none is ever taken under another one. The route is looked up, then the
message is posted; if the task has left its place in between, it is looked up again.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from bus.core.actions import (
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
from bus.core.trace import Tracer
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

    from bus.core.process_manager import ProcessManager
    from bus.core.routing_table import Entry, Visibility
    from bus.core.trace import Witness
    from bus.errors import BusFullError
    from bus.payload import Payload
    from bus.threads.comm import Comm
    from bus.threads.thread_manager import ThreadManager

__all__ = ["Exchange", "Slip"]

T = TypeVar("T")


class Slip(enum.Enum):
    """What became of something that came outside of a round.

    REFUSED: it is to be read as all else. WAITS: it waits for `Exchange.act`. DONE: it
    is in the mailbox of its task.
    """

    REFUSED = enum.auto()
    WAITS = enum.auto()
    DONE = enum.auto()


class Slipping(Protocol):
    """What a frame may come by outside of a round: see `bus.core.shortcut`."""

    def came(
        self, data: bytes, now: float, todo: deque[Action], *, answers_only: bool
    ) -> bool:
        """Take a frame; what is to be done joins ``todo``. False if it may not."""


class Exchange:
    """Registers tasks, finds who is addressed, and posts to where that is.

    Every method may be called in any thread, unless it says otherwise.

    send_timeout_s: how long a sender waits for a receiver that holds it back.
    may_wait: whether the calling thread may wait: it runs no callback.
    witness: who is told what happens here; None if nothing is recorded.
    comm: who speaks with other processes; None while this one is alone.
    failures: logs the exceptions of callbacks.
    """

    __slots__ = (
        "_acting",
        "_lock",
        "_may_wait",
        "_reminded",
        "_send_timeout_s",
        "_taken",
        "_todo",
        "comm",
        "failures",
        "find",
        "manager",
        "witness",
    )

    def __init__(
        self,
        manager: ProcessManager,
        *,
        send_timeout_s: float,
        may_wait: Callable[[], bool],
        witness: Witness | None = None,
    ) -> None:
        self._send_timeout_s: Final = send_timeout_s
        self._may_wait: Final = may_wait
        self.manager: Final = manager
        self.witness: Final = witness
        self.comm: Comm | None = None
        self.failures: Final = CallbackFailures()
        # Guards the manager, but for its table's look-up, and what it wants done: that
        # is done in the order in which it was decided, by one thread at a time.
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self._todo: deque[Action] = deque()
        self._acting: bool = False
        self._taken: Action | None = None  # out, and not begun
        # When a thread will look at what is parked.
        self._reminded: float | None = None
        self.find: Final = manager.table.find

    def decide(self, event: Callable[[], list[Action]]) -> None:
        """Let the manager decide on an event, and see to what it wants done.

        Another thread may be at it; then that one does this, too.
        """
        self._booked(lambda: self._todo.extend(event()))
        self.act()
        self._nudge()

    def look(self, event: Callable[[], Any]) -> Any:
        """Ask the manager something that has no consequences."""
        with self._lock:
            return event()

    def send_now(self, event: Callable[..., T | None], *about: object) -> T | None:
        """Let something be sent that decides nothing, unless anything is to be done.

        event: called with what follows it; returns what this returns.
        """
        if self._lock.locked():
            return None  # perhaps by this very thread, which runs a finalizer
        with self._lock:
            return None if self._todo or self._acting else event(*about)

    def slip_in(self, link: Slipping, frame: bytes, place: ThreadManager) -> Slip:
        """Let a frame that came, and decides nothing, join what is to be done.

        What is for a task of the calling thread, which is ``place``, is done at once if
        nothing goes before it.
        """
        with self._lock:
            todo = self._todo
            first = not (todo or self._acting)
            if not link.came(frame, _sync.monotonic(), todo, answers_only=place.main):
                return Slip.REFUSED
            if first and self._accepted_by(place, todo[0]):
                # After an interrupt before this an answer is given twice, which does no
                # harm; and only answers come where one may strike.
                del todo[0]
                return Slip.DONE
            return Slip.WAITS

    def _accepted_by(self, place: ThreadManager, action: Action) -> bool:
        if type(action) is Reply:
            return place.accept(answer_of(action))
        assert type(action) is Post
        assert self.comm is not None
        [message] = action.messages
        assert type(message) is Incoming
        if self.comm.holds(action.entry):
            return False
        message._account = action.entry.box.client.account
        return place.accept(message)

    def tell(self, event: Callable[[], Any]) -> None:
        """Tell the manager something that has consequences nowhere but elsewhere."""
        self._booked(event)
        self._nudge()

    def _booked(self, event: Callable[[], T]) -> T:
        """Do something under the lock by which anything may be decided."""
        with self._lock:
            self.manager.revision += 1
            return event()

    def unheard(self, entry: Entry) -> None:
        """Count a notification without a subscriber, in a process without others."""
        with self._lock:
            entry.unheard += 1

    def _nudge(self) -> None:
        if self.comm is not None:
            self.comm.nudge()

    # Tasks.

    def register(
        self,
        name: str,
        visibility: Visibility,
        bus: str,
        place: ThreadManager,
        client: Client,
    ) -> Entry:
        """Let a task of a thread be found.

        Raises:
            NameTakenError: see `ProcessManager.register`.
            UnknownTaskError: that thread has ended.
        """
        box = Mailbox(client)

        def register() -> Entry:
            entry, actions = self.manager.register(
                *(name, visibility, bus, place, box, _sync.monotonic()),
                client.account.overflow,
            )
            if self.manager.awaits_verdict(entry):
                client.asked()  # before anybody can answer
            if self.witness is not None:
                self.witness.registered(entry.id.number, name)
            self._todo.extend(actions)
            return entry

        try:
            if not place.expect(box):
                raise UnknownTaskError("", f"thread {place.name!r} is stopped")
            entry = self._booked(register)
        except BaseException:
            place.expect_not(box)
            raise
        self.act()
        self._nudge()
        return entry

    def deregister(self, entry: Entry, *, final: bool) -> None:
        """Let a task be found no more; its thread empties it between two callbacks."""
        entry.box.client.release()  # in case that it was interrupted
        self.decide(lambda: self.manager.leave(entry, final=final))
        self.at_home(entry, lambda: self._empty(entry, final=final))

    def move(self, entry: Entry, to: ThreadManager) -> None:
        """Let a task go on in another thread, after the callback that runs."""

        def go() -> None:
            if entry.place is not None and entry.place is not to:
                entry.place.hand_over(entry, to)
                if self.witness is not None and entry.place is to:
                    self.witness.moved(entry.id.number)

        self.at_home(entry, go)

    def at_home(self, entry: Entry, act: Callable[[], None]) -> None:
        """Do something in the thread that hosts a task, between two callbacks.

        At once if that is the calling thread, no callback runs, and it does not wait,
        as it may while it does this for its process; not before the task may read what
        was sent to it.
        """

        def here() -> None:
            place = entry.place
            if place is None:
                return
            if not place.owned():
                place.ask(here)  # it has moved since
            elif entry.box.held:
                entry.box.deferred.append(here)
            else:
                act()

        place = entry.place
        if place is None:
            return
        if place.between_callbacks():
            here()
        else:
            place.ask(here)

    def tracer(self, entry: Entry) -> Tracer | None:
        """Return what makes the traces of a task's messages; None if none are made."""
        if self.witness is None:
            return None
        return Tracer(self.witness, entry.id.number, itertools.count(1))

    # Messages.

    def send(self, message: Incoming) -> None:
        """Post a command to whoever has the name it is for, or let it wait for one.

        Raises:
            BusFullError: there is no room (BUS-FLOW-2).
        """
        name = message._name
        assert name is not None
        while True:
            entry = self.find(name)
            if entry is None:
                entry = self._booked(partial(self._park, name, message))
                if entry is None:
                    message._source.order = object()
                    self._nudge()  # who has it is searched for elsewhere
                    place = message._source.place
                    if place is not None:
                        self.look_after_parked(place)
                    return
            message._to = entry
            message._account = entry.box.client.account
            if self.post(message):
                return
            # It has gone; where to, is being decided just now.
            with self._lock:
                pass

    def _park(self, name: str, message: Incoming) -> Entry | None:
        entry = self.manager.park(name, message, _sync.monotonic())
        if entry is None and message._trace is not None:
            message._trace.number()
        return entry

    def waits_s(self) -> float:
        """Return for how long the calling thread may wait for room; 0: not at all."""
        return self._send_timeout_s if self._may_wait() else 0.0

    def look_after_parked(self, place: ThreadManager, *, anew: bool = False) -> None:
        """Let a thread give up in time what has waited too long (BUS-ROUTE-19).

        anew: the one that was to do so has ended.
        """

        def look() -> None:
            now = _sync.monotonic()
            with self._lock:
                self._reminded = None
            self.decide(lambda: self.manager.expire(now))
            self.look_after_parked(place)

        with self._lock:
            deadline = self.manager.parked.next_deadline()
            reminded = None if anew else self._reminded
            if deadline is None or (reminded is not None and reminded <= deadline):
                return
            self._reminded = deadline
        place.remind(deadline, look)

    def post(self, message: Delivery) -> bool:
        """Post to the task that ``_to`` names, wherever it is; False if it is gone.

        Raises:
            BusFullError: there is no room for a message (BUS-FLOW-2).
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
            message._source.order = object()

    def _post(self, message: Delivery, entry: Entry) -> bool:
        while True:
            place = entry.place
            if place is None:
                return False
            admission = place.post(message)
            if admission is Admission.ACCEPTED:
                return True
            if isinstance(message, Incoming):  # nothing else is on an account
                if admission is Admission.FULL:
                    admission = self._overflow(message, place)
                if admission is Admission.DROPPED:
                    message._source.box.client.was_dropped(message)
            if admission is not Admission.GONE:
                return True

    def answered(self, answer: Answer) -> bool:
        """Give an answer to who asked, behind all that was given to it; False if gone.

        Where somebody waits for it in a thread of its own, that of the task need not
        be woken, only to wake that one.
        """
        entry: Entry = answer._to
        place = entry.place
        if place is not None and place.idle:
            client: Client = entry.box.client
            if client.hears(answer):
                return True
        return self.post(answer)

    def answer(self, question: Incoming, payload: Payload, error: str | None) -> None:
        """Send the answer to what came from another process."""
        assert self.comm is not None
        self.comm.answer(question, payload, error)

    def _overflow(self, message: Incoming, place: ThreadManager) -> Admission:
        """Do as the receiver's policy says; to drop something would have helped."""
        overflow = message._account.overflow
        admission = Admission.FULL
        # Nobody else can make room where the caller itself is who reads.
        if overflow == "block" and not place.owned() and self._may_wait():
            until = deadline_after(self._send_timeout_s)
            admission = place.inbox.offer_until(message, place, until)
        if admission is Admission.FULL:
            if overflow == "disconnect":
                message._to.box.client.overflowed(message)
            raise _full(message)
        return admission

    # What the manager wants.

    @property
    def unfinished(self) -> bool:
        """Whether anything is to be done, and no thread is about it."""
        return bool(self._todo) and not self._acting

    def act(self, most: float = math.inf) -> None:
        """Do what is to be done, unless another thread is about it.

        most: how much; whoever asks for less lets another thread go on.
        """
        mine, done = False, 0
        try:
            # What follows is one step for an interrupt: none strikes between two of the
            # lines under the lock.
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
                # And not begun; of a reply a second one does no harm.
                if self._taken is not None and mine:
                    self._todo.appendleft(self._taken)
                    self._taken = None
                if mine:
                    self._acting = False  # who comes next goes on
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
                message._source.box.client.failed(message, error)
            case Confirm(entry):
                entry.box.client.confirmed()
            case Settled(tell):
                tell()
            case Evict(entry, error):
                told = entry.box.client.evicted(entry, error)
                self.deregister(entry, final=False)
                if not told:
                    assert self.comm is not None  # it has the word of another process
                    self.comm.report(f"task {entry.name!r} leaves: {error}")
            case _:
                assert self.comm is not None
                self.comm.do(action)

    def _open(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Let a task read; what waited for it and does not fit comes back full."""
        if entry.remote:
            self._taken = None
            assert self.comm is not None
            for message in messages:
                message._to = entry  # it is known by now who is to have it
                if message._trace is not None:
                    message._trace.accepted(entry.id.number)
            self.comm.open(entry, messages)
            return
        place: ThreadManager = entry.place  # it stays there until it is open
        box: Mailbox = entry.box
        fits: list[Incoming] = []

        def opens() -> None:
            if box.held:  # an interrupted thread may ask for this again
                place.open(entry, fits)

        def opens_there() -> None:
            # The thread leaves itself no request for later: it may never serve, and
            # then its inbox would keep each task that registers and leaves.
            if place.between_callbacks():
                opens()
            else:
                place.ask(opens)

        try:
            self._taken = None
            self._admit_first(entry, messages, fits)
            if not box.client.postponed(opens_there):
                opens_there()
        except BaseException:
            # After an interrupt, too: its thread does not end before.
            if not box.client.postponed(opens_there):
                opens_there()
            raise

    def _admit_first(
        self, entry: Entry, messages: Sequence[Incoming], fits: list[Incoming]
    ) -> None:
        """Put on a task's account what waited for it; what has room joins ``fits``."""
        place, account = entry.place, entry.box.client.account
        dropped: list[Incoming] = []
        for message in messages:
            message._to, message._account = entry, account
            with place.inbox.lock:
                admission = account.admit_locked(message, dropped)
            if admission is Admission.ACCEPTED:
                if message._trace is not None:
                    message._trace.accepted(entry.id.number)
                fits.append(message)
            else:
                message._source.box.client.failed(message, _full(message))
        for message in dropped:
            message._source.box.client.was_dropped(message)

    def _empty(self, entry: Entry, *, final: bool) -> None:
        """Take out a task that has left, in its own thread."""
        place: ThreadManager = entry.place
        unread = []
        client: Client = entry.box.client
        for item in [*client.unclaimed(), *place.let_go(entry)]:
            if type(item) is Incoming and item._account.extract(item, place.inbox.lock):
                item._account.returned += 1
                item.gap = 0  # that was for this receiver
                unread.append(item)
            elif type(item) is Answer:
                client.unheard(item)
        place.inbox.freed()
        now = _sync.monotonic()

        def left() -> list[Action]:
            actions = self.manager.left(entry, unread, now, final=final)
            if self.witness is not None:
                self.witness.deregistered(entry.id.number)
            return actions

        if self.comm is None:
            self.decide(left)
        else:
            # Behind what it has sent, answered and taken, which others learn first.
            self.comm.decide(left)
            self.comm.left(entry)
        self.look_after_parked(place)
        client.ended()


def _full(message: Incoming) -> BusFullError:
    error: BusFullError = message._account.error(f"task {message._to.name!r}")
    return error
