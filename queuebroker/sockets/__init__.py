"""The same channels between processes and machines (QB-SOCK).

General layout, each on those before it:

errors                 what only a connection between processes can tell
frames                 bytes to values and back
states, protocol       what may be said and heard when: no socket, no clock, no thread
address, options, peer, tls   where, within which limits, with whom
driver                 who waits for sockets: one thread a process, or its owner
unsent                 what a socket did not take yet
link                   a socket and its protocol, under one lock
connection, queue      the state and the end of a `MessageQueue` whose peer is far away
listener, departure    who comes to a broker; who goes to one
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
