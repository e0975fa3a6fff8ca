"""`ReadLease`: the right to read a queue, for a thread that also waits for others.

The owner runs the driver, which wakes it for each message. If the message is for
another thread, that thread receives it only after two wake-ups. A thread that takes the
read lease sleeps at the socket itself, as a receiver does (QB-SOCK-8), and also at its
other wait list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import _thread

    from queuebroker.sockets.queue import SocketMessageQueue
    from queuebroker.waiting.parking import WaitList

__all__ = ["Elsewhere", "ReadLease"]


class Elsewhere(Protocol):
    """The other place at which a thread is woken."""

    @property
    def lock(self) -> _thread.LockType:
        """The lock of the wait list; it is not taken under the lock of a queue."""

    @property
    def arrived(self) -> WaitList:
        """The wait list of the threads that wait here."""


class ReadLease:
    """The right to read one queue, for one thread at a time.

    `take` it, `sleep`, `read`, and in any case `leave`.

    Take it before a request is sent: the kernel may run the peer at once, in place of
    the sender, and an answer that finds no lease wakes the driver.

    ended: True if the peer had left or was lost at the last `read`; the owner must
      handle that.

    Invariant: ``_owner`` is the other place at which the thread that has the read lease
    is woken; guarded by the lock of the connection.
    """

    __slots__ = ("_connection", "_owner", "ended")

    def __init__(self, queue: SocketMessageQueue) -> None:
        self._connection: Final = queue._socket_connection
        self._owner: Elsewhere | None = None
        self.ended: bool = False

    def take(self, elsewhere: Elsewhere) -> bool:
        """Take the read lease; False if another has it or the inbox is not empty."""
        connection = self._connection
        try:
            with connection.lock:
                try:
                    if connection._inbox._messages:
                        return False
                    if not connection.lease_locked(owned=True):
                        return False
                    # No call before this: an interrupt would leave a lease without an
                    # owner.
                    self._owner = elsewhere
                    sleeper = connection.link.read_owner.sleeper.renew()
                except BaseException:
                    connection.recover_locked()
                    raise
            with elsewhere.lock:
                elsewhere.arrived.enlist(sleeper)
        except BaseException:
            self.leave(elsewhere)
            raise
        return True

    def sleep(self, deadline: float | None) -> None:
        """Sleep until there may be input here or elsewhere, or the deadline passes."""
        read_owner = self._connection.link.read_owner
        spoke, read_owner.sent_since_sleep = read_owner.sent_since_sleep, False
        read_owner.sleeper.sleep(deadline, alone=False, answered=spoke)

    def read(self) -> list[bytes]:
        """Receive the messages that have arrived; an empty list needs another check.

        Either the peer has left or is lost (`ended`), or only a part of a message has
        arrived (`missing_bytes`).
        """
        connection = self._connection
        with connection.lock:
            try:
                message = connection.read_one_locked()
                self.ended = connection.closed[1 - connection.side]
                if message is None:
                    return []
                frames = [message]
                if arrived := connection._inbox._messages:
                    frames += connection.grab_run_locked(len(arrived)) or ()
            except BaseException:
                connection.recover_locked()
                raise
        if connection.deferred:
            connection.settle()
        return frames

    @property
    def missing_bytes(self) -> int:
        """Bytes still missing from an incomplete message, 0 if there is none."""
        return self._connection.link.protocol.reader.wanted

    def leave(self, elsewhere: Elsewhere) -> None:
        """Return the read lease to the owner; do nothing if ``elsewhere`` lacks it.

        So an interrupted thread may repeat the call: another may have the lease by now.
        """
        connection = self._connection
        if self._owner is not elsewhere:
            return
        sleeper = connection.link.read_owner.sleeper
        with elsewhere.lock:
            elsewhere.arrived.leave(sleeper)
        with connection.lock:
            if self._owner is elsewhere:  # no other has taken it since the check above
                connection.link.yield_locked(wanted=True)
                self._owner = None
        if connection.deferred:
            connection.settle()
