"""`Lead`: a thread that waits for something else, too, reads a queue for its owner.

The owner turns the driver, and is woken by it for what comes; so another thread, for
which that is, gets it by two wake-ups. A thread that takes the lead sleeps at the
socket itself, as a receiver does (QB-SOCK-8), and also where it is woken anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from queuebroker import _net

if TYPE_CHECKING:
    import _thread

    from queuebroker.parking import WaitList
    from queuebroker.sockets.queue import SocketMessageQueue

__all__ = ["Elsewhere", "Lead"]


class Elsewhere(Protocol):
    """Where a thread is woken for something else."""

    @property
    def lock(self) -> _thread.LockType:
        """Guards the list, and is not taken under that of a queue."""

    @property
    def arrived(self) -> WaitList:
        """Where who waits is listed."""


class Lead:
    """The right to read one queue, for one thread at a time.

    `take` it, `sleep`, `read`, and in any case `leave`.

    early: whether to take it before what is answered by this link is sent: with one
      processor the answer may come meanwhile, and the driver would be woken for it.

    Invariant: ``_owner`` is where the thread is woken that has it; guarded by the lock
    of the connection.
    """

    __slots__ = ("_connection", "_owner", "early")

    def __init__(self, queue: SocketMessageQueue) -> None:
        self._connection: Final = queue._far
        self._owner: Elsewhere | None = None
        self.early: Final = _net.processors() == 1

    def take(self, elsewhere: Elsewhere) -> bool:
        """Read from now on; False if another does, or something is to be received."""
        connection = self._connection
        inbox = connection.inbox
        try:
            with connection.lock:
                try:
                    if len(inbox):
                        return False
                    if not connection.lead_locked(owned=True):
                        return False
                    # No call before: an interrupt would leave a lead that nobody has.
                    self._owner = elsewhere
                    sleeper = connection.link.turn.sleeper.renew()
                    inbox.arrived.enlist(sleeper)  # released if the driver ends
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
        """Sleep until something may be here, there, or time is up."""
        self._connection.link.sleep(deadline, alone=False)

    def read(self) -> list[bytes]:
        """Receive what is here: the messages that came; none if that is to be seen to.

        So it is if the peer is gone, or only a part of a message came: see `lacks`.
        """
        connection = self._connection
        with connection.lock:
            try:
                message = connection.read_one_locked()
                if message is None:
                    return []
                frames = [message]
                if more := len(connection.inbox):
                    frames += connection.grab_run_locked(more) or ()
            except BaseException:
                connection.recover_locked()
                raise
        connection.settle()
        return frames

    @property
    def lacks(self) -> int:
        """How many bytes are to come of a message that has begun, 0 if none has."""
        return self._connection.link.protocol.wanted

    @property
    def ended(self) -> bool:
        """Whether the peer is gone, which the owner is to see."""
        return self._connection.closed[1 - self._connection.side]

    def leave(self, elsewhere: Elsewhere) -> None:
        """Let the owner read again; nothing if the thread woken there has not the lead.

        So an interrupted thread may repeat it: another may have the lead by then.
        """
        connection = self._connection
        if self._owner is not elsewhere:
            return
        sleeper = connection.link.turn.sleeper
        with elsewhere.lock:
            elsewhere.arrived.leave(sleeper)
        with connection.lock:
            connection.inbox.arrived.leave(sleeper)
            connection.link.yield_locked(wanted=True)
            self._owner = None
        connection.settle()
