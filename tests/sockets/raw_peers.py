"""Peers that connect with a plain socket, and send the bytes that a test chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker.sockets import SocketMessageQueue, frames
from queuebroker.sockets.frames import Frame, Hello
from tests.sockets.support import PORT

if TYPE_CHECKING:
    import socket

    from queuebroker.sockets import SocketQueueBroker
    from tests.support import Threads


def accepted_raw(
    host: SocketQueueBroker,
    peer: socket.socket,
    threads: Threads,
    longest: int = 1 << 21,
) -> SocketMessageQueue:
    """Accept a raw connection; return this end.

    longest: the maximum length of a message that the peer receives, in bytes.
    """
    accepting = threads.start(host.accept, PORT)
    peer.sendall(frames.encode(Hello("raw", PORT, longest)))
    near = accepting.result()
    assert isinstance(near, SocketMessageQueue)
    assert peer.recv(1 << 16)[0] == Frame.WELCOME
    return near


def received(peer: socket.socket) -> bytes:
    """Return all bytes that arrive before the end of a connection."""
    said = b""
    while piece := peer.recv(1 << 16):
        said += piece
    return said
