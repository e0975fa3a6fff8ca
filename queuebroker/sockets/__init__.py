"""The same channels between processes and machines (QB-SOCK).

::

    from threading import Thread

    from queuebroker.sockets import SocketQueueBroker

    def ask(address):
        with SocketQueueBroker("client") as client:
            with client.connect(address, 1, timeout=10, required=True) as queue:
                queue.send(b"hello")

    with SocketQueueBroker("server", listen="tcp://127.0.0.1:0") as server:
        Thread(target=ask, args=[server.address]).start()  # or another machine
        with server.accept(1, timeout=10) as queue:
            print(queue.receive())  # b'hello'

General layout; each module uses only those above it:

errors                 the errors that only a connection between processes can have
frames                 bytes to values and back
memory                 the memory of long messages, kept for the next ones
frame_reader           the bytes that arrive, split into frames; long messages
states, protocol       the order of frames, without a socket, a clock or a thread
address, options, peer, tls   addresses, limits, identity and certificates of peers
driver                 the event loop: one thread per process, or run by its owner
descriptors, incoming  received descriptors; reads into a protocol
unsent                 the output that a socket has not taken yet
read_owner             the thread that reads a socket
served_socket          a socket of the driver, with its protocol, up to its close
link_writer, link      the sending side of a link; a link, which reads too
connection, queue      the state and the end of a `MessageQueue` with a remote peer
read_lease             the right of a thread to read the sockets of its queues
incoming_connect       the connect of a peer, until its accept
listener               a listening socket; the one of a broker
outgoing_connect       a connect to an address
broker                 `SocketQueueBroker`
"""

from __future__ import annotations

from queuebroker.sockets.broker import SocketQueueBroker
from queuebroker.sockets.driver import Driver
from queuebroker.sockets.errors import (
    NotAdmittedError,
    PeerLostError,
    ProtocolError,
    RemoteError,
)
from queuebroker.sockets.options import SocketOptions
from queuebroker.sockets.peer import Peer
from queuebroker.sockets.queue import SocketMessageQueue
from queuebroker.sockets.tls import Tls

__all__ = [
    "Driver",
    "NotAdmittedError",
    "Peer",
    "PeerLostError",
    "ProtocolError",
    "RemoteError",
    "SocketMessageQueue",
    "SocketOptions",
    "SocketQueueBroker",
    "Tls",
]
