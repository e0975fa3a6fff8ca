"""`RawEnd`: a plain socket that plays a peer byte by byte."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from queuebroker.closable import Closable
from tests.kit.systems import require_unix_sockets
from tests.watchdog import LIMIT_S

if TYPE_CHECKING:
    from bus.pattern import BusSocket

__all__ = ["HANDSHAKE", "RawEnd", "RawListener", "dial_native", "frame"]

HANDSHAKE: Final = bytes.fromhex("0053500000700000")  # of BUS
_NATIVE_HANDSHAKE: Final = bytes.fromhex("00535000f0700000")
_HELLO: Final = b"\2" + b"\7" * 8  # of a node with this id


def frame(body: bytes, *, is_ipc: bool) -> bytes:
    """Return a message as it is on the wire."""
    return b"\x01" * is_ipc + len(body).to_bytes(8) + body


class RawEnd(Closable):
    """One connection; leaving the block closes it."""

    def __init__(self, made: socket.socket) -> None:
        made.settimeout(LIMIT_S)  # a watchdog
        self.socket: Final = made

    @classmethod
    def dial(cls, url: str) -> RawEnd:
        """Connect to an ``ipc`` or ``tcp`` address."""
        scheme, _, rest = url.partition("://")
        if scheme == "ipc":
            require_unix_sockets()
            made = socket.socket(socket.AF_UNIX)
            made.connect(rest)
        else:
            host, _, port = rest.partition(":")
            made = socket.create_connection((host, int(port)))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(made)

    def send(self, data: bytes) -> None:
        """Send all bytes."""
        self.socket.sendall(data)

    def send_slowly(self, data: bytes) -> None:
        """Send the bytes one by one."""
        for i in range(len(data)):
            self.socket.sendall(data[i : i + 1])

    def read(self, size: int) -> bytes:
        """Return the next bytes, so many; fewer at the end of the connection."""
        data = b""
        while len(data) < size and (piece := self._read(size - len(data))):
            data += piece
        return data

    def read_to_end(self) -> bytes:
        """Return all bytes that arrive before the other end closes."""
        data = b""
        while piece := self._read(1 << 16):
            data += piece
        return data

    def _read(self, size: int) -> bytes:
        try:
            return self.socket.recv(size)
        except ConnectionResetError:
            return b""

    def handshake(self) -> None:
        """Send all, then read all, as every other library does."""
        self.send(HANDSHAKE)
        assert self.read(8) == HANDSHAKE

    def handshake_after_peer(self) -> None:
        """Read all, then send all."""
        assert self.read(8) == HANDSHAKE
        self.send(HANDSHAKE)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


class RawListener(Closable):
    """A listening socket; leaving the block closes it.

    Attributes:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        if scheme == "ipc":
            require_unix_sockets()
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(rest)
            self._socket.listen()
            self.url = url
        else:
            port = int(rest.partition(":")[2] or 0)
            self._socket = socket.create_server(("127.0.0.1", port))
            self.url = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"
        self._socket.settimeout(LIMIT_S)

    def accept(self) -> RawEnd:
        """Return the next connection."""
        return RawEnd(self._socket.accept()[0])

    def has_waiting(self) -> bool:
        """Return whether a connection waits to be accepted."""
        self._socket.setblocking(False)
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        finally:
            self._socket.settimeout(LIMIT_S)
        return True

    def close(self) -> None:
        """Listen no longer; keep the connections."""
        self._socket.close()


def dial_native(node: BusSocket, url: str) -> RawEnd:
    """Connect to a listener of a node as a native peer."""
    end = RawEnd.dial(url)
    end.send(_NATIVE_HANDSHAKE + frame(_HELLO, is_ipc=url.startswith("ipc://")))
    assert node.wait_for_peers(1, LIMIT_S)
    return end
