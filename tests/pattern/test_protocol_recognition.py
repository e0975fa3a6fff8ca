"""Sockets of this package recognise each other, and disturb no other library."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING
from typing import Protocol as Shape

import pytest

from bus.errors import WireError
from bus.pattern import BusSocket, SocketConfig
from bus.pattern.protocol import Protocol, ProtocolState
from bus.pattern.wire import MAGIC, EndpointType, frame_head
from specs.clauses import clause
from tests.pattern.nodes import fresh_url
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUS, NATIVE = EndpointType.BUS, EndpointType.NATIVE_BUS
HANDSHAKE = MAGIC + BUS.to_bytes(2) + bytes(2)
NATIVE_HANDSHAKE = MAGIC + NATIVE.to_bytes(2) + bytes(2)


class End(Shape):
    """One end of a connection in the handshake."""

    def data_to_send(self) -> bytes: ...

    def receive_data(self, data: bytes) -> list[bytes]: ...


def ours(*, dials: bool) -> Protocol:
    return Protocol(
        BUS, NATIVE, dials=dials, is_ipc=False, bytes_max=100, native_bytes_max=120
    )


def other(*, dials: bool) -> Protocol:
    """Return an end as of another library, or of this package without native peers."""
    return Protocol(BUS, dials=dials, is_ipc=False, bytes_max=100)


class Silent:
    """A listener that sends nothing before it has the handshake of the dialler."""

    def __init__(self) -> None:
        self.received = b""
        self._sent = False

    def data_to_send(self) -> bytes:
        if self._sent or len(self.received) < len(HANDSHAKE):
            return b""
        self._sent = True
        return HANDSHAKE

    def receive_data(self, data: bytes) -> list[bytes]:
        self.received += data
        return []


def exchange(left: End, right: End, size: int = 100) -> None:
    """Carry bytes both ways, in pieces of a size, until both ends are quiet."""
    while True:
        moved = left.data_to_send(), right.data_to_send()
        if moved == (b"", b""):
            return
        for data, target in ((moved[0], right), (moved[1], left)):
            for at in range(0, len(data), size):
                target.receive_data(data[at : at + size])


@clause("BP-16")
@pytest.mark.parametrize("size", [1, 3, 4, 100])
def test_two_sockets_of_ours_agree_on_the_native_type(size: int) -> None:
    dialler, listener = ours(dials=True), ours(dials=False)

    exchange(dialler, listener, size)

    assert dialler.agreed is listener.agreed is NATIVE
    assert dialler.states_native
    assert dialler.state is listener.state is ProtocolState.OPEN


@clause("BP-4", "BP-16")
@pytest.mark.parametrize(
    ("dialler", "listener", "most"),
    [
        (lambda: ours(dials=True), lambda: ours(dials=False), 120),
        (lambda: ours(dials=True), lambda: other(dials=False), 100),
        (lambda: other(dials=True), lambda: ours(dials=False), 100),
    ],
    ids=["native", "plain listener", "plain dialler"],
)
def test_each_type_has_its_own_limit_of_a_frame(
    dialler: Callable[[], Protocol], listener: Callable[[], Protocol], most: int
) -> None:
    ends = dialler(), listener()
    exchange(*ends)

    for end in ends:
        assert end.receive_data(frame_head(most, is_ipc=False) + bytes(most))
        with pytest.raises(WireError, match=f"{most + 1} bytes, allowed: {most}"):
            end.receive_data(frame_head(most + 1, is_ipc=False))


@clause("BP-16")
def test_the_golden_bytes_of_the_native_handshake() -> None:
    dialler, listener = ours(dials=True), ours(dials=False)
    assert dialler.data_to_send() == listener.data_to_send() == MAGIC

    listener.receive_data(MAGIC)
    assert listener.data_to_send() == b""  # it withholds its type
    dialler.receive_data(MAGIC)
    stated = dialler.data_to_send()
    assert stated == bytes.fromhex("f0 70 00 00")
    listener.receive_data(stated)
    assert listener.data_to_send() == stated


@clause("BP-16")
@pytest.mark.parametrize("size", [8, 100])
def test_a_listener_of_another_library_gets_the_plain_type(size: int) -> None:
    dialler, listener = ours(dials=True), other(dials=False)

    exchange(dialler, listener, size)

    assert dialler.agreed is listener.agreed is BUS
    assert not dialler.states_native


@clause("BP-16")
@pytest.mark.parametrize("size", [1, 3, 4, 100])
def test_a_dialler_of_another_library_gets_the_plain_type(size: int) -> None:
    dialler, listener = other(dials=True), ours(dials=False)

    exchange(dialler, listener, size)

    assert dialler.agreed is listener.agreed is BUS
    assert not listener.states_native


@clause("BP-16")
def test_a_dialler_states_the_plain_type_to_a_silent_listener() -> None:
    dialler, listener = ours(dials=True), Silent()
    exchange(dialler, listener)
    assert dialler.state is ProtocolState.HANDSHAKE

    dialler.state_plain_type()
    exchange(dialler, listener)

    assert listener.received == HANDSHAKE
    assert dialler.agreed is BUS


@clause("BP-16")
def test_a_slow_listener_of_ours_accepts_the_plain_type() -> None:
    dialler, listener = ours(dials=True), ours(dials=False)

    dialler.state_plain_type()
    exchange(dialler, listener)

    assert dialler.agreed is listener.agreed is BUS


@clause("BP-16")
def test_a_type_is_stated_once() -> None:
    dialler = ours(dials=True)
    dialler.receive_data(MAGIC)
    assert dialler.data_to_send() == NATIVE_HANDSHAKE

    dialler.state_plain_type()
    dialler.receive_data(b"")

    assert dialler.data_to_send() == b""
    assert dialler.states_native


@clause("BP-16")
@pytest.mark.parametrize("first", [0, 1, 2, 3, 5, 6, 7])
def test_only_exactly_four_bytes_make_a_dialler_state_the_native_type(
    first: int,
) -> None:
    dialler = ours(dials=True)

    dialler.receive_data(HANDSHAKE[:first])
    assert dialler.data_to_send() == MAGIC
    dialler.receive_data(HANDSHAKE[first:])

    assert dialler.data_to_send() == HANDSHAKE[4:]
    assert dialler.agreed is BUS


@clause("BP-4", "BP-16")
def test_a_dialler_that_was_mistaken_fails_and_names_the_type() -> None:
    dialler = ours(dials=True)
    dialler.receive_data(HANDSHAKE[:4])

    with pytest.raises(WireError, match="endpoint type 0x70"):
        dialler.receive_data(HANDSHAKE[4:])

    assert dialler.states_native
    assert dialler.agreed is None


@clause("BP-4", "BP-16")
@pytest.mark.parametrize("stated", [0x10, 0x71, 0xF060, 0xF071])
def test_a_native_listener_refuses_all_other_types(stated: int) -> None:
    listener = ours(dials=False)
    assert listener.data_to_send() == MAGIC

    with pytest.raises(WireError, match="endpoint type"):
        listener.receive_data(MAGIC + stated.to_bytes(2) + bytes(2))

    # The peer can name both types.
    assert listener.data_to_send() == b"\x00\x70\x00\x00"


@clause("BP-4", "BP-16")
def test_a_dialler_that_has_stated_the_plain_type_refuses_the_native_one() -> None:
    dialler = ours(dials=True)
    dialler.state_plain_type()

    with pytest.raises(WireError, match="endpoint type 0xf070"):
        dialler.receive_data(NATIVE_HANDSHAKE)


@clause("BP-16")
def test_a_native_dialler_that_gets_the_native_type_at_once_answers_with_it() -> None:
    dialler = ours(dials=True)

    dialler.receive_data(NATIVE_HANDSHAKE)

    assert dialler.data_to_send() == NATIVE_HANDSHAKE
    assert dialler.agreed is NATIVE


# A listener that the test plays, with a real dialler.


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(LIMIT_S)
        yield server


def exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := peer.recv(count - len(data))):
        data += more
    return data


def accepted(server: socket.socket) -> socket.socket:
    peer, _ = server.accept()
    peer.settimeout(LIMIT_S)
    return peer


def dialled(server: socket.socket) -> BusSocket:
    bus = BusSocket(SocketConfig(redial_min_s=0.001, redial_max_s=0.001))
    bus.dial(f"tcp://127.0.0.1:{server.getsockname()[1]}")
    return bus


@clause("BP-16")
def test_after_a_mistake_the_next_dial_states_the_plain_type(
    listening: socket.socket,
) -> None:
    """The 8 bytes of a foreign listener arrive as 4 and 4."""
    with dialled(listening) as bus:
        with accepted(listening) as peer:
            peer.sendall(HANDSHAKE[:4])
            assert exactly(peer, 8) == NATIVE_HANDSHAKE
            peer.sendall(HANDSHAKE[4:])
            assert peer.recv(1) == b""
        with accepted(listening) as peer:
            assert exactly(peer, 8) == HANDSHAKE
            peer.sendall(HANDSHAKE)
            assert bus.wait_for_peers(1, LIMIT_S)
            [stats] = bus.stats.peers
            assert not stats.is_native


@clause("BP-1", "BP-16")
def test_a_native_listener_that_refuses_the_peer_is_dialled_as_before(
    listening: socket.socket,
) -> None:
    """A plain connection would not be recognised: its listener may be the own node."""
    with dialled(listening):
        for _ in range(2):
            with accepted(listening) as peer:
                assert exactly(peer, 4) == MAGIC
                peer.sendall(MAGIC)
                assert exactly(peer, 4) == NATIVE_HANDSHAKE[4:]
                peer.sendall(NATIVE_HANDSHAKE[4:])


@clause("BP-1")
@pytest.mark.parametrize("transport", ["tcp", "ipc", "inproc"])
def test_a_node_that_dials_itself_is_not_its_own_peer(
    transport: str, tmp_path: Path
) -> None:
    url = fresh_url(transport, tmp_path)
    with BusSocket(SocketConfig(redial_min_s=0.001, redial_max_s=0.001)) as bus:
        dialler = bus.dial(bus.listen(url).url)

        assert not bus.wait_for_peers(1, 0.05)
        assert not dialler.is_connected
        bus.send(b"x")
        assert bus.stats.received_queued == 0
