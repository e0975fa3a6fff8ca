"""`Incoming`: reads from a socket into a protocol.

A long message is read into its final buffer, see `Gathering`; everything else is read
as it arrives. The counterpart of `Unsent`: it does not interpret the bytes and does not
block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _net
from queuebroker.sockets.descriptors import close_all

if TYPE_CHECKING:
    from queuebroker._net import Socket
    from queuebroker.sockets.protocol import Protocol

__all__ = ["READ_BYTES", "Incoming"]

# Bytes per read: enough for many small messages; more while a long one is incomplete.
READ_BYTES: Final = 1 << 16
READ_BYTES_MAX: Final = 1 << 18
# Memory for a longer message is allocated as its bytes arrive, not when the sender
# announces the length.
GATHERED_BYTES_MAX: Final = 1 << 24
# Descriptors that the kernel passes at once.
FDS_MAX: Final = 253


class Incoming:
    """The read side of a socket, with received descriptors; guarded by the link's lock.

    If ``described``, descriptors may arrive with the bytes, and each read requests
    them.

    handed_on: True unless bytes were taken from the socket that the protocol has not
      handled. An error then leaves a stream without these bytes, which must end.
    """

    __slots__ = ("_fds", "described", "handed_on")

    def __init__(self, *, described: bool) -> None:
        self.described: bool = described
        self.handed_on: bool = True
        # Descriptors that arrived before their message, oldest first.
        self._fds: list[int] = []

    def read(
        self,
        socket: Socket,
        protocol: Protocol,
        flags: int,
        data: bytes | None = None,
    ) -> bool:
        """Read once; return True if there may be more.

        flags: `_net.AT_ONCE` for a plain socket, none for TLS.
        data: bytes that were read already.

        Raises:
            OSError: the socket has failed, or has no data (`_net.WOULD_BLOCK`).
        """
        secured = not flags
        reader = protocol.reader
        gathering = reader.gathering
        if data is None and gathering is not None:
            with gathering.room as room:
                size = len(room)
                count = socket.recv_into(room, 0, flags)
            self.handed_on = False
            protocol.receive_gathered(count)
            self.handed_on = True
            return secured or count == size
        size = min(max(READ_BYTES, reader.wanted), READ_BYTES_MAX)
        if data is None:
            data = self._receive(socket, size, flags)
        if not data:
            protocol.receive_eof()
            return False
        self.handed_on = False
        protocol.receive_data(data)
        self.handed_on = True
        # Not if ``described``: `recv_into` would drop the descriptors that arrive.
        long = reader.long_bytes()
        if READ_BYTES < long <= GATHERED_BYTES_MAX and not self.described:
            reader.gather()
        return secured or len(data) >= size

    def _receive(self, socket: Socket, size: int, flags: int) -> bytes:
        if not self.described:
            return socket.recv(size, flags)
        data, fds = _net.receive_with_fds(socket, size, FDS_MAX)
        self._fds += fds
        return data

    def take_fds(self, count: int) -> list[int] | None:
        """Return the oldest ``count`` descriptors; None if fewer have arrived."""
        if len(self._fds) < count:
            return None
        taken = self._fds[:count]
        del self._fds[:count]
        return taken

    def close_fds(self) -> None:
        """Close the descriptors of messages that will not be received."""
        close_all(self._fds)
        self._fds.clear()
