"""`ServedSocket`: one socket of a driver, with its protocol, up to its close.

The events of the protocol go on to the connection, or to the host while there is no
connection. An end of the protocol, or an error, leads to one call of the driver that
closes the socket. This class neither reads nor writes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar
from typing import Protocol as Seam

from queuebroker import _sync
from queuebroker.sockets.errors import PeerLostError, failed
from queuebroker.sockets.incoming import Incoming
from queuebroker.sockets.read_owner import ReadOwner
from queuebroker.sockets.states import State
from queuebroker.sockets.unsent import Unsent

if TYPE_CHECKING:
    import _thread

    from queuebroker._net import Socket
    from queuebroker.sockets.driver import Driver
    from queuebroker.sockets.protocol import Event, Protocol

__all__ = ["Carried", "Host", "ServedSocket"]

L_contra = TypeVar("L_contra", contravariant=True)


class Host(Seam[L_contra]):
    """The owner of a link, of class ``L_contra``, until there is a connection."""

    def on_events(self, link: L_contra, events: list[Event]) -> None:
        """Handle the events that arrived; called by the driver, without the lock."""

    def abort(self, error: BaseException) -> None:
        """End all waits: an error of this process ended the link."""


class Carried(Seam):
    """The connection that a link carries; ``lock`` is the lock of both."""

    def on_event_locked(self, event: Event) -> None:
        """Handle an event that arrived."""

    def recover_locked(self) -> None:
        """Complete a step that an exception cut off."""

    def settle(self) -> None:
        """Run the deferred work, which must run without the lock."""

    def abandon_after_fork(self, lock: _thread.RLock) -> None:
        """Mark the peer as lost: no thread runs the driver; ``lock`` is a new lock."""


class ServedSocket:
    """A socket, its protocol, and the receiver of its events, up to the close.

    Lock: ``lock`` guards everything below; it is the connection's lock too. It is taken
    under a manager's lock, never the other way round. No thread blocks while it holds
    this lock.

    closed: True once nothing is read or written any more. The driver closes the socket
      soon, or after the return of the read lease if a receiver holds it.
    """

    __slots__ = (
        "_finished",
        "_incoming",
        "_unsent",
        "closed",
        "connection",
        "driver",
        "host",
        "lock",
        "protocol",
        "read_owner",
        "socket",
    )

    def __init__(
        self,
        socket: Socket,
        protocol: Protocol,
        driver: Driver,
        host: Host[Self],
        *,
        takes_fds: bool,
    ) -> None:
        self.lock: _thread.RLock = _sync.RLock()
        self.socket: Socket = socket
        self.protocol: Protocol = protocol
        self.driver: Driver = driver
        self.host: Host[Self] | None = host
        self.connection: Carried | None = None
        self.closed: bool = False
        self.read_owner: ReadOwner = ReadOwner(socket.fileno(), driver, self.lock)
        self._finished = False
        self._incoming = Incoming(described=takes_fds)
        self._unsent = Unsent()

    @property
    def is_ending(self) -> bool:
        """True once this end has left the connection, or lost it."""
        return self.closed or self.protocol.state in (State.LEFT, State.ENDED)

    # Events.

    def dispatch_locked(self, events: list[Event]) -> list[Event]:
        """Hand events to the connection; return them if there is no connection yet."""
        if self.connection is None:
            return events
        for event in events:
            self.connection.on_event_locked(event)
        return []

    def _deliver(self: Self, events: list[Event]) -> None:
        """Deliver to the host the events no connection handled; without the lock."""
        if events and self.host is not None:
            self.host.on_events(self, events)
        self.settle()

    def settle(self) -> None:
        """Run the deferred work, which must run without the lock."""
        if self.connection is not None:
            self.connection.settle()

    # Ending.

    def _end_locked(self: Self, error: PeerLostError) -> None:
        self.protocol.receive_eof(error)
        left = self.dispatch_locked(self.protocol.events())
        if left and self.host is not None:
            host = self.host
            self.driver.call(lambda: host.on_events(self, left), self)

    def _break_off_locked(self, error: PeerLostError) -> None:
        """End the connection without a good-bye, perhaps in the middle of a frame."""
        self._unsent.pieces.clear()
        self.protocol.data_to_send()
        self._end_locked(error)
        self._finish_soon_locked()

    def fail(self, error: BaseException) -> None:
        """End the connection because of an error of this process (QB-SOCK-10).

        The peer loses it too. This end gets the error as the cause.
        """
        with self.lock:
            self._break_off_locked(failed(error))
            if self.connection is not None:
                self.connection.recover_locked()  # of the loss, if that was cut off
        self.abort(error)
        self.settle()

    def abort(self, error: BaseException) -> None:
        """End all waits for a connection that has not begun."""
        if self.connection is None and self.host is not None:
            self.host.abort(error)

    def drop(self) -> None:
        """Close the socket and drop any unsent output, without notice to the peer."""
        with self.lock:
            self._finish_soon_locked()

    def abandon_after_fork(self) -> None:
        """Close the socket without a good-bye: no thread runs the driver any more."""
        self.lock = _sync.RLock()
        self.closed = True
        self.socket.close()
        self._close_fds_locked()
        self.read_owner.abandon_after_fork(self.lock)
        if self.connection is not None:
            self.connection.abandon_after_fork(self.lock)

    def _finish_soon_locked(self) -> None:
        # By the driver: a finalizer may call this, on any thread.
        if not self.closed:
            self.read_owner.finish = finish = partial(
                self.driver.call, self._finish, self
            )
            self.closed = self.read_owner.over = True
            finish()

    def _finish(self) -> None:
        with self.lock:
            if self.read_owner.leased or self._finished:
                return  # the reader was woken; its `yield_locked` calls this again
            self._finished = True
            self.read_owner.finish = None
        try:
            with self.lock:
                self.read_owner.detach_locked()
                self._close_fds_locked()
            self.settle()
        finally:
            # Even after a failure, a finished link must not hold the driver.
            try:
                self.driver.unregister(self.socket.fileno())
                self.socket.close()
            finally:
                # The host gets no further events. Drop it, so that no cycle is left
                # for the garbage collector.
                self.host = None
                self.connection = None
                self.driver.release()

    def _close_fds_locked(self) -> None:
        self._incoming.close_fds()
        self._unsent.close_fds()
