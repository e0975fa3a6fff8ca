"""How the thread that owns the links sleeps: parked, or at the kernel's sockets.

Between threads somebody who sends wakes who sleeps. Between processes nobody can: the
thread itself turns the driver of the sockets, so that what comes is read by the thread
that deals with it, and no other has to be woken for that.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from queuebroker import _sync
from queuebroker.bell import Bell
from queuebroker.errors import DisconnectedError, ReceiveTimeoutError
from queuebroker.sockets.lead import Lead as SocketLead
from queuebroker.sockets.queue import SocketMessageQueue
from queuebroker.status import Status
from queuebroker.waiting import Selection, attend

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterable

    from bus.threads.inbox import Inbox
    from queuebroker.message_queue import MessageQueue
    from queuebroker.sockets import Driver

__all__ = ["Lead", "ParkedSleep", "PolledSleep", "Sleep"]

_FRAMES_MAX: Final = 64  # that another thread reads at once
_GOODBYE_S: Final = 0.5  # for what is on its way out at the end


class Sleep(Protocol):
    """One thread's; every method is for that thread."""

    def attend(self, number: int, queue: MessageQueue) -> None:
        """Wake from now on if anything happens to a queue."""

    def neglect(self, number: int) -> None:
        """Take no notice of a queue any more."""

    def stirred(self) -> list[int]:
        """Return to which queues something may have happened, by their numbers.

        Each is told once; `again` tells it once more. One that is neglected may be
        among them.
        """

    def again(self, number: int) -> None:
        """Let a queue be looked at once more: not all of it was seen to."""

    def until(
        self, inbox: Inbox, ready: Callable[[], bool], deadline: float | None
    ) -> None:
        """Sleep until something may have happened to a queue, or ``ready()``.

        That is looked at whenever something was posted to the inbox.

        deadline: after that it sleeps no more, on the monotonic clock in seconds; None
            for never.
        """

    def lead(self, queue: MessageQueue) -> Lead:
        """Return what lets another thread wait at a queue, for this one."""

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        """Wait until those have ended who make links."""

    def close(self) -> None:
        """Let go of what it sleeps with, once what was sent is out."""


class Lead(Protocol):
    """The right of another thread to read a queue; see `queuebroker.sockets.lead`."""

    def take(self, elsewhere: Inbox) -> bool:
        """Read from now on, and be woken by an inbox, too; False if that may not be."""

    def sleep(self, deadline: float | None) -> None:
        """Sleep until something may be here, or in the inbox, or time is up."""

    def read(self) -> list[bytes]:
        """Return the messages that came; none if the owner has to see how it stands."""

    @property
    def early(self) -> bool:
        """Whether to take it before what is answered by the queue is sent."""

    @property
    def lacks(self) -> int:
        """How many bytes are to come of a message that has begun, 0 if none has."""

    @property
    def ended(self) -> bool:
        """Whether the peer is gone, which the owner is to see."""

    def leave(self, elsewhere: Inbox) -> None:
        """Let the owner read again, if this was taken to be woken by that inbox."""


class ParkedSleep:
    """For queues between threads: listed in each, and in the inbox."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: Final[dict[int, MessageQueue]] = {}

    def attend(self, number: int, queue: MessageQueue) -> None:
        self._queues[number] = queue

    def neglect(self, number: int) -> None:
        self._queues.pop(number, None)

    def stirred(self) -> list[int]:
        return [number for number, queue in self._queues.items() if _stirs(queue)]

    def again(self, number: int) -> None:
        """Nothing: all are looked at each time."""

    def until(
        self, inbox: Inbox, ready: Callable[[], bool], deadline: float | None
    ) -> None:
        queues = list(self._queues.values())

        def look() -> bool:
            return ready() or any(map(_stirs, queues))

        selection = Selection(queues)
        bell = selection.enlist(Bell)
        try:
            with inbox.lock:
                inbox.arrived.enlist(bell)
            # Looked at again: who sent before this was listed could not see it.
            if not look():
                _sync.park(bell.lock, look, deadline)
        finally:
            with inbox.lock:
                inbox.arrived.leave(bell)
            selection.withdraw()

    def lead(self, queue: MessageQueue) -> Lead:
        return _ParkedLead(queue)

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        for helper in helpers:
            helper.join()

    def close(self) -> None:
        """Nothing: what was sent between threads has arrived."""


class _ParkedLead:
    """The lead of a queue between threads: who is there first takes what comes."""

    __slots__ = ("_bell", "_inbox", "_lock", "_queue", "_selection")

    def __init__(self, queue: MessageQueue) -> None:
        self._queue: Final = queue
        # Held by who has it.
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self._selection: Selection | None = None
        self._inbox: Inbox | None = None
        self._bell: Bell

    def take(self, elsewhere: Inbox) -> bool:
        if not self._lock.acquire(False):
            return False
        self._selection = selection = Selection([self._queue])
        self._bell = bell = selection.enlist(Bell)
        self._inbox = elsewhere
        with elsewhere.lock:
            elsewhere.arrived.enlist(bell)
        return True

    def sleep(self, deadline: float | None) -> None:
        inbox, queue = self._inbox, self._queue
        assert inbox is not None

        def look() -> bool:
            return bool(inbox.items) or _stirs(queue)

        if not look():
            _sync.park(self._bell.lock, look, deadline)

    def read(self) -> list[bytes]:
        with suppress(ReceiveTimeoutError, DisconnectedError):
            return self._queue.receive_many(_FRAMES_MAX, timeout=0)
        return []

    lacks: Final = 0  # between threads a message is whole
    early: Final = False

    @property
    def ended(self) -> bool:
        return self._queue.status is not Status.CONNECTED

    def leave(self, elsewhere: Inbox) -> None:
        if self._inbox is not elsewhere:
            return
        with elsewhere.lock:
            elsewhere.arrived.leave(self._bell)
        if self._selection is not None:
            self._selection.withdraw()
            self._selection = None
        self._inbox = None
        self._lock.release()


class PolledSleep:
    """For queues between processes, all of them served by one driver.

    What comes is read by who turns the driver, which is this thread. It notes there
    which queue that was for; so of many links only those are looked at that have
    anything.

    Its bell is listed in the inbox for good, and counts as asleep, under the lock of
    that, only while it is not rung.
    """

    __slots__ = ("_bell", "_driver", "_listed", "_stirred")

    def __init__(self, driver: Driver) -> None:
        self._driver: Final = driver
        self._bell: Final = _DriverBell(driver)
        self._listed: bool = False
        self._stirred: Final[set[int]] = set()

    def attend(self, number: int, queue: MessageQueue) -> None:
        attend(queue, _Ear(number, self._stirred))
        self._stirred.add(number)  # by what came before

    def neglect(self, number: int) -> None:
        self._stirred.discard(number)

    def stirred(self) -> list[int]:
        # One at a time: a helper that makes a link may lose it, and say so just now.
        return sorted([self._stirred.pop() for _ in range(len(self._stirred))])

    def again(self, number: int) -> None:
        self._stirred.add(number)

    def until(
        self, inbox: Inbox, ready: Callable[[], bool], deadline: float | None
    ) -> None:
        def look() -> bool:
            return bool(self._stirred) or ready()

        bell, arrived, poll, rest_s = self._bell, inbox.arrived, self._driver.poll, None
        while rest_s != 0:
            # Anew each time that it was rung: it is rung by nobody again, and it may
            # have been for what was seen to before this slept. Under the lock: who is
            # still waking this from its last sleep would say that it does not sleep.
            with inbox.lock:
                if not self._listed:
                    arrived.enlist(bell)
                    self._listed = True
                bell.rung = False
                arrived.asleep = True
            try:
                # Also if there is something to do: else who posts without end would
                # keep this thread from ever reading.
                due = look()
                while True:
                    rest_s = 0 if due else _rest_s(deadline)
                    poll(rest_s)
                    due = due or look()
                    # Else a socket took or gave a part of a long frame; mostly so.
                    if due or bell.rung or rest_s == 0:
                        break
            finally:
                bell.rung = True
                arrived.asleep = False
            if due:
                return

    def lead(self, queue: MessageQueue) -> Lead:
        assert isinstance(queue, SocketMessageQueue)
        return SocketLead(queue)

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        for helper in helpers:
            while helper.is_alive():  # it may wait for what only the driver tells it
                self._driver.poll(0.01)

    def close(self) -> None:
        deadline = _sync.monotonic() + _GOODBYE_S
        while self._driver.sockets and (rest_s := _rest_s(deadline)):
            self._driver.poll(rest_s)
        self._driver.close()


class _DriverBell:
    """A parker that wakes who turns a driver."""

    __slots__ = ("_driver", "rung")

    def __init__(self, driver: Driver) -> None:
        self._driver: Final = driver
        self.rung: bool = True

    def locked(self) -> bool:
        """Whether somebody sleeps who was not woken by it yet."""
        return not self.rung

    def release(self) -> None:
        """Ring it; twice does no harm."""
        self.rung = True
        self._driver.call(_nothing)


def _nothing() -> None:
    """Be what a driver is asked to do that shall only wake up."""


class _Ear:
    """A parker that notes that something has happened to a queue; listed for good."""

    __slots__ = ("_number", "_stirred")

    def __init__(self, number: int, stirred: set[int]) -> None:
        self._number: Final = number
        self._stirred: Final = stirred

    def locked(self) -> bool:
        """Always: it is released each time."""
        return True

    def release(self) -> None:
        """Note it."""
        self._stirred.add(self._number)


def _stirs(queue: MessageQueue) -> bool:
    """Whether a queue has something: a message, or the loss of its peer.

    A peer is lost without a message, too, and nobody wakes who lists itself later.
    """
    return queue.pending > 0 or queue.status is not Status.CONNECTED


def _rest_s(deadline: float | None) -> float | None:
    """Return for how long to sleep; 0 once time is up."""
    return None if deadline is None else max(0.0, deadline - _sync.monotonic())
