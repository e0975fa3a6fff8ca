"""Peers that connect with a plain socket, and send the bytes that a test chooses."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from queuebroker.sockets import SocketMessageQueue, frames
from queuebroker.sockets.frames import Frame, Hello
from tests.sockets.support import PORT
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from queuebroker.sockets import SocketQueueBroker


def raw(host: SocketQueueBroker) -> socket.socket:
    """Connect without any frame of the protocol."""
    assert host.address is not None
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(LIMIT_S)
    made.connect(host.address.removeprefix("ipc://"))
    return made


def accepted_raw(
    host: SocketQueueBroker, peer: socket.socket, threads: Threads
) -> SocketMessageQueue:
    """Accept a raw connection; return this end."""
    accepting = threads.start(host.accept, PORT)
    peer.sendall(frames.encode(Hello("raw", PORT, 1 << 21)))
    near = accepting.result()
    assert isinstance(near, SocketMessageQueue)
    assert peer.recv(1 << 16)[0] == Frame.WELCOME
    return near


def heard(peer: socket.socket) -> bytes:
    """Return all bytes that arrive before the end of a connection."""
    said = b""
    while piece := peer.recv(1 << 16):
        said += piece
    return said
