"""`LinkWriter`: the sending side of a link, up to its good-bye.

The caller that makes the protocol produce output writes as much as the socket takes;
the driver writes the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from queuebroker import _net, _sync
from queuebroker.sockets.errors import PeerLostError
from queuebroker.sockets.frames import pack_head
from queuebroker.sockets.quick_sends import QuickSends
from queuebroker.sockets.served_socket import ServedSocket
from queuebroker.sockets.states import TRANSITIONS, Act, State
from queuebroker.sockets.unsent import JOIN_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker._net import Socket
    from queuebroker.sockets.driver import Driver
    from queuebroker.sockets.protocol import Protocol
    from queuebroker.sockets.served_socket import Host

__all__ = ["GATHERED_BYTES_MAX", "LinkWriter"]

# How long a peer may still take the unsent bytes after the protocol has ended, in
# seconds, if no option sets it.
LAST_S: Final = 20.0

# Messages of at most this many bytes may share a write, and so many at most.
GATHERED_BYTES_MAX: Final = 512
_GATHERED_MAX: Final = 128


class LinkWriter(ServedSocket):
    """A served socket to which the output of its protocol is written; `Link` reads it.

    Invariants, true whenever ``lock`` is free; all but I3 only once ``_opening`` is
    over, and until ``closed``:
    I1. the driver waits for the socket to be writable, ``read_owner.blocked``, exactly
        while ``_unsent`` has pieces.
    I2. while nothing is unsent, the protocol has no output left to write, except
        gathered messages. While it has some, ``_quick_sends`` has a review due.
    I3. ``mid_io`` is false. It is true while only the caller holds some bytes: until
        they are in the protocol, or the socket, and handled. If an interrupt is raised
        in between, the position in the stream is unknown, and `Link.recover_locked`
        ends the connection (QB-ERR-9).
    I4. once the protocol has ended, the driver has nothing left to write, or a timer
        will drop the rest (``_leaving``): the peer may never read it.
    I5. once a write has failed (``_write_failed``), no output is kept. The driver is
        about to read the bytes that had arrived, and then ends the connection.
    """

    __slots__ = (
        "_arrived",
        "_farewell_s",
        "_flags",
        "_leaving",
        "_opening",
        "_quick_sends",
        "_write_failed",
        "mid_io",
        "piecewise",
        "secured",
    )

    def __init__(
        self,
        socket: Socket,
        protocol: Protocol,
        driver: Driver,
        host: Host[Self],
        opening: Callable[[Socket], int] | None = None,
        *,
        takes_fds: bool = False,
        farewell_s: float | None = None,
    ) -> None:
        super().__init__(socket, protocol, driver, host, takes_fds=takes_fds)
        self.read_owner.idle = opening is not None  # no thread reads before it is open
        self.secured: bool = isinstance(socket, _net.TlsSocket)
        self._flags = 0 if self.secured else _net.AT_ONCE
        # True if each message must become an event: one read of the socket may leave a
        # part behind, or a message has descriptors, or an observer.
        self.piecewise: bool = self.secured or takes_fds
        self.mid_io: bool = False
        # True if a timer closes this link, regardless of its peer.
        self._leaving = False
        # Continues the connect or the TLS handshake; None once frames can be written.
        self._opening = opening
        # How long this end waits for the peer's good-bye; None: without a limit.
        self._farewell_s = farewell_s
        # The error of the write that failed: nothing reaches the peer after it.
        self._write_failed: OSError | None = None
        self._quick_sends = QuickSends(self.lock)
        self._arrived: int = 0  # how many messages had, when the last one was sent

    def secure_locked(self, secured: Socket) -> None:
        """Continue over TLS, on the same descriptor."""
        self.socket = secured
        self.secured = self.piecewise = True
        self._flags = 0

    def _finish(self) -> None:
        super()._finish()
        if self._finished:
            self._opening = None  # it may refer to the former host: as in the base

    def flush_locked(self) -> None:
        """Write the pending output, as far as the socket takes it."""
        protocol = self.protocol
        if protocol.gathered:
            self.read_owner.sent_since_sleep = True
        if self._write_failed is not None:
            self._unsent.pieces.clear()
            protocol.data_to_send()
        if not (
            protocol.outgoing
            or protocol.gathered
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
        """Send one message; the peer must have room for it.

        Over a background driver, the message may be gathered: see `_gather_locked`.
        """
        protocol = self.protocol
        if self.driver.background:
            if self._arrived != protocol.arrived:
                # It may be the answer to a message of the peer.
                self._arrived = protocol.arrived
                self._quick_sends.in_a_row //= 2
            elif self._gather_locked(message):
                return
        if (
            self._unsent.pieces
            or protocol.outgoing
            or protocol.gathered
            or len(message) > JOIN_BYTES_MAX
        ):
            self.read_owner.sent_since_sleep = True
            protocol.send_message(message)
            self.flush_locked()
        else:
            self.post_whole_locked(message)

    def post_whole_locked(self, message: bytes) -> None:
        """Send one message with one write; the peer must have room for it.

        It has `JOIN_BYTES_MAX` at most, and nothing is unsent or gathered.
        """
        protocol = self.protocol
        self.read_owner.sent_since_sleep = True
        number = protocol.sent + 1
        data = pack_head(8 + len(message), number) + message
        if protocol.taken >= protocol.riding_min:
            data = protocol.with_credit(data)
        if not protocol.plain:
            protocol.begin_message()
        protocol.sent = number
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

    def _gather_locked(self, message: bytes) -> bool:
        """Gather a message; return False if it must be written at once.

        Many short messages in quick succession share a write. Their sender continues
        without this call until `Protocol.gather_until`.
        """
        protocol, quick_sends = self.protocol, self._quick_sends
        goes_on = bool(protocol.gathered)
        if goes_on:
            self.flush_locked()
        if (
            not quick_sends.may_share(goes_on=goes_on)
            or len(message) > GATHERED_BYTES_MAX
            or protocol.limit < GATHERED_BYTES_MAX
            or not _sync.has_interpreter_lock()
            or self._unsent.pieces
            or protocol.outgoing
        ):
            return False
        quick_sends.begin_group(self._flush_soon, self._flush)
        protocol.begin_gathering(message, _GATHERED_MAX)
        return True

    def _flush_soon(self, flush: Callable[[], object], delay_s: float = 0.0) -> None:
        if delay_s:
            self.driver.at(_sync.monotonic() + delay_s, flush, self)
        else:
            self.driver.call(flush, self)

    def _flush(self) -> None:
        with self.lock:
            self.flush_locked()
        self.settle()

    def post_fds_locked(self, message: bytes, fds: list[int]) -> None:
        """Send one message, then close its descriptors; the peer must have room."""
        protocol = self.protocol
        self.mid_io = True
        before = protocol.data_to_send()
        if before:
            self._unsent.pieces.append(memoryview(b"".join(before)))
        protocol.send_message(message, len(fds))
        (frame,) = protocol.data_to_send()
        if protocol.taken >= protocol.riding_min:
            frame = protocol.with_credit(frame)
        self._unsent.keep_described(frame, fds)
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
        """Read the rest from the peer, then end the connection; of the reading side."""
        raise NotImplementedError

    # The good-bye.

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
