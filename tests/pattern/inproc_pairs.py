"""Sockets and nodes with connections in the process, for tests: no thread, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.pattern import SocketConfig
from bus.pattern.inproc import InprocConnection
from bus.pattern.node import Node
from bus.pattern.wire import EndpointType
from queuebroker.errors import ReceiveTimeoutError
from queuebroker.testing import explore
from tests.depth import schedules

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.pattern.sp_socket import SpSocket
    from queuebroker.testing import Run

__all__ = [
    "bus_node",
    "connect",
    "join",
    "nobody_waits",
    "receive_all",
    "under_schedules",
]


def connect(first: SpSocket[Any], second: SpSocket[Any]) -> InprocConnection:
    """Connect two sockets as a dialler and a listener of ``inproc`` do."""
    ends = [InprocConnection(each._node, lambda: None) for each in (first, second)]
    assert ends[0].join(ends[1], "inproc://test")
    return ends[0]


def bus_node(*, pipes_max: int | None = None, **limits: Any) -> Node:
    """Return a node of the bus protocol; ``limits`` are those of `SocketConfig`."""
    config = SocketConfig(**limits)
    return Node(config, EndpointType.BUS, EndpointType.NATIVE_BUS, pipes_max=pipes_max)


def join(first: Node, second: Node) -> bool:
    """Connect two nodes; return False if one of them has refused."""
    ends = [InprocConnection(node, lambda: None) for node in (first, second)]
    return ends[0].join(ends[1], "inproc://test")


def receive_all(node: Node) -> list[bytes]:
    """Receive all messages that have arrived."""
    received = []
    try:
        while True:
            received.append(node.receive(0))
    except ReceiveTimeoutError:
        return received


def nobody_waits(socket: SpSocket[Any]) -> bool:
    """Return whether no call waits to receive, to send or for peers."""
    node = socket._node
    return not (len(node.inbound.receivers) or len(node.outbound.senders))


def under_schedules(program: Callable[[Run], None]) -> None:
    """Run a program of nodes in all schedules with two switches, and random ones."""
    explore(program, bound=2, limit=schedules(4000), random=schedules(300), seed=1)
