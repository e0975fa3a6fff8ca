"""How the thread that owns the links sleeps: parked, or at the kernel's sockets.

Between threads, the sender wakes the sleeping receiver. Between processes no sender
can: the owner itself runs the driver of the sockets. So the thread that handles the
frames also reads them, and no other thread has to be woken.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from queuebroker import _sync
from queuebroker.channel.status import Status
from queuebroker.errors import (
    DisconnectedError,
    MessageTooLargeError,
    ReceiveTimeoutError,
    SendTimeoutError,
)
from queuebroker.first import Selection, add_parker, has_room
from queuebroker.sockets.queue import SocketMessageQueue
from queuebroker.sockets.read_lease import ReadLease as SocketReadLease
from queuebroker.waiting.parking import SharedParker

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterable, Sequence

    from bus.process.inbox import Inbox
    from queuebroker._net import Poller
    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.sockets import Driver
    from queuebroker.sockets.read_lease import WatchedLease

__all__ = ["LinkPoller", "ParkedPoller", "ReadLease", "SocketPoller"]

_FRAMES_MAX: Final = 64  # read by another thread at once
# How long the end waits, first for helpers, then for frames still to be sent.
_GOODBYE_S: Final = 0.5


class LinkPoller(Protocol):
    """The link poller of one thread; every method is for that thread."""

    def add(self, number: int, queue: MessageQueue) -> None:
        """Wake on every event of a queue from now on."""

    def remove(self, number: int) -> None:
        """Ignore a queue from now on."""

    def take_ready(self) -> list[int]:
        """Return the numbers of the queues that may have an event.

        Each is returned once; `mark_ready` marks it ready once more. A removed queue
        may be among them.
        """

    def mark_ready(self, number: int) -> None:
        """Mark a queue ready again: it was not handled to the end."""

    def wait(
        self,
        inbox: Inbox,
        ready: Callable[[], bool],
        deadline: float | None,
        full: Sequence[MessageQueue] = (),
    ) -> None:
        """Sleep until a queue may have an event, ``ready()`` holds, or the deadline
        passes.

        ready: checked whenever anything is posted to the inbox.
        deadline: on the monotonic clock in seconds; None for never.
        full: queues that had no room for a frame. Between processes the sleep ends when
          one of them has room, so that a long series of frames takes no pause for each
          window of the link. Between threads it does not: the owner tries again.
        """

    def wake(self) -> None:
        """Wake the owner, in any thread, and perhaps within a garbage collection.

        It takes no lock. A poller for links between threads does nothing.
        """

    def read_lease(self, queue: MessageQueue) -> ReadLease:
        """Return the read lease by which another thread waits at a queue."""

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        """Wait until the helper threads of link set-up have ended."""

    def close(self) -> None:
        """Release the resources of the poller, once all frames are sent."""


class ReadLease(Protocol):
    """Another thread's right to read a queue; see `queuebroker.sockets.read_lease`."""

    def take(self, elsewhere: Inbox, message: bytes | None = None) -> bool:
        """Read from now on, and wake for an inbox, too; then send a message.

        Return False if neither was done.
        """

    def sleep(self, deadline: float | None) -> None:
        """Sleep until the deadline, or until the queue or the inbox may have an
        item."""

    def read(self) -> list[bytes]:
        """Return the received messages, and let the owner read again.

        Without a message the caller keeps the lease, and the owner must check the
        queue.
        """

    @property
    def holder(self) -> object:
        """The inbox with which the lease was taken; None if it was not."""

    @property
    def missing_bytes(self) -> int:
        """The number of missing bytes of a message that has begun, else 0."""

    @property
    def ended(self) -> bool:
        """True if the peer is lost; the owner must check."""

    def leave(self, elsewhere: Inbox) -> None:
        """Let the owner read again, if the lease was taken with that inbox."""

    def lend(self, poller: Poller) -> WatchedLease | None:
        """Lend the right to read to an event loop, which watches a poller.

        None if another thread has it, or the queue has no socket.
        """


class ParkedPoller:
    """A poller for queues between threads: it is listed in each and in the inbox."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: Final[dict[int, MessageQueue]] = {}

    def add(self, number: int, queue: MessageQueue) -> None:
        self._queues[number] = queue

    def remove(self, number: int) -> None:
        self._queues.pop(number, None)

    def take_ready(self) -> list[int]:
        return [number for number, queue in self._queues.items() if _has_event(queue)]

    def mark_ready(self, number: int) -> None:
        """Do nothing: all queues are checked each time."""

    def wait(
        self,
        inbox: Inbox,
        ready: Callable[[], bool],
        deadline: float | None,
        full: Sequence[MessageQueue] = (),  # noqa: ARG002 # see `LinkPoller.wait`
    ) -> None:
        queues = list(self._queues.values())

        def look() -> bool:
            return ready() or any(map(_has_event, queues))

        selection = Selection(queues)
        shared_parker = selection.enlist(SharedParker)
        try:
            with inbox.lock:
                inbox.arrived.enlist(shared_parker)
            # Checked again: an earlier sender could not see this thread listed.
            if not look():
                _sync.park(shared_parker.lock, look, deadline)
        finally:
            with inbox.lock:
                inbox.arrived.leave(shared_parker)
            selection.withdraw()

    def wake(self) -> None:
        """Do nothing: threads of one process need no shared memory."""

    def read_lease(self, queue: MessageQueue) -> ReadLease:
        return _ParkedReadLease(queue)

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        for helper in helpers:
            helper.join()

    def close(self) -> None:
        """Do nothing: frames sent between threads have arrived."""


class _ParkedReadLease:
    """The read lease of a queue between threads; the first taker gets it."""

    __slots__ = ("_lock", "_queue", "_selection", "_shared_parker", "holder")

    def __init__(self, queue: MessageQueue) -> None:
        self._queue: Final = queue
        # Held by the thread that holds the lease.
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self._selection: Selection | None = None
        self.holder: Inbox | None = None
        self._shared_parker: SharedParker

    def take(self, elsewhere: Inbox, message: bytes | None = None) -> bool:
        if not self._lock.acquire(False):
            return False
        self._selection = selection = Selection([self._queue])
        self._shared_parker = shared_parker = selection.enlist(SharedParker)
        self.holder = elsewhere
        with elsewhere.lock:
            elsewhere.arrived.enlist(shared_parker)
        if message is not None:
            try:
                self._queue.send(message, timeout=0)
            except (DisconnectedError, MessageTooLargeError, SendTimeoutError):
                self.leave(elsewhere)
                return False
            except BaseException:
                self.leave(elsewhere)
                raise
        return True

    def sleep(self, deadline: float | None) -> None:
        inbox, queue = self.holder, self._queue
        assert inbox is not None

        def look() -> bool:
            return bool(inbox.items) or _has_event(queue)

        if not look():
            _sync.park(self._shared_parker.lock, look, deadline)

    def read(self) -> list[bytes]:
        assert self.holder is not None
        with suppress(ReceiveTimeoutError, DisconnectedError):
            frames = self._queue.receive_many(_FRAMES_MAX, timeout=0)
            self.leave(self.holder)
            return frames
        return []

    missing_bytes: Final = 0  # between threads a message arrives whole

    @property
    def ended(self) -> bool:
        return self._queue.status is not Status.CONNECTED

    def leave(self, elsewhere: Inbox) -> None:
        if self.holder is not elsewhere:
            return
        with elsewhere.lock:
            elsewhere.arrived.leave(self._shared_parker)
        if self._selection is not None:
            self._selection.withdraw()
            self._selection = None
        self.holder = None
        self._lock.release()

    def lend(self, poller: Poller) -> None:
        """Lend nothing: a poller watches sockets only."""


class SocketPoller:
    """A poller for queues between processes, all of them served by one driver.

    The owner runs the driver, and so reads the sockets. It notes the queues for which
    data arrives, so that only these are checked, not all of many links.

    The parker of the owner is never removed from the inbox. It counts as asleep, under
    the inbox's lock, only until it is released.
    """

    __slots__ = ("_driver", "_listed", "_parker", "_ready")

    def __init__(self, driver: Driver) -> None:
        self._driver: Final = driver
        self._parker: Final = _DriverParker(driver)
        self._listed: bool = False
        self._ready: Final[set[int]] = set()

    def add(self, number: int, queue: MessageQueue) -> None:
        assert isinstance(queue, SocketMessageQueue)
        queue.drop_without_memory()  # the body of a message; see `FrameReader`
        add_parker(queue, _ReadyParker(number, self._ready))
        self._ready.add(number)  # frames may have come before

    def remove(self, number: int) -> None:
        self._ready.discard(number)

    def take_ready(self) -> list[int]:
        # One at a time: a helper may mark a new link as lost just now.
        return sorted([self._ready.pop() for _ in range(len(self._ready))])

    def mark_ready(self, number: int) -> None:
        self._ready.add(number)

    def wait(
        self,
        inbox: Inbox,
        ready: Callable[[], bool],
        deadline: float | None,
        full: Sequence[MessageQueue] = (),
    ) -> None:
        def look() -> bool:
            return bool(self._ready) or ready() or any(map(has_room, full))

        parker, arrived, poll = self._parker, inbox.arrived, self._driver.poll
        rest_s = None
        while rest_s != 0:
            # Reset after each release: a released parker is not released again, and the
            # release may have been for an item handled before this sleep. Under the
            # lock: a sender that still wakes this thread from its last sleep would mark
            # it as not asleep.
            with inbox.lock:
                if not self._listed:
                    arrived.enlist(parker)
                    self._listed = True
                parker.released = False
                arrived.asleep = True
            try:
                # Poll even if there is work: else an endless stream of posts would keep
                # this thread from ever reading.
                due = look()
                while True:
                    rest_s = 0 if due else _rest_s(deadline)
                    poll(rest_s)
                    due = due or look()
                    # Else the driver read or wrote a part of a long frame: poll again.
                    if due or parker.released or rest_s == 0:
                        break
            finally:
                parker.released = True
                arrived.asleep = False
            if due:
                return

    def wake(self) -> None:
        self._driver.call(_nothing)

    def read_lease(self, queue: MessageQueue) -> ReadLease:
        assert isinstance(queue, SocketMessageQueue)
        return SocketReadLease(queue)

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        # Not without a limit: a helper may wait for the answer to a DNS query. After
        # it, the helper finds its broker and this driver closed, and makes no link.
        deadline = _sync.monotonic() + _GOODBYE_S
        for helper in helpers:
            # It may wait for an event of the driver.
            while helper.is_alive() and _sync.monotonic() < deadline:
                self._driver.poll(0.01)

    def close(self) -> None:
        deadline = _sync.monotonic() + _GOODBYE_S
        while self._driver.sockets and (rest_s := _rest_s(deadline)):
            self._driver.poll(rest_s)
        self._driver.close()


class _DriverParker:
    """A parker that wakes the thread that runs a driver."""

    __slots__ = ("_driver", "released")

    def __init__(self, driver: Driver) -> None:
        self._driver: Final = driver
        self.released: bool = True

    def locked(self) -> bool:
        """Return True if a waiter has not yet been woken by this parker."""
        return not self.released

    def release(self) -> None:
        """Release the parker; to do so twice is harmless."""
        self.released = True
        try:
            self._driver.call(_nothing)
        except BaseException:
            # An interrupt or a lack of memory. Unless this call succeeds, the next
            # waker must find the parker taken: it wakes no other.
            self.released = False
            self._driver.call(_nothing)
            raise


def _nothing() -> None:
    """Do nothing: the call itself wakes the driver."""


class _ReadyParker:
    """A parker that marks a queue ready; it stays listed for good."""

    __slots__ = ("_number", "_ready")

    def __init__(self, number: int, ready: set[int]) -> None:
        self._number: Final = number
        self._ready: Final = ready

    def locked(self) -> bool:
        """Return True always, so that each event releases this parker."""
        return True

    def release(self) -> None:
        """Mark the queue ready."""
        self._ready.add(self._number)


def _has_event(queue: MessageQueue) -> bool:
    """Return True if a queue has an event: a message, or the loss of its peer.

    A loss comes without a message, and wakes no thread that is listed later.
    """
    return queue.pending > 0 or queue.status is not Status.CONNECTED


def _rest_s(deadline: float | None) -> float | None:
    """Return how long to sleep, in seconds; 0 once the deadline has passed."""
    return None if deadline is None else max(0.0, deadline - _sync.monotonic())
