"""The time of a connect: to reach a host, and to be served there."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from queuebroker import RendezvousTimeoutError, UnknownBrokerError
from queuebroker.sockets import SocketOptions, SocketQueueBroker
from specs.clauses import clause
from tests.sockets.support import PORT
from tests.support import LIMIT_S


@clause("QB-SOCK-2")
def test_a_host_that_accepts_no_connect_in_time_has_no_broker() -> None:
    """The kernel drops the connects beyond the backlog, as a network that is cut."""
    options = SocketOptions(connect_s=0.05)
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        broker = stack.enter_context(SocketQueueBroker("caller", options=options))
        address = f"tcp://127.0.0.1:{full.getsockname()[1]}"
        with pytest.raises(UnknownBrokerError, match="timed out"):
            broker.connect(address, PORT, timeout=LIMIT_S, required=True)


@clause("QB-SOCK-2")
def test_a_listener_that_is_busy_has_the_time_of_the_call() -> None:
    """Its system has accepted the connect; it may have many others to serve."""
    options = SocketOptions(connect_s=0.05)
    with (
        socket.create_server(("127.0.0.1", 0)) as busy,
        SocketQueueBroker("caller", options=options) as broker,
    ):
        address = f"tcp://127.0.0.1:{busy.getsockname()[1]}"
        with pytest.raises(RendezvousTimeoutError):
            broker.connect(address, PORT, timeout=0.2, required=True)
