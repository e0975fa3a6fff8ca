"""The bus pattern: every message reaches all nodes but its sender.

::

    from bus.pattern import BusSocket

    with BusSocket() as one, BusSocket() as other:
        other.dial(one.listen("tcp://127.0.0.1:0").url)
        one.wait_for_peers(1, timeout=10)
        one.send(b"hello")
        print(other.receive(timeout=10))  # b'hello'

The sockets speak the wire of nanomsg and NNG, whose sockets may be among the nodes. See
specs/bus-pattern.md for the clauses BP-1 to BP-20 and the facts of the wire.

bus_socket      a node: sends to all peers, receives from all; the common part of both
raw_bus_socket  a node that states where messages came from
pair_socket     one peer at a time
device          joins the peers of one or two raw sockets
socket_config   the limits of a socket
socket_url      the addresses

sp_socket       the common part of the sockets
node            the connections of one socket, and its account
socket_state    whether the socket is open, and its owner
peer_pipes      its connections, and those that carry messages
outbound_messages  its messages that are sent
inbound_messages  its messages that have arrived, each accepted once
drop_ledger     its messages that were dropped
pipe            one connection, as the node sees it
message_run     consecutive messages of one node
fair_queue      messages of several peers, taken in turn
send_queue      frames that wait for one peer
drop_reason     why messages are dropped

listener        accepts peers at an address
dialler         connects to an address, again after each loss
stream_connection  a pipe over TCP or a UNIX socket
stream_writer   its output
inproc          a pipe within a process
group           a pipe to a multicast group
protocol        one connection without I/O: handshake and frames
framing         messages within the frames
native          the frames between sockets of this package
wire            the bytes of the handshake and of the head of a frame
"""

from __future__ import annotations

from bus.pattern.bus_socket import BusSocket
from bus.pattern.device import Device, device
from bus.pattern.dialler import Dialler
from bus.pattern.drop_ledger import Drop
from bus.pattern.drop_reason import DropReason
from bus.pattern.group import Group
from bus.pattern.listener import Listener
from bus.pattern.native import ReceiverAccount, SenderAccount
from bus.pattern.node import SocketStats
from bus.pattern.pair_socket import PairSocket
from bus.pattern.pipe import PeerStats
from bus.pattern.raw_bus_socket import RawBusSocket, RawMessage
from bus.pattern.socket_config import SocketConfig

__all__ = [
    "BusSocket",
    "Device",
    "Dialler",
    "Drop",
    "DropReason",
    "Group",
    "Listener",
    "PairSocket",
    "PeerStats",
    "RawBusSocket",
    "RawMessage",
    "ReceiverAccount",
    "SenderAccount",
    "SocketConfig",
    "SocketStats",
    "device",
]
