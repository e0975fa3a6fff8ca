"""Peers that break the rules of the wire are closed, and all others are served."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.pattern.interop.delivery import expect_in_order, wait_for_mesh
from tests.pattern.interop.testbed import TRANSPORTS
from tests.pattern.raw_end import HANDSHAKE, RawEnd, frame
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from tests.pattern.interop.own_peer import OwnPeer
    from tests.pattern.interop.peer import Peer
    from tests.pattern.interop.testbed import Testbed

MAGIC = HANDSHAKE[:4]
TYPE = HANDSHAKE[4:]
NATIVE_TYPE = bytes.fromhex("f0700000")

# Eight bytes each, which are no handshake of a bus.
WRONG_HANDSHAKES = {
    "magic": b"\0SQ\0" + TYPE,
    "version 1": b"\0SP\1" + TYPE,
    "reserved byte": MAGIC + b"\0\x70\0\1",
    "other reserved byte": MAGIC + b"\0\x70\1\0",
    "PAIR": MAGIC + b"\0\x10\0\0",
    "PUB": MAGIC + b"\0\x20\0\0",
    "other role of the protocol": MAGIC + b"\0\x71\0\0",
    "other free number": MAGIC + b"\xf0\x80\0\0",
    "HTTP": b"GET / HT",
    "TLS": bytes.fromhex("1603010200010001"),
    "zeros": bytes(8),
}
WRONG_LENGTHS = {
    "above the limit": 1001,
    "half of a word": 1 << 32,
    "signed limit": (1 << 63) - 1,
    "sign bit": 1 << 63,
    "all bits": (1 << 64) - 1,
}


def connected_pair(
    testbed: Testbed, transport: str, handshake_s: float = 10
) -> tuple[str, OwnPeer, Peer]:
    """Return the address of one of our sockets, it, and a peer of NNG."""
    ours = testbed.own(message_bytes=1000, handshake_s=handshake_s)
    other = testbed.foreign("nng")
    url = testbed.listen(ours, transport)
    other.dial(url)
    wait_for_mesh([ours, other])
    return url, ours, other


def check_served(ours: Peer, other: Peer) -> None:
    """Check that two peers still exchange messages."""
    ours.send(b"ping")
    expect_in_order(other, [b"ping"])
    other.send(b"pong")
    expect_in_order(ours, [b"pong"])


@pytest.mark.deep
@clause("BP-4")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("wrong", WRONG_HANDSHAKES.values(), ids=WRONG_HANDSHAKES)
def test_a_dialler_with_a_wrong_handshake_is_closed(
    testbed: Testbed, wrong: bytes, transport: str
) -> None:
    """It gets no type, and no message."""
    url, ours, other = connected_pair(testbed, transport)

    with RawEnd.dial(url) as stranger:
        stranger.send(wrong)
        check_served(ours, other)

        assert stranger.read_to_end() in (MAGIC, MAGIC + TYPE)
    check_served(ours, other)


@pytest.mark.deep
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("wrong", WRONG_HANDSHAKES.values(), ids=WRONG_HANDSHAKES)
def test_a_listener_with_a_wrong_handshake_is_disconnected_and_dialled_again(
    testbed: Testbed, wrong: bytes, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first mismatch is logged, no other one."""
    ours = testbed.own(redial_max_s=0)

    with testbed.raw_listener(transport) as other:
        ours.dial(other.url)
        for _ in range(3):
            with other.accept() as end:
                end.send(wrong)
                end.read_to_end()
        with other.accept() as end:
            end.handshake()
            assert ours.socket.wait_for_peers(1, LIMIT_S)

    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    assert "does not match" in caplog.text


@clause("BP-4")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("length", WRONG_LENGTHS.values(), ids=WRONG_LENGTHS)
def test_a_length_above_the_limit_closes_the_connection_before_the_data(
    testbed: Testbed, length: int, transport: str
) -> None:
    """Nothing of that message arrives, and no memory is set aside for it."""
    url, ours, other = connected_pair(testbed, transport)

    with RawEnd.dial(url) as stranger:
        stranger.handshake()
        stranger.send(b"\x01" * (transport == "ipc") + length.to_bytes(8) + b"begun")
        assert stranger.read_to_end() == b""

    check_served(ours, other)


@pytest.mark.parametrize("kind", [0, 2, 255])
def test_a_frame_of_another_type_closes_an_ipc_connection(
    testbed: Testbed, kind: int
) -> None:
    """nanomsg would abort its process; we close the connection."""
    url, ours, other = connected_pair(testbed, "ipc")

    with RawEnd.dial(url) as stranger:
        stranger.handshake()
        good = frame(b"good", is_ipc=True)
        stranger.send(good)
        expect_in_order(ours, [b"good"])
        stranger.send(bytes([kind]) + good[1:])
        assert stranger.read_to_end() == b""

    check_served(ours, other)


@pytest.mark.deep
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("sent", [0, 3, 4, 7])
def test_a_silent_peer_is_closed_after_the_time_limit_and_blocks_no_other(
    testbed: Testbed, sent: int, transport: str
) -> None:
    """Other peers connect and exchange messages meanwhile."""
    url, ours, other = connected_pair(testbed, transport, handshake_s=0.5)

    with RawEnd.dial(url) as stranger:
        stranger.send(HANDSHAKE[:sent])
        late = testbed.foreign("nanomsg")
        late.dial(url)
        wait_for_mesh([ours, late])
        until(lambda: other.receive(0.001) is None, "the probes are read")
        another = testbed.foreign("nng")
        another.dial(url)
        assert ours.socket.wait_for_peers(3, LIMIT_S)

        assert stranger.read_to_end() == MAGIC


def test_hundreds_of_silent_peers_keep_no_other_peer_out(testbed: Testbed) -> None:
    """The oldest of them are closed first."""
    url, ours, _ = connected_pair(testbed, "ipc")

    with ExitStack() as stack:
        silent = [stack.enter_context(RawEnd.dial(url)) for _ in range(300)]
        late = testbed.foreign("nng")
        late.dial(url)
        assert ours.socket.wait_for_peers(2, LIMIT_S)
        assert silent[0].read_to_end() == MAGIC


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_dialler_that_sends_byte_by_byte_is_served(
    testbed: Testbed, transport: str
) -> None:
    """Handshake, heads and bodies may arrive in any pieces."""
    url, ours, other = connected_pair(testbed, transport)
    is_ipc = transport == "ipc"

    with RawEnd.dial(url) as slow:
        slow.send_slowly(HANDSHAKE + frame(b"slow", is_ipc=is_ipc))
        expect_in_order(ours, [b"slow"])
        assert slow.read(8) == HANDSHAKE
        ours.send(b"answer")
        wanted = frame(b"answer", is_ipc=is_ipc)
        assert slow.read(len(wanted)) == wanted
        expect_in_order(other, [b"answer"])
        slow.send_slowly(frame(b"", is_ipc=is_ipc))
        expect_in_order(ours, [b""])
        # All in one segment, too.
        slow.send(frame(b"1", is_ipc=is_ipc) + frame(b"2", is_ipc=is_ipc))
        expect_in_order(ours, [b"1", b"2"])

    check_served(ours, other)


@clause("BP-16")
@pytest.mark.parametrize("validates", [True, False])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_listener_whose_handshake_comes_in_two_pieces_is_dialled_twice_at_most(
    testbed: Testbed,
    transport: str,
    validates: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Four bytes alone look like a socket of ours; the next dial is a plain one."""
    ours = testbed.own()

    with testbed.raw_listener(transport) as other:
        ours.dial(other.url)
        with other.accept() as end:
            end.send(MAGIC)
            assert end.read(8) == MAGIC + NATIVE_TYPE
            if not validates:
                end.send(TYPE)
                assert end.read_to_end() == b""
        with other.accept() as end:
            end.send(MAGIC)  # in pieces again
            assert end.read(8) == HANDSHAKE
            end.send_slowly(TYPE)
            assert ours.socket.wait_for_peers(1, LIMIT_S)
            end.send(frame(b"in", is_ipc=transport == "ipc"))
            expect_in_order(ours, [b"in"])
            assert not other.has_waiting()

    assert not caplog.records


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_listener_that_waits_for_the_dialler_gets_the_plain_type(
    testbed: Testbed, transport: str
) -> None:
    """No library does so; the dialler states the plain type after a while."""
    ours = testbed.own()

    with testbed.raw_listener(transport) as other:
        ours.dial(other.url)
        with other.accept() as end:
            end.handshake_after_peer()
            assert ours.socket.wait_for_peers(1, LIMIT_S)
            assert not other.has_waiting()


@pytest.mark.parametrize("library", ["nng", "nanomsg"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("listens", [True, False], ids=["listens", "dials"])
def test_a_peer_of_another_protocol_is_rejected(
    testbed: Testbed, library: str, transport: str, listens: bool
) -> None:
    """Pair and bus do not connect, and the bus accepts other peers."""
    ours, pair = testbed.own(), testbed.foreign(library, "pair0")
    if listens:
        url = testbed.listen(ours, transport)
        pair.dial(url)
    else:
        ours.dial(testbed.listen(pair, transport))
        url = testbed.listen(ours, transport)

    def was_rejected() -> bool:
        counted = pair.counters()
        if library == "nng":
            role = "dialler" if listens else "listener"
            return (
                sum(counted[f"{role}.{why}"] for why in ("proto", "other", "reject"))
                >= 2
            )
        return counted["established" if listens else "accepted"] >= 2

    until(was_rejected, "the connection is rejected, also the second time")
    assert ours.socket.stats.peers == ()

    other = testbed.foreign("nng")
    other.dial(url)
    wait_for_mesh([ours, other])
