"""`Link`: one socket with its protocol, under one lock.

Bytes that arrive go into the protocol. Its events go on to the connection, or to the
host while there is no connection. The caller that makes the protocol produce output
writes as much as the socket takes; the driver writes the rest. A link decides nothing.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Final
from typing import Protocol as Seam

from queuebroker import _net, _sync
from queuebroker.sockets.errors import PeerLostError, failed, lost
from queuebroker.sockets.incoming import READ_BYTES, Incoming
from queuebroker.sockets.read_owner import ReadOwner
from queuebroker.sockets.states import TRANSITIONS, Act, State
from queuebroker.sockets.unsent import JOIN_BYTES_MAX, Unsent

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker._net import Socket
    from queuebroker.sockets.driver import Driver
    from queuebroker.sockets.errors import ProtocolError
    from queuebroker.sockets.protocol import Event, Protocol

__all__ = ["Carried", "Host", "Link"]

# How often the lease is checked within its length.
TICKS: Final = 8
# Reads of one link before other links have their turn; and reads of a link that can
# no longer be written to, before it is ended.
READS_MAX: Final = 16
LAST_READS_MAX: Final = 1024
# How long a peer may still take the unsent bytes after the protocol has ended, in
# seconds, if no option sets it.
LAST_S: Final = 20.0


class Host(Seam):
    """The owner of a link until there is a connection."""

    def on_events(self, link: Link, events: list[Event]) -> None:
        """Handle the events that arrived; called by the driver, without the lock."""

    def abort(self, error: BaseException) -> None:
        """End all waits: an error of this process ended the link."""


class Carried(Seam):
    """The connection that a link carries; ``lock`` is the lock of both."""

    def on_event_locked(self, event: Event) -> None:
        """Handle an event that arrived."""

    def settle(self) -> None:
        """Run the deferred work, which must run without the lock."""

    def abandon_after_fork(self, lock: _thread.RLock) -> None:
        """Mark the peer as lost: no thread runs the driver; ``lock`` is a new lock."""


class Link:
    """A socket, its protocol, and the connection they carry once there is one.

    Lock: ``lock`` guards everything below; it is the connection's lock too. It is taken
    under a manager's lock, never the other way round. No thread blocks while it holds
    this lock.

    Invariants, true whenever ``lock`` is free; all but I3 only once ``_opening`` is
    over, and until ``closed``:
    I1. the driver waits for the socket to be writable, ``read_owner.blocked``, exactly
        while ``_unsent`` has pieces.
    I2. while nothing is unsent, the protocol has no output left to write.
    I3. ``mid_io`` is false. It is true while only the caller holds some bytes: until
        they are in the protocol, or the socket, and handled. If an interrupt is raised
        in between, the position in the stream is unknown, and `recover_locked` ends
        the connection (QB-ERR-9).
    I4. once the protocol has ended, the driver has nothing left to write, or a timer
        will drop the rest (``_leaving``): the peer may never read it.
    I5. once a write has failed (``_write_failed``), no output is kept. The driver is
        about to read the bytes that had arrived, and then ends the connection.
    """

    __slots__ = (
        "_farewell_s",
        "_finished",
        "_flags",
        "_incoming",
        "_leaving",
        "_opening",
        "_unsent",
        "_write_failed",
        "closed",
        "connection",
        "driver",
        "host",
        "lock",
        "mid_io",
        "protocol",
        "read_owner",
        "secured",
        "socket",
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
        self.connection: Carried | None = None
        self.secured: bool = isinstance(socket, _net.TlsSocket)
        self._flags = 0 if self.secured else _net.AT_ONCE
        self.closed: bool = False
        self.mid_io: bool = False
        self.read_owner: ReadOwner = ReadOwner(socket.fileno(), driver, self.lock)
        self.read_owner.idle = opening is not None  # no thread reads before it is open
        self._finished = False
        # True if a timer closes this link, regardless of its peer.
        self._leaving = False
        self._opening = opening
        self._incoming = Incoming(described=takes_fds)
        self._unsent = Unsent()
        # How long this end waits for the peer's good-bye; None: without a limit.
        self._farewell_s = farewell_s
        # The error of the write that failed: nothing reaches the peer after it.
        self._write_failed: OSError | None = None

    def begin(self) -> None:
        """Register the socket with the driver, which the caller already holds."""
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
        """Pass the time to the protocol, at regular intervals."""
        now = _sync.monotonic()
        with self.lock:
            if self.closed:
                return
            self.protocol.tick(now)
            events = self.dispatch_locked(self.protocol.events())
            self.flush_locked()
        self._deliver(events)
        self.driver.at(now + interval_s, lambda: self._tick(interval_s), self)

    # For the driver.

    def ready(self, mask: int) -> None:
        """Read and write without blocking, and deliver the events."""
        events: list[Event] = []
        with self.lock:
            try:
                if self.closed:
                    return
                if self._opening is not None:
                    self._open_locked()
                elif mask & _net.WRITE:
                    self.flush_locked()
                if (
                    mask & ~_net.WRITE
                    and not self.read_owner.leased
                    and self._opening is None
                ):
                    events = self.read_locked()
            except BaseException:
                # An interrupt, if the main thread runs a driver of its own.
                self.recover_locked()
                raise
        self._deliver(events)

    def _deliver(self, events: list[Event]) -> None:
        """Deliver to the host the events no connection handled; without the lock."""
        if events and self.host is not None:
            self.host.on_events(self, events)
        self.settle()

    def fail(self, error: BaseException) -> None:
        """End the connection because of an error of this process (QB-SOCK-10).

        The peer loses it too. This end gets the error as the cause.
        """
        with self.lock:
            self._break_off_locked(failed(error))
        self.abort(error)
        self.settle()

    def abort(self, error: BaseException) -> None:
        """End all waits for a connection that has not begun."""
        if self.connection is None and self.host is not None:
            self.host.abort(error)

    def abandon_after_fork(self) -> None:
        """Close the socket without a good-bye: no thread runs the driver any more."""
        self.lock = _sync.RLock()
        self.closed = True
        self.socket.close()
        self._close_fds_locked()
        self.read_owner.abandon_after_fork(self.lock)
        if self.connection is not None:
            self.connection.abandon_after_fork(self.lock)

    def settle(self) -> None:
        """Run the deferred work, which must run without the lock."""
        if self.connection is not None:
            self.connection.settle()

    def _open_locked(self) -> None:
        """Continue the connect or the TLS handshake, before the first frame."""
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
        self.read_owner.rearm_locked()
        self.flush_locked()

    def secure_locked(self, secured: Socket) -> None:
        """Continue over TLS, on the same descriptor."""
        self.socket = secured
        self.secured = True
        self._flags = 0

    # Reading.

    def read_locked(
        self, first: bytes | None = None, most: int = READS_MAX
    ) -> list[Event]:
        """Read the available bytes; return the events that no connection handled.

        first: bytes that were read already. most: the maximum number of reads.
        """
        protocol = self.protocol
        self.mid_io = True
        # Read every byte that TLS has deciphered: the kernel does not report it again.
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
        events = self.dispatch_locked(protocol.events())
        self.mid_io = False
        self.flush_locked()
        return events

    def read_one_locked(self) -> bytes | None:
        """Read the available bytes; return them if they are exactly one message.

        That message counts as received. Anything else goes to the connection, and the
        result is None.
        """
        if self.closed:
            return None
        if (
            self.secured
            or self._incoming.described
            or self.protocol.reader.gathering is not None
        ):
            self.read_locked()
            return None
        self.mid_io = True
        try:
            data = self.socket.recv(READ_BYTES, _net.AT_ONCE)
        except _net.WOULD_BLOCK:
            self.mid_io = False
            return None
        except OSError as error:
            self.mid_io = False
            self.lose_locked(error)
            return None
        message = self.protocol.receive_whole(data)
        if message is None:
            self.read_locked(data)
        self.mid_io = False
        return message

    def take_fds_locked(self, count: int) -> list[int] | None:
        """Return the oldest ``count`` descriptors; None if fewer have arrived."""
        return self._incoming.take_fds(count)

    def fail_locked(self, error: ProtocolError) -> None:
        """End the link for a violation that the protocol cannot detect."""
        self.protocol.abort(error)
        self.dispatch_locked(self.protocol.events())
        self.flush_locked()

    def dispatch_locked(self, events: list[Event]) -> list[Event]:
        """Hand events to the connection; return them if there is no connection yet."""
        if self.connection is None:
            return events
        for event in events:
            self.connection.on_event_locked(event)
        return []

    def lose_locked(self, error: OSError) -> None:
        """End the protocol because the socket failed."""
        self._end_locked(lost(error))
        self.flush_locked()

    def _end_locked(self, error: PeerLostError) -> None:
        self.protocol.receive_eof(error)
        left = self.dispatch_locked(self.protocol.events())
        if left and self.host is not None:
            host = self.host
            self.driver.call(lambda: host.on_events(self, left), self)

    # Writing.

    def flush_locked(self) -> None:
        """Write the pending output, as far as the socket takes it."""
        protocol = self.protocol
        if self._write_failed is not None:
            self._unsent.pieces.clear()
            protocol.data_to_send()
        if not (
            protocol.outgoing
            or self._unsent.pieces
            or self.read_owner.blocked
            or protocol.ended
        ):
            return
        if self.closed or self._opening is not None:
            return
        mid_io = self.mid_io  # a read that is under way also calls this
        self.mid_io = True
        try:
            self._write_all_locked()
        except OSError as error:
            self._unsent.pieces.clear()
            self.mid_io = mid_io
            if protocol.ended:
                self._finish_soon_locked()
                return
            self._read_out_soon_locked(error)
        self.mid_io = mid_io
        if not self._unsent.pieces:
            if self._farewell_s is not None and protocol.state is State.LEFT:
                self._give_up_locked()
            if protocol.ended:
                self._finish_soon_locked()
                return
        elif protocol.ended:
            self._leave_in_time_locked(self._farewell_s or LAST_S)
        if (blocked := bool(self._unsent.pieces)) is not self.read_owner.blocked:
            self.read_owner.block_locked(blocked)

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
        """Send one message; the peer must have room for it."""
        self.read_owner.sent_since_sleep = True
        protocol = self.protocol
        if self._unsent.pieces or protocol.outgoing or len(message) > JOIN_BYTES_MAX:
            protocol.send_message(message)
            self.flush_locked()
            return
        data = protocol.frame_of(message)
        self.mid_io = True
        try:
            sent = self.socket.send(data, self._flags)
        except _net.WOULD_BLOCK:
            sent = 0
        except OSError as error:
            self.mid_io = False
            self._read_out_soon_locked(error)
            return
        if sent != len(data):
            self._unsent.pieces.append(memoryview(data)[sent:])
            self.read_owner.block_locked(True)
        self.mid_io = False

    def post_fds_locked(self, message: bytes, fds: list[int]) -> None:
        """Send one message, then close its descriptors; the peer must have room."""
        self.mid_io = True
        before = self.protocol.data_to_send()
        if before:
            self._unsent.pieces.append(memoryview(b"".join(before)))
        self._unsent.keep_described(self.protocol.frame_of(message, len(fds)), fds)
        self.mid_io = False
        self.flush_locked()

    def _read_out_soon_locked(self, error: OSError) -> None:
        """Drop all output after a failed write: the peer has closed or is lost.

        The bytes it had sent before are still in the socket, and are received first
        (QB-SOCK-4).
        """
        self.protocol.data_to_send()
        if self._write_failed is None:
            self._write_failed = error
            # By the driver: the writer may be in the middle of handling a read.
            self.driver.call(self._read_out, self)

    def _read_out(self) -> None:
        """Read the rest from the peer; then it is lost, unless it sent a good-bye."""
        events: list[Event] = []
        with self.lock:
            if self.closed or self._write_failed is None:
                return
            try:
                events = self.read_locked(most=LAST_READS_MAX)
                if not self.protocol.ended:
                    self.lose_locked(self._write_failed)
            except BaseException:
                self.recover_locked()
                raise
        self._deliver(events)

    # A waiting receiver may read in the driver's place: see `ReadOwner`.

    def lease_locked(self, *, owned: bool = False) -> bool:
        """Take the read lease, until `yield_locked`; return False if refused.

        owned: as for `ReadOwner.lease_locked`.
        """
        if (
            self.closed
            or self._opening is not None
            or self.protocol.state is State.ENDED
        ):
            return False
        return self.read_owner.lease_locked(self.socket, owned=owned)

    def sleep(self, deadline: float | None, *, alone: bool = True) -> None:
        """Sleep as the reader: until the socket is readable or the sleeper is released.

        alone: as for `Sleeper.sleep`.
        """
        try:
            self.read_owner.sleep(deadline, alone=alone)
        except _net.SocketFailure as failure:
            with self.lock:
                self.lose_locked(failure.error)

    def yield_locked(self, *, wanted: bool) -> None:
        """Return the read lease: at once if ``wanted``, else soon."""
        self.read_owner.yield_locked(wanted=wanted)
        if self.closed:
            self.driver.call(self._finish, self)

    def recover_locked(self) -> None:
        """Complete a step that an exception interrupted, or end the connection."""
        if self.mid_io:
            self.mid_io = False
            error = PeerLostError("interrupted in the middle of a read or a write")
            error.__cause__ = sys.exception()
            self._break_off_locked(error)
            return
        if self._opening is not None:
            return  # the driver continues the set-up when the socket is ready again
        self.flush_locked()
        self.read_owner.rearm_locked()
        if not self.read_owner.leased:
            # The interrupted thread may have been about to attach the sleeper.
            self.read_owner.detach_locked()

    # Ending.

    def _break_off_locked(self, error: PeerLostError) -> None:
        """End the connection without a good-bye, perhaps in the middle of a frame."""
        self._unsent.pieces.clear()
        self.protocol.data_to_send()
        self._end_locked(error)
        self._finish_soon_locked()

    def send_goodbye_locked(self, error: BaseException | None) -> None:
        """Send the good-bye, unless it was sent before."""
        leaves = (self.protocol.state, Act.SEND_GOODBYE) in TRANSITIONS
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
        """Stop waiting for the peer to take the output, or to send its good-bye."""
        with self.lock:
            if not self.closed:
                self._unsent.pieces.clear()
                self._give_up_locked()
                self._finish_soon_locked()
        self.settle()

    def _give_up_locked(self) -> None:
        self._end_locked(PeerLostError("the time to wait for its good-bye has passed"))

    def _finish_soon_locked(self) -> None:
        # By the driver: a finalizer may call this, on any thread.
        if not self.closed:
            self.closed = self.read_owner.over = True
            self.driver.call(self._finish, self)

    def _finish(self) -> None:
        with self.lock:
            if self.read_owner.leased or self._finished:
                return  # the reader was woken; its `yield_locked` calls this again
            self._finished = True
        try:
            with self.lock:
                self.read_owner.detach_locked()
                self._close_fds_locked()
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

    def drop(self) -> None:
        """Close the socket and drop any unsent output, without notice to the peer."""
        with self.lock:
            self._finish_soon_locked()
