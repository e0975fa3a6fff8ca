"""`Link`: one socket with its protocol, under one lock.

What arrives goes into the protocol and from there to whoever the link belongs to; what
the protocol has to say goes out, by whoever made it say that, as far as the socket
takes it, and the rest by the driver. It decides nothing.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Final
from typing import Protocol as Seam

from queuebroker import _net, _sync
from queuebroker.sockets.errors import PeerLostError, failed, lost
from queuebroker.sockets.incoming import READ_BYTES, Incoming
from queuebroker.sockets.states import TRANSITIONS, Act, State
from queuebroker.sockets.turn import Turn
from queuebroker.sockets.unsent import JOIN_BYTES_MAX, Unsent

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker._net import Socket
    from queuebroker.sockets.connection import SocketConnection
    from queuebroker.sockets.driver import Driver
    from queuebroker.sockets.errors import ProtocolError
    from queuebroker.sockets.protocol import Event, Protocol

__all__ = ["Host", "Link"]

# How often in the length of a lease it is looked at.
TICKS: Final = 8
# Reads of one link before others have their turn; and of one that nothing can be
# written to any more, before it is given up.
READS_MAX: Final = 16
LAST_READS_MAX: Final = 1024
# For how long who was cut off, or is gone, may still take what is written, in seconds,
# where no option says so.
LAST_S: Final = 20.0


class Host(Seam):
    """Whose link it is until there is a connection."""

    def heard(self, link: Link, events: list[Event]) -> None:
        """Deal with what came; called by the driver, without the lock."""

    def abort(self, error: BaseException) -> None:
        """End all waits: an error of this process ended the link."""


class Link:
    """A socket, its protocol, and once there is one the connection they carry.

    Lock: ``lock`` guards everything below; it is the connection's lock too. It is taken
    under a manager's lock, never the other way round; nothing is waited for under it.

    Invariants, true whenever ``lock`` is free; all but I3 only once ``_opening`` is
    over, and until ``closed``:
    I1. the driver waits for the socket to be writable, ``turn.blocked``, exactly while
        ``_unsent`` has pieces.
    I2. nothing that the protocol has to say is kept back while nothing is unsent.
    I3. ``torn`` is false. It is true from the moment at which bytes are in no hand but
        the caller's until they are in the protocol, or the socket, and dealt with: if
        an interrupt strikes in between, nobody knows how far the stream has come, and
        `recover_locked` ends it (QB-ERR-9).
    I4. once the protocol has ended, the driver has nothing left to write, or a timer by
        which that is given up (``_leaving``): who is there may read nothing.
    I5. once a write has failed (``_deaf``) nothing is kept that is to be written, and
        the driver is about to read what had come before it ends the connection.
    """

    __slots__ = (
        "_deaf",
        "_farewell_s",
        "_finished",
        "_flags",
        "_incoming",
        "_leaving",
        "_opening",
        "_unsent",
        "closed",
        "connection",
        "driver",
        "host",
        "lock",
        "protocol",
        "secured",
        "socket",
        "torn",
        "turn",
    )

    def __init__(
        self,
        socket: Socket,
        protocol: Protocol,
        driver: Driver,
        host: Host,
        opening: Callable[[Socket], int] | None = None,
        *,
        takes_fds: bool = False,
        farewell_s: float | None = None,
    ) -> None:
        self.lock: _thread.RLock = _sync.RLock()
        self.socket: Socket = socket
        self.protocol: Protocol = protocol
        self.driver: Driver = driver
        self.host: Host | None = host
        self.connection: SocketConnection | None = None
        self.secured: bool = isinstance(socket, _net.TlsSocket)
        self._flags = 0 if self.secured else _net.AT_ONCE
        self.closed: bool = False
        self.torn: bool = False
        self.turn: Turn = Turn(socket.fileno(), driver, self.lock)
        self.turn.idle = opening is not None  # nobody reads what is not open
        self._finished = False
        # Whether there is a timer by which this is closed, whatever its peer does.
        self._leaving = False
        self._opening = opening
        self._incoming = Incoming(described=takes_fds)
        self._unsent = Unsent()
        # How long the good-bye of a peer is waited for; None for however long.
        self._farewell_s = farewell_s
        # Why the peer hears nothing any more, once that is so.
        self._deaf: OSError | None = None

    def begin(self) -> None:
        """Let the driver, which was held for this, serve it from now on."""
        with self.lock:
            wanted = _net.READ if self._opening is None else _net.WRITE
            self.driver.register(self.socket.fileno(), self, wanted)
            if self._opening is None:
                self.flush_locked()
            lease_s = self.protocol.lease_s
        self.settle()
        if lease_s is not None:
            self._tick(lease_s / TICKS)

    def _tick(self, interval_s: float) -> None:
        """Let the protocol know what time it is, now and again."""
        now = _sync.monotonic()
        with self.lock:
            if self.closed:
                return
            self.protocol.tick(now)
            events = self.deal_locked(self.protocol.events())
            self.flush_locked()
        self._tell(events)
        self.driver.at(now + interval_s, lambda: self._tick(interval_s), self)

    # For the driver.

    def ready(self, mask: int) -> None:
        """Read and write what can be, and tell whom it concerns."""
        events: list[Event] = []
        with self.lock:
            try:
                if self.closed:
                    return
                if self._opening is not None:
                    self._open_locked()
                elif mask & _net.WRITE:
                    self.flush_locked()
                if mask & ~_net.WRITE and not self.turn.led and self._opening is None:
                    events = self.read_locked()
            except BaseException:
                # A Ctrl-C, where the main thread turns a driver of its own.
                self.recover_locked()
                raise
        self._tell(events)

    def _tell(self, events: list[Event]) -> None:
        """Tell whom it concerns what no connection has dealt with; without the lock."""
        if events and self.host is not None:
            self.host.heard(self, events)
        self.settle()

    def fail(self, error: BaseException) -> None:
        """End the connection because of an error of this process (QB-SOCK-10).

        The peer loses it, too, and this end gets the error as the cause.
        """
        with self.lock:
            self._break_off_locked(failed(error))
        self.abort(error)
        self.settle()

    def abort(self, error: BaseException) -> None:
        """End all waits for a connection that has not begun."""
        if self.connection is None and self.host is not None:
            self.host.abort(error)

    def forsake(self) -> None:
        """Let go of the socket without a word: nobody turns the driver any more."""
        self.lock = _sync.RLock()
        self.closed = True
        self.socket.close()
        self._close_fds_locked()
        self.turn.forsake(self.lock)
        if self.connection is not None:
            self.connection.forsake(self.lock)

    def settle(self) -> None:
        """Do what has to be done without the lock."""
        if self.connection is not None:
            self.connection.settle()

    def _open_locked(self) -> None:
        """Go on with what comes before the first byte of ours."""
        assert self._opening is not None
        try:
            wanted = self._opening(self.socket)
        except OSError as error:
            self.lose_locked(error)
            self._finish_soon_locked()
            return
        if wanted:
            self.driver.watch(self.socket.fileno(), wanted)
            return
        self._opening = None
        self.turn.rearm_locked()
        self.flush_locked()

    def secure_locked(self, secured: Socket) -> None:
        """Go on over TLS, on the same descriptor."""
        self.socket = secured
        self.secured = True
        self._flags = 0

    # Reading.

    def read_locked(
        self, first: bytes | None = None, most: int = READS_MAX
    ) -> list[Event]:
        """Take in what is there; return what no connection has dealt with.

        first: what was read already. most: how often to read.
        """
        protocol = self.protocol
        self.torn = True
        # All that TLS has deciphered must be read: nobody tells of it again.
        for _ in itertools.count() if self.secured else range(most):
            try:
                whole = self._incoming.read(self.socket, protocol, self._flags, first)
            except _net.WOULD_BLOCK:
                break
            except OSError as error:
                protocol.receive_eof(lost(error))
                break
            except MemoryError as error:
                protocol.abort(failed(error))
                break
            first = None
            if not whole or protocol.ended:
                break
        events = self.deal_locked(protocol.events())
        self.torn = False
        self.flush_locked()
        return events

    def read_one_locked(self) -> bytes | None:
        """Take in what is there; return the message if it is one, received at once.

        Else whoever the link belongs to has dealt with it.
        """
        if self.closed:
            return None
        if (
            self.secured
            or self._incoming.described
            or self.protocol.gathering is not None
        ):
            self.read_locked()
            return None
        self.torn = True
        try:
            data = self.socket.recv(READ_BYTES, _net.AT_ONCE)
        except _net.WOULD_BLOCK:
            self.torn = False
            return None
        except OSError as error:
            self.torn = False
            self.lose_locked(error)
            return None
        message = self.protocol.receive_whole(data)
        if message is None:
            self.read_locked(data)
        self.torn = False
        return message

    def take_fds_locked(self, count: int) -> list[int] | None:
        """Return the oldest descriptors that came; None if there are not so many."""
        return self._incoming.take_fds(count)

    def fail_locked(self, error: ProtocolError) -> None:
        """Take in a violation that the protocol cannot see."""
        self.protocol.fail(error)
        self.deal_locked(self.protocol.events())
        self.flush_locked()

    def deal_locked(self, events: list[Event]) -> list[Event]:
        """Hand events to the connection; return them if there is none yet."""
        if self.connection is None:
            return events
        for event in events:
            self.connection.hear_locked(event)
        return []

    def lose_locked(self, error: OSError) -> None:
        """Take in that the socket failed."""
        self._end_locked(lost(error))
        self.flush_locked()

    def _end_locked(self, error: PeerLostError) -> None:
        self.protocol.receive_eof(error)
        left = self.deal_locked(self.protocol.events())
        if left and self.host is not None:
            host = self.host
            self.driver.call(lambda: host.heard(self, left), self)

    # Writing.

    def flush_locked(self) -> None:
        """Write what there is to write, as far as the socket takes it."""
        protocol = self.protocol
        if self._deaf is not None:
            self._unsent.pieces.clear()
            protocol.data_to_send()
        if not (
            protocol.outgoing
            or self._unsent.pieces
            or self.turn.blocked
            or protocol.ended
        ):
            return
        if self.closed or self._opening is not None:
            return
        torn = self.torn  # also called by who reads
        self.torn = True
        try:
            self._write_all_locked()
        except OSError as error:
            self._unsent.pieces.clear()
            self.torn = torn
            if protocol.ended:
                self._finish_soon_locked()
                return
            self._read_out_soon_locked(error)
        self.torn = torn
        if not self._unsent.pieces:
            if self._farewell_s is not None and protocol.state is State.LEFT:
                self._give_up_locked()
            if protocol.ended:
                self._finish_soon_locked()
                return
        elif protocol.ended:
            self._leave_in_time_locked(self._farewell_s or LAST_S)
        if (blocked := bool(self._unsent.pieces)) is not self.turn.blocked:
            self.turn.block_locked(blocked)

    def _write_all_locked(self) -> None:
        """Write until nothing is left, or the socket takes no more."""
        unsent = self._unsent
        while True:
            if unsent.pieces:
                if not unsent.write(self.socket, self._flags):
                    return
                continue
            parts = self.protocol.data_to_send()
            if not (parts and unsent.write_new(self.socket, parts, self._flags)):
                return

    def post_locked(self, message: bytes) -> None:
        """Send one message, which there is room for."""
        self.turn.spoke = True
        protocol = self.protocol
        if self._unsent.pieces or protocol.outgoing or len(message) > JOIN_BYTES_MAX:
            protocol.send_message(message)
            self.flush_locked()
            return
        data = protocol.frame_of(message)
        self.torn = True
        try:
            sent = self.socket.send(data, self._flags)
        except _net.WOULD_BLOCK:
            sent = 0
        except OSError as error:
            self.torn = False
            self._read_out_soon_locked(error)
            return
        if sent != len(data):
            self._unsent.pieces.append(memoryview(data)[sent:])
            self.turn.block_locked(True)
        self.torn = False

    def post_fds_locked(self, message: bytes, fds: list[int]) -> None:
        """Send one message, which there is room for, and close its descriptors then."""
        self.torn = True
        before = self.protocol.data_to_send()
        if before:
            self._unsent.pieces.append(memoryview(b"".join(before)))
        self._unsent.keep_described(self.protocol.frame_of(message, len(fds)), fds)
        self.torn = False
        self.flush_locked()

    def _read_out_soon_locked(self, error: OSError) -> None:
        """Take in that nothing can be written any more, since the peer is gone.

        What it had sent before lies in the socket, and is received first (QB-SOCK-4).
        By the driver, since whoever writes may be in the middle of what was read.
        """
        self.protocol.data_to_send()
        if self._deaf is None:
            self._deaf = error
            self.driver.call(self._read_out, self)

    def _read_out(self) -> None:
        """Read all that the peer had sent; then it is lost, if it has not said so."""
        events: list[Event] = []
        with self.lock:
            if self.closed or self._deaf is None:
                return
            try:
                events = self.read_locked(most=LAST_READS_MAX)
                if not self.protocol.ended:
                    self.lose_locked(self._deaf)
            except BaseException:
                self.recover_locked()
                raise
        self._tell(events)

    # A receiver that waits may read in the driver's place: see `Turn`.

    def lead_locked(self, *, owned: bool = False) -> bool:
        """Take the reading over, until `yield_locked`; False if that may not be.

        owned: as of `Turn.lead_locked`.
        """
        if (
            self.closed
            or self._opening is not None
            or self.protocol.state is State.ENDED
        ):
            return False
        return self.turn.lead_locked(self.socket, owned=owned)

    def sleep(self, deadline: float | None, *, alone: bool = True) -> None:
        """Sleep as who reads: until there is something, or the sleeper is released.

        alone: as of `Sleeper.sleep`.
        """
        try:
            self.turn.sleep(deadline, alone=alone)
        except _net.SocketFailure as failure:
            with self.lock:
                self.lose_locked(failure.error)

    def yield_locked(self, *, wanted: bool) -> None:
        """Give the reading back: at once if ``wanted``, else soon."""
        self.turn.yield_locked(wanted=wanted)
        if self.closed:
            self.driver.call(self._finish, self)

    def recover_locked(self) -> None:
        """Put right what an exception left half done, or end what cannot be."""
        if self.torn:
            self.torn = False
            error = PeerLostError("interrupted in the middle of a read or a write")
            error.__cause__ = sys.exception()
            self._break_off_locked(error)
            return
        if self._opening is not None:
            return  # that goes on when the driver finds it ready again
        self.flush_locked()
        self.turn.rearm_locked()
        if not self.turn.led:
            self.turn.detach_locked()  # who was struck may have been about to attach it

    # Ending.

    def _break_off_locked(self, error: PeerLostError) -> None:
        """End the connection without a good-bye, perhaps in the middle of a frame."""
        self._unsent.pieces.clear()
        self.protocol.data_to_send()
        self._end_locked(error)
        self._finish_soon_locked()

    def leave_locked(self, error: BaseException | None) -> None:
        """Say good-bye, if that is still to be said."""
        leaves = (self.protocol.state, Act.SAY_GOODBYE) in TRANSITIONS
        if leaves:
            self.protocol.disconnect(error)
        self.flush_locked()
        if leaves and self._farewell_s is not None and not self.closed:
            self._leave_in_time_locked(self._farewell_s)

    def _leave_in_time_locked(self, rest_s: float) -> None:
        if not self._leaving:
            self._leaving = True
            self.driver.at(_sync.monotonic() + rest_s, self._give_up, self)

    def _give_up(self) -> None:
        """Wait no longer for a peer to take what is written, or to say good-bye."""
        with self.lock:
            if not self.closed:
                self._unsent.pieces.clear()
                self._give_up_locked()
                self._finish_soon_locked()
        self.settle()

    def _give_up_locked(self) -> None:
        self._end_locked(PeerLostError("its good-bye was not waited for"))

    def _finish_soon_locked(self) -> None:
        # By the driver: a finalizer may have brought us here, on any thread.
        if not self.closed:
            self.closed = self.turn.over = True
            self.driver.call(self._finish, self)

    def _finish(self) -> None:
        with self.lock:
            if self.turn.led or self._finished:
                return  # who sleeps at the socket was woken, and calls again on leaving
            self._finished = True
        try:
            with self.lock:
                self.turn.detach_locked()
                self._close_fds_locked()
        finally:
            # Whatever has failed, a link that is over must not hold the driver.
            try:
                self.driver.unregister(self.socket.fileno())
                self.socket.close()
            finally:
                # The host gets no further events; drop it, so that no cycle is left to
                # the garbage collector.
                self.host = None
                self.connection = None
                self.driver.release()

    def _close_fds_locked(self) -> None:
        self._incoming.close_fds()
        self._unsent.close_fds()

    def drop(self) -> None:
        """Close the socket whatever was to be sent; nobody is told."""
        with self.lock:
            self._finish_soon_locked()
