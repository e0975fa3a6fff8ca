"""`ReadLease`: the right to read a queue, for a thread that also waits for others.

The owner runs the driver, which wakes it for each message. If the message is for
another thread, that thread receives it only after two wake-ups. A thread that takes the
read lease sleeps at the socket itself, as a receiver does (QB-SOCK-8), and also at its
other wait list. An event loop cannot sleep at one socket: it gets a `WatchedLease`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from queuebroker import _net, _sync
from queuebroker.sockets.read_owner import OPEN
from queuebroker.sockets.unsent import JOIN_BYTES_MAX

if TYPE_CHECKING:
    import _thread
    from collections.abc import Sized

    from queuebroker.sockets.connection import SocketConnection
    from queuebroker.sockets.queue import SocketMessageQueue
    from queuebroker.waiting.parking import WaitList

__all__ = ["Elsewhere", "ReadLease", "WatchedLease"]


class Elsewhere(Protocol):
    """The other place at which a thread is woken."""

    @property
    def lock(self) -> _thread.LockType:
        """The lock of the wait list; it is not taken under the lock of a queue."""

    @property
    def arrived(self) -> WaitList:
        """The wait list of the threads that wait here."""

    @property
    def items(self) -> Sized:
        """The items for these threads; a poster adds one, then wakes a waiter."""


class ReadLease:
    """The right to read one queue, for one thread at a time.

    `take` it, `sleep`, `read` until messages arrive, and otherwise `leave`.

    Take it before a request is sent, or in the same step: the kernel may run the peer
    at once, in place of the sender, and an answer that finds no lease wakes the driver.

    ended: True if the peer had left or was lost at the last `read`; the owner must
      handle that.

    Invariants:
    I1. ``holder`` is the other place at which the thread that has the read lease is
        woken; guarded by the lock of the connection.
    I2. that thread is on the wait list there only within `sleep`, and after an
        exception has ended that, until it has called `leave`.
    """

    __slots__ = ("_connection", "_link", "_read_owner", "ended", "holder")

    def __init__(self, queue: SocketMessageQueue) -> None:
        self._connection: Final = queue._socket_connection
        assert self._connection.watch is None  # else each message takes other steps
        self._link: Final = self._connection.link
        assert not self._link.driver.background  # see `take`
        self._read_owner: Final = self._link.read_owner
        self.holder: Elsewhere | None = None
        self.ended: bool = False

    def take(self, elsewhere: Elsewhere, message: bytes | None = None) -> bool:
        """Take the read lease, then send a message if there is one.

        Return False if neither was done: another thread has the lease, the inbox is not
        empty, or the message needs the other steps of `SocketMessageQueue.send`.
        """
        connection, link = self._connection, self._link
        read_owner, protocol = self._read_owner, link.protocol
        lock = connection.lock
        if lock._is_owned():  # type: ignore[attr-defined]  # as `_sync.owns`
            return False  # a finalizer runs within an operation of this thread
        try:
            with lock:
                try:
                    if connection._inbox._messages or (
                        message is not None
                        and (
                            protocol.sent >= protocol.sendable
                            or len(message) > protocol.limit
                        )
                    ):
                        return False
                    if (
                        read_owner.idle  # or leased: T3
                        or read_owner.blocked
                        or read_owner.over
                        or read_owner._at is None
                        or read_owner.sleeper.released
                        or connection.closed != OPEN
                    ):
                        if not read_owner.lease_locked(
                            link.socket, connection.closed, owned=True
                        ):
                            return False
                    else:  # the rest of `lease_locked`, inlined for each message
                        read_owner.idle = True
                        read_owner._watch(read_owner._descriptor, _net.ONCE)
                        read_owner.leased = True
                    # No call since then: an interrupt would leave a lease without an
                    # holder.
                    self.holder = elsewhere
                    if message is not None:
                        if (
                            read_owner.blocked
                            or protocol.outgoing  # an interrupt left it there
                            or len(message) > JOIN_BYTES_MAX
                        ):
                            link.post_locked(message)
                        else:  # the rest of it: without a thread nothing is gathered
                            link.post_whole_locked(message)
                except BaseException:
                    connection.recover_locked()
                    raise
            if connection.deferred:
                connection.settle()
        except BaseException:
            self.leave(elsewhere)
            raise
        return True

    def sleep(self, deadline: float | None) -> None:
        """Sleep until there may be input here or elsewhere, or the deadline passes."""
        read_owner, elsewhere = self._read_owner, self.holder
        assert elsewhere is not None
        sleeper, arrived, began = read_owner.sleeper, elsewhere.arrived, None
        if read_owner.sent_since_sleep:
            read_owner.sent_since_sleep = False
            # A thread that spins checks for items itself. It need not be woken, so most
            # waits for an answer need no place on the wait list.
            if sleeper.spin_is_due:
                began = _sync.monotonic()
                if sleeper.spin(began, deadline, elsewhere.items.__len__):
                    return
        with elsewhere.lock:
            # `WaitList.enlist`, inlined for each message.
            if arrived._parkers is None:
                arrived._parkers = []
            arrived._parkers.append(sleeper)
            arrived.asleep = True
        # Checked after the thread is listed: an earlier poster did not wake it.
        if not elsewhere.items:
            sleeper.sleep(deadline, began)
        only = [sleeper]  # not under the lock: it may start the collector
        with elsewhere.lock:
            # `WaitList.leave`, inlined for each message. It is needed if others are
            # listed, or a signal handler that waited here has removed this one.
            if arrived._parkers == only:
                arrived._parkers.clear()
                arrived.asleep = arrived._pinned
            else:
                arrived.leave(sleeper)

    def read(self) -> list[bytes]:
        """Receive the messages that have arrived, and return the read lease with them.

        An empty list needs another check, and the lease is kept. Either the peer has
        left or is lost (`ended`), or only a part of a message has arrived
        (`missing_bytes`).
        """
        connection = self._connection
        with connection.lock:
            try:
                inbox = connection._inbox
                message = self._link.read_whole_locked(inbox)
                if message is not None:
                    frames = [message]
                else:
                    frames = connection.grab_run_locked(len(inbox)) or []
                    self.ended = connection.closed[1 - connection.side]
                if frames:
                    read_owner = self._read_owner
                    if read_owner.over or read_owner.blocked:
                        read_owner.yield_locked(wanted=True)
                    else:  # the rest of `yield_locked`, inlined for each message
                        read_owner.leased = False
                        read_owner._watch(read_owner._descriptor, _net.READ)
                        read_owner.idle = False
                    self.holder = None
            except BaseException:
                connection.recover_locked()
                raise
        if connection.deferred:
            connection.settle()
        return frames

    @property
    def missing_bytes(self) -> int:
        """Bytes still missing from an incomplete message, 0 if there is none."""
        return self._link.protocol.reader.wanted

    def leave(self, elsewhere: Elsewhere) -> None:
        """Return the read lease to the owner; do nothing if ``elsewhere`` lacks it.

        So an interrupted thread may repeat the call: another may have the lease by now.
        """
        connection = self._connection
        if self.holder is elsewhere:
            with elsewhere.lock:  # it is listed if an exception has ended `sleep`
                elsewhere.arrived.leave(self._read_owner.sleeper)
        with connection.lock:
            if self.holder is elsewhere:
                self._read_owner.yield_locked(wanted=True)
                self.holder = None
        if connection.deferred:
            connection.settle()

    def lend(self, poller: _net.Poller) -> WatchedLease | None:
        """Lend the right to read to the event loop that watches a poller.

        Return None if another thread reads, or messages are here already.
        """
        connection = self._connection
        lease = WatchedLease(connection, poller)
        try:
            with connection.lock:
                try:
                    if not connection._inbox._messages:
                        self._read_owner.lend_locked(lease, connection.closed)
                except BaseException:
                    connection.recover_locked()
                    raise
            if connection.deferred:
                connection.settle()
        except BaseException:
            lease.leave()
            raise
        return lease if self._read_owner.lent is lease else None


class WatchedLease:
    """The right to read one queue, for an event loop; `ReadLease.lend` returns it.

    The loop watches a poller that contains the socket. So the driver may take the lease
    back at any time, and close the socket: the loop, which may be blocked, watches no
    descriptor of another object.

    poller: contains the socket for as long as the loop holds the lease.
    descriptor: that of the socket.
    ended: True if the peer had left or was lost at the last `read`; the owner must
      handle that.
    """

    __slots__ = ("_connection", "_link", "_read_owner", "descriptor", "ended", "poller")

    def __init__(self, connection: SocketConnection, poller: _net.Poller) -> None:
        self._connection: Final = connection
        self._link: Final = connection.link
        self._read_owner: Final = connection.link.read_owner
        self.poller: Final = poller
        self.descriptor: Final = connection.link.socket.fileno()
        self.ended: bool = False

    @property
    def held(self) -> bool:
        """True until the loop has left the lease, or the driver has taken it back."""
        return self._read_owner.lent is self

    def read(self) -> list[bytes]:
        """Receive the messages that have arrived, and keep the lease.

        The list is empty if none has arrived whole, or the lease is not held any more.
        """
        connection, read_owner = self._connection, self._read_owner
        frames: list[bytes] = []
        with connection.lock:
            if read_owner.lent is not self:
                return frames
            try:
                read_owner.read_at = _sync.monotonic()
                inbox = connection._inbox
                message = self._link.read_whole_locked(inbox)
                if message is not None:
                    frames = [message]
                else:
                    frames = connection.grab_run_locked(len(inbox)) or []
                    self.ended = connection.closed[1 - connection.side]
            except BaseException:
                connection.recover_locked()
                raise
        if connection.deferred:
            connection.settle()
        return frames

    def leave(self) -> None:
        """Return the lease to the owner; do nothing if it is not held any more."""
        connection = self._connection
        with connection.lock:
            try:
                if self.held:
                    self._read_owner.take_back_locked()
            except BaseException:
                connection.recover_locked()
                raise
        if connection.deferred:
            connection.settle()
