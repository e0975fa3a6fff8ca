"""`Link`: one socket with its protocol, under one lock.

What arrives goes into the protocol and from there to whoever the link belongs to; what
the protocol has to say goes out, by whoever made it say that, as far as the socket
takes it, and the rest by the driver. It decides nothing.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from typing import TYPE_CHECKING, Final
from typing import Protocol as Seam

from queuebroker import _net, _sync
from queuebroker.sockets.descriptors import close_all
from queuebroker.sockets.errors import PeerLostError
from queuebroker.sockets.states import TRANSITIONS, Act

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker._net import Socket
    from queuebroker.sockets.connection import SocketConnection
    from queuebroker.sockets.driver import Driver
    from queuebroker.sockets.errors import ProtocolError
    from queuebroker.sockets.protocol import Event, Protocol

__all__ = ["Host", "Link"]

# Read at once: enough for many small messages; more while a long one is under way.
READ_BYTES: Final = 1 << 16
READ_BYTES_MAX: Final = 1 << 18
# Below this it is quicker to copy what is written into one piece.
JOIN_BYTES_MAX: Final = 1 << 16
# For how long nobody reads after a receive, in seconds.
IDLE_S: Final = 2e-3
# How often in the length of a lease it is looked at.
TICKS: Final = 8
# Written with one call.
PIECES_MAX: Final = 64
# Descriptors that the kernel passes at once.
FDS_MAX: Final = 253
# Reads of one link before others have their turn.
READS_MAX: Final = 16


class Host(Seam):
    """Whose link it is until there is a connection."""

    def heard(self, link: Link, events: list[Event]) -> None:
        """Deal with what came; called by the driver, without the lock."""


class Link:
    """A socket, its protocol, and once there is one the connection they carry.

    Lock: ``lock`` guards everything below; it is the connection's lock too. It is taken
    under a manager's lock, never the other way round; nothing is waited for under it.

    Invariants, true whenever ``lock`` is free:
    I1. the driver waits for the socket to be writable exactly while ``_unsent``.
    I2. nothing that the protocol has to say is kept back while nothing is unsent.
    """

    __slots__ = (
        "_attached",
        "_blocked",
        "_fds",
        "_finished",
        "_opening",
        "_outward",
        "_rearming",
        "_takes_fds",
        "_unsent",
        "closed",
        "connection",
        "driver",
        "host",
        "idle",
        "led",
        "lock",
        "protocol",
        "secured",
        "sleeper",
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
    ) -> None:
        self.lock: _thread.LockType = _sync.Lock()
        self.socket: Socket = socket
        self.protocol: Protocol = protocol
        self.driver: Driver = driver
        self.host: Host | None = host
        self.connection: SocketConnection | None = None
        self.secured: bool = isinstance(socket, _net.TlsSocket)
        self.closed: bool = False
        # Whether a receiver waits for the socket in the driver's place.
        self.led: bool = False
        # Whether nobody does for a moment, the driver neither.
        self.idle: bool = False
        self._rearming = False
        self._finished = False
        # Descriptors that came and whose message did not, and those to be sent with
        # the first byte of an unsent frame, by its identity.
        self._takes_fds = takes_fds
        self._fds: list[int] = []
        self._outward: dict[int, list[int]] = {}
        # What a receiver sleeps on that reads, while it is attached to the socket.
        self.sleeper: _net.Sleeper
        self._attached = False
        self._opening = opening
        self._unsent: deque[memoryview] = deque()
        self._blocked = False

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
        if events and self.host is not None:
            self.host.heard(self, events)
        self.settle()
        self.driver.at(now + interval_s, lambda: self._tick(interval_s))

    # For the driver.

    def ready(self, mask: int) -> None:
        """Read and write what can be, and tell whom it concerns."""
        events: list[Event] = []
        with self.lock:
            if self.closed:
                return
            if self._opening is not None:
                self._open_locked()
            elif mask & _net.WRITE:
                self.flush_locked()
            if mask & ~_net.WRITE and not self.led and self._opening is None:
                events = self.read_locked()
        if events and self.host is not None:
            self.host.heard(self, events)
        self.settle()

    def forsake(self) -> None:
        """Let go of the socket without a word: nobody turns the driver any more."""
        self.lock = _sync.Lock()
        self.closed = True
        self.socket.close()
        self._close_fds_locked()
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
            self._finish_soon()
            return
        if wanted:
            self._watch_locked(wanted)
            return
        self._opening = None
        self._watch_locked(_net.READ)
        self.flush_locked()

    def secure_locked(self, secured: Socket) -> None:
        """Go on over TLS, on the same descriptor."""
        self.socket = secured
        self.secured = True

    # Reading.

    def read_locked(self) -> list[Event]:
        """Take in what is there; return what no connection has dealt with."""
        protocol = self.protocol
        # All that TLS has deciphered must be read: nobody tells of it again.
        for _ in itertools.count() if self.secured else range(READS_MAX):
            size = min(max(READ_BYTES, protocol.wanted), READ_BYTES_MAX)
            try:
                data = self._receive(size)
            except _net.WOULD_BLOCK:
                break
            except OSError as error:
                protocol.receive_eof(_lost(error))
                break
            if not data:
                protocol.receive_eof()
                break
            protocol.receive_data(data)
            if len(data) < size and not self.secured:
                break
        events = self.deal_locked(protocol.events())
        self.flush_locked()
        return events

    def _receive(self, size: int) -> bytes:
        if not self._takes_fds:
            return self.socket.recv(size)
        data, fds = _net.receive_with_fds(self.socket, size, FDS_MAX)
        self._fds += fds
        return data

    def take_fds_locked(self, count: int) -> list[int] | None:
        """Return the oldest descriptors that came; None if there are not so many."""
        if len(self._fds) < count:
            return None
        taken = self._fds[:count]
        del self._fds[:count]
        return taken

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
        self.protocol.receive_eof(_lost(error))
        left = self.deal_locked(self.protocol.events())
        if left and self.host is not None:
            host = self.host
            self.driver.call(lambda: host.heard(self, left))
        self.flush_locked()

    # Writing.

    def flush_locked(self) -> None:
        """Write what there is to write, as far as the socket takes it."""
        if self.closed or self._opening is not None:
            return
        try:
            while True:
                if self._unsent:
                    if not self._write_locked():
                        break
                    continue
                parts = self.protocol.data_to_send()
                if not parts:
                    break
                if not self._write_new_locked(parts):
                    break
        except OSError as error:
            self._unsent.clear()
            if self.protocol.ended:
                self._finish_soon()
            else:
                self.lose_locked(error)
            return
        if self.protocol.ended and not self._unsent:
            self._finish_soon()
            return
        if bool(self._unsent) is not self._blocked:
            self._rewatch_locked()

    def post_locked(self, message: bytes) -> None:
        """Send one message, which there is room for."""
        if self._unsent or not self.protocol.silent or len(message) > JOIN_BYTES_MAX:
            self.protocol.send_message(message)
            self.flush_locked()
            return
        data = self.protocol.frame_of(message)
        try:
            sent = self.socket.send(data)
        except _net.WOULD_BLOCK:
            sent = 0
        except OSError as error:
            self.lose_locked(error)
            return
        if sent != len(data):
            self._unsent.append(memoryview(data)[sent:])
            self._rewatch_locked()

    def post_fds_locked(self, message: bytes, fds: list[int]) -> None:
        """Send one message, which there is room for, and close its descriptors then."""
        before = self.protocol.data_to_send()
        if before:
            self._unsent.append(memoryview(b"".join(before)))
        frame = memoryview(self.protocol.frame_of(message, len(fds)))
        self._outward[id(frame)] = fds
        self._unsent.append(frame)
        self.flush_locked()

    def _send_head(self, head: memoryview) -> int:
        fds = self._outward.get(id(head)) if self._outward else None
        if fds is None:
            return self.socket.send(head)
        sent = _net.send_with_fds(self.socket, head, fds)
        del self._outward[id(head)]
        close_all(fds)
        return sent

    def _write_new_locked(self, parts: list[bytes]) -> bool:
        """Write some more; keep what the socket does not take, and return False."""
        if len(parts) > 1 and sum(map(len, parts)) > JOIN_BYTES_MAX:
            # Long ones are not copied: their heads go with them by themselves.
            self._unsent.extend(map(memoryview, filter(None, parts)))
            return self._write_locked()
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        try:
            sent = self.socket.send(data)
        except _net.WOULD_BLOCK:
            sent = 0
        if sent == len(data):
            return True
        self._unsent.append(memoryview(data)[sent:])
        return False

    def _write_locked(self) -> bool:
        """Write some of what was kept; False if the socket takes no more."""
        head = self._unsent[0]
        try:
            if len(self._unsent) > 1 and not (self.secured or self._outward):
                return self._write_several_locked()
            sent = self._send_head(head)
        except _net.WOULD_BLOCK:
            return False
        if sent == len(head):
            self._unsent.popleft()
            return True
        self._unsent[0] = head[sent:]
        return False

    def _rewatch_locked(self) -> None:
        self._blocked = bool(self._unsent)
        reads = not (self.led or self.idle)
        wanted = (_net.READ if reads else 0) | (_net.WRITE if self._blocked else 0)
        self._watch_locked(wanted or _net.ONCE)

    # A receiver that waits may read in the driver's place.

    def lead_locked(self) -> bool:
        """Take the reading over from the driver, if it has it; `yield_locked` it."""
        if (
            self.led
            or self.closed
            or self._opening is not None
            or self.protocol.ended
            or not self.driver.background
        ):
            return False
        if not self._attached:
            self.sleeper = self.driver.lend_sleeper()
            self.sleeper.attach(self.socket.fileno())
            self._attached = True
        self.led = True
        if not self.idle:
            self._rewatch_locked()
        self.idle = False
        return True

    def yield_locked(self, *, wanted: bool) -> None:
        """Give the reading back: at once if ``wanted``, else soon.

        Who has just received will often wait for the next message before long, and to
        change what the driver waits for costs more than to read.
        """
        self.led = False
        if self.closed:
            self.driver.call(self._finish)
            return
        self.idle = True
        if wanted:
            self.rearm_locked()
        elif not self._rearming:
            self._rearming = True
            self.driver.at(_sync.monotonic() + IDLE_S, self._rearm)

    def rearm_locked(self) -> None:
        """Let the driver read, if nobody does."""
        if self.idle and not self.closed:
            self.idle = False
            self._rewatch_locked()

    def _rearm(self) -> None:
        with self.lock:
            self._rearming = False
            if not self.led:
                self.rearm_locked()
                self._detach_locked()

    def _detach_locked(self) -> None:
        """Give back what receivers sleep on; nobody does."""
        if self._attached:
            self._attached = False
            self.sleeper.detach(self.socket.fileno())
            self.driver.return_sleeper(self.sleeper)

    def _write_several_locked(self) -> bool:
        """Write pieces with one call; False if the socket takes no more."""
        pieces = list(itertools.islice(self._unsent, PIECES_MAX))
        sent = self.socket.sendmsg(pieces)
        for piece in pieces:
            if sent < len(piece):
                self._unsent[0] = piece[sent:]
                return sent > 0
            sent -= len(piece)
            self._unsent.popleft()
        return True

    def _watch_locked(self, wanted: int) -> None:
        self.driver.watch(self.socket.fileno(), wanted)

    # Ending.

    def leave_locked(self, error: BaseException | None) -> None:
        """Say good-bye, if that is still to be said."""
        if (self.protocol.state, Act.SAY_GOODBYE) in TRANSITIONS:
            self.protocol.disconnect(error)
        self.flush_locked()

    def _finish_soon(self) -> None:
        # By the driver: a finalizer may have brought us here, on any thread.
        if not self.closed:
            self.closed = True
            self.driver.call(self._finish)

    def _finish(self) -> None:
        with self.lock:
            if self.led or self._finished:
                return  # who sleeps at the socket was woken, and calls again on leaving
            self._finished = True
            self._detach_locked()
            self._close_fds_locked()
        self.driver.unregister(self.socket.fileno())
        self.socket.close()
        # Nothing more will be told; and nobody shall need the garbage collector.
        self.host = None
        self.connection = None
        self.driver.release()

    def _close_fds_locked(self) -> None:
        close_all(self._fds)
        self._fds.clear()
        while self._outward:
            close_all(self._outward.popitem()[1])

    def drop(self) -> None:
        """Close the socket whatever was to be sent; nobody is told."""
        with self.lock:
            self._finish_soon()


def _lost(error: OSError) -> PeerLostError:
    text = os.strerror(error.errno) if error.errno else str(error)
    lost = PeerLostError(f"peer is gone: {text.lower()}")
    lost.__cause__ = error
    return lost
