"""`Link`: one socket with its protocol, under one lock.

Here are the reads: bytes that arrive go into the protocol. `ServedSocket` passes on its
events and closes the socket, `LinkWriter` writes its output. A link decides nothing.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, Final

from queuebroker import _net, _sync
from queuebroker.sockets.errors import PeerLostError, failed, lost
from queuebroker.sockets.frames import CREDIT_HEAD, MESSAGE_HEAD, pack_head
from queuebroker.sockets.incoming import READ_BYTES
from queuebroker.sockets.link_writer import LinkWriter

if TYPE_CHECKING:
    from queuebroker.channel.circular_buffer import CircularBufferQueue
    from queuebroker.sockets.errors import ProtocolError
    from queuebroker.sockets.protocol import Event

__all__ = ["Link"]

# How often the lease is checked within its length.
TICKS: Final = 8
# Reads of one link before other links have their turn; and reads of a link that can
# no longer be written to, before it is ended.
READS_MAX: Final = 16
LAST_READS_MAX: Final = 1024
_HEAD_BYTES: Final = MESSAGE_HEAD.size


class Link(LinkWriter):
    """A socket, its protocol, and the connection they carry once there is one.

    The lock is that of `ServedSocket`, the invariants are those of `LinkWriter`. The
    driver reads, or a waiting receiver in its place: see `ReadOwner`.
    """

    __slots__ = ()

    mid_io: bool  # both sides write it: see I3

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

    # Reading.

    def read_locked(
        self, first: bytes | None = None, most: int = READS_MAX
    ) -> list[Event]:
        """Read the available bytes; return the events that no connection handled.

        first: bytes that were read already. most: the maximum number of reads.
        """
        protocol, incoming = self.protocol, self._incoming
        incoming.handed_on = first is None
        self.mid_io = True
        # Read every byte that TLS has deciphered: the kernel does not report it again.
        for _ in itertools.count() if self.secured else range(most):
            try:
                whole = incoming.read(self.socket, protocol, self._flags, first)
            except _net.WOULD_BLOCK:
                break
            except OSError as error:
                protocol.receive_eof(lost(error))
                break
            except MemoryError as error:
                if not (incoming.handed_on and protocol.reader.drop_message()):
                    protocol.abort(failed(error))
                    break
                whole = True
            first = None
            if not whole or protocol.ended:
                break
        events = self.dispatch_locked(protocol.events())
        self.mid_io = False
        self.flush_locked()
        return events

    def read_whole_locked(self, inbox: CircularBufferQueue[Any]) -> bytes | None:
        """Read the available bytes; return them if they are exactly one message.

        That message counts as received. Anything else goes to the connection, which
        stores messages in ``inbox``, and the result is None.
        """
        protocol = self.protocol
        reader = protocol.reader
        if (
            self.closed
            or self.piecewise
            or inbox._messages  # earlier ones
            or reader.parts
            or reader.gathering is not None
        ):
            if not self.closed:
                self.read_locked()
            return None
        self.mid_io = True
        try:
            data = self.socket.recv(READ_BYTES, self._flags)
        except _net.WOULD_BLOCK:
            self.mid_io = False
            return None
        except OSError as error:
            self.mid_io = False
            self.lose_locked(error)
            return None
        except MemoryError as error:
            self.mid_io = False  # no byte was taken from the socket
            self.fail_locked(failed(error))
            return None
        # Nearly every read of a waiting receiver is one message, perhaps with a credit.
        # Its steps are inlined from `Protocol.receive_data`.
        if data.startswith(CREDIT_HEAD):
            data = protocol.take_credit(data)
        number, size = protocol.arrived + 1, len(data) - _HEAD_BYTES
        if (
            size < 0
            or size > protocol.limit
            or not data.startswith(pack_head(8 + size, number))
            or number > protocol.receivable
            or not protocol.plain
        ):
            self.read_locked(data)
            return None
        message = data[_HEAD_BYTES:]
        protocol.gather_until = 0  # the next message may be an answer
        protocol.arrived = number
        protocol.taken += 1
        inbox._pulled += 1  # before the next line: without memory the link fails
        self.mid_io = False
        if 2 * protocol.taken >= protocol.capacity:
            protocol.credit(0)
            self.flush_locked()
        return message

    def take_fds_locked(self, count: int) -> list[int] | None:
        """Return the oldest ``count`` descriptors; None if fewer have arrived."""
        return self._incoming.take_fds(count)

    def fail_locked(self, error: PeerLostError | ProtocolError) -> None:
        """End the link for an error that the protocol cannot detect."""
        self.protocol.abort(error)
        self.dispatch_locked(self.protocol.events())
        self.flush_locked()

    def lose_locked(self, error: OSError) -> None:
        """End the protocol because the socket failed."""
        self._end_locked(lost(error))
        self.flush_locked()

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

    def sleep(self, deadline: float | None) -> None:
        """Sleep as the reader, until the socket is readable or a thread releases it."""
        read_owner = self.read_owner
        spoke, read_owner.sent_since_sleep = read_owner.sent_since_sleep, False
        sleeper, began = read_owner.sleeper, None
        try:
            if spoke and sleeper.spin_is_due:
                began = _sync.monotonic()
                if sleeper.spin(began, deadline):
                    return
            sleeper.sleep(deadline, began, alone=True)
        except _net.SocketFailure as failure:
            with self.lock:
                self.lose_locked(failure.error)

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
