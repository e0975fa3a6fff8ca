"""QB-SOCK-9: an ended link closes even if its peer does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedQueueError
from queuebroker.sockets import (
    NotAdmittedError,
    ProtocolError,
    SocketMessageQueue,
    SocketOptions,
    link_writer,
)
from queuebroker.sockets.frames import HEAD
from specs.clauses import clause
from tests.kit.raw_peer import raw
from tests.sockets.raw_peers import accepted_raw
from tests.sockets.support import PORT, brokers, meet
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    import socket

    from queuebroker.sockets import SocketQueueBroker

MORE_THAN_IS_TAKEN = bytes(1 << 24)
NO_FRAME = HEAD.pack(255, 0)


def accepted(
    host: SocketQueueBroker, peer: socket.socket, threads: Threads
) -> SocketMessageQueue:
    """Accept the peer; return this end, with more to send than the system takes."""
    local = accepted_raw(host, peer, threads, 1 << 28)
    local.send(MORE_THAN_IS_TAKEN)
    return local


@clause("QB-SOCK-9")
@pytest.mark.parametrize("leaves", [False, True])
def test_a_link_closes_after_a_violation_although_the_peer_does_not_read(
    leaves: bool,
) -> None:
    """The limit is that of an orderly close, if this end disconnects or not."""
    options = SocketOptions(farewell_s=0.05)
    with (
        brokers(host={"options": options}) as (host, _),
        raw(host.address) as peer,
        Threads() as threads,
    ):
        local = accepted(host, peer, threads)
        peer.sendall(NO_FRAME)
        with pytest.raises(DisconnectedQueueError) as caught:
            local.receive()
        assert isinstance(caught.value.__cause__, ProtocolError)
        if leaves:
            local.disconnect()
        until(lambda: local._socket_connection.link.closed, "it is given up")


@clause("QB-SOCK-4", "QB-SOCK-9")
@pytest.mark.parametrize("leaves", [False, True])
def test_a_link_closes_after_the_lease_although_the_peer_does_not_read(
    leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine may be down; no option sets how long it may take to read."""
    monkeypatch.setattr(link_writer, "LAST_S", 0.05)
    options = SocketOptions(lease_s=0.1)
    with (
        brokers("tcp://127.0.0.1:0", {"options": options}) as (host, _),
        raw(host.address) as peer,
        Threads() as threads,
    ):
        local = accepted(host, peer, threads)
        with pytest.raises(DisconnectedQueueError, match="silent for"):
            local.receive()
        if leaves:
            local.disconnect()
        until(lambda: local._socket_connection.link.closed, "it is given up")


@clause("QB-SOCK-9")
def test_a_peer_that_violates_the_protocol_and_reads_receives_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reason comes after all data sent before."""
    monkeypatch.setattr(link_writer, "LAST_S", LIMIT_S)
    with brokers() as (host, _), raw(host.address) as peer, Threads() as threads:
        accepted(host, peer, threads)
        peer.sendall(NO_FRAME)
        said = b""
        while piece := peer.recv(1 << 20):
            said += piece
        assert b"frame" in said[-100:]
        assert len(said) > len(MORE_THAN_IS_TAKEN)


@clause("QB-SOCK-9")
def test_a_broker_rejects_a_connect_at_a_port_that_it_does_not_offer() -> None:
    options = SocketOptions(ports={PORT})
    with brokers(host={"options": options}) as (host, guest):
        assert host.address is not None
        with pytest.raises(NotAdmittedError, match=f"accepts at port {PORT + 1}"):
            guest.connect(host.address, PORT + 1)
        assert host.waiting_connects() == {}
        for end in meet(host, guest):
            end.disconnect()
