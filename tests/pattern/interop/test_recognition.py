"""Sockets of ours recognise one another, and no other library notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.pattern.interop.delivery import expect_in_order, wait_for_mesh
from tests.pattern.interop.testbed import TRANSPORTS
from tests.pattern.raw_end import RawEnd, frame
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from tests.pattern.interop.library import ForeignPeer
    from tests.pattern.interop.testbed import Testbed

MESSAGES = [b"%d" % i for i in range(100)]
# Events that have happened once; every other counter of connections is 0.
ONE_CONNECTION = {
    ("nng", True): {"begun": 1, "connected": 1, "listener.accept": 1},
    ("nng", False): {"begun": 1, "connected": 1, "dialler.connect": 1},
    ("nanomsg", True): {"accepted": 1, "current": 1},
    ("nanomsg", False): {"established": 1, "current": 1},
}
TRAFFIC = ("tx_msgs", "rx_msgs", "tx_bytes", "rx_bytes", ".pipes")


def counted_events(peer: ForeignPeer) -> dict[str, int]:
    """Return the counters of connections that are not 0."""
    return {
        name: count
        for name, count in peer.counters().items()
        if count and not name.endswith(TRAFFIC)
    }


@pytest.mark.deep
@pytest.mark.parametrize("library", ["nng", "nanomsg"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("listens", [True, False], ids=["listens", "dials"])
def test_another_library_counts_one_connection_and_no_failure(
    testbed: Testbed, library: str, transport: str, listens: bool
) -> None:
    """Neither as listener nor as dialler does it see a rejected attempt."""
    ours, other = testbed.own(), testbed.foreign(library)
    if listens:
        ours.dial(testbed.listen(other, transport))
    else:
        other.dial(testbed.listen(ours, transport))
    wait_for_mesh([ours, other])

    for message in MESSAGES:
        ours.send(message)
        expect_in_order(other, [message])

    assert counted_events(other) == ONE_CONNECTION[library, listens]
    [peer] = ours.socket.stats.peers
    assert not peer.is_native


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_listener_that_states_its_type_at_once_sees_one_plain_dialler(
    testbed: Testbed, transport: str
) -> None:
    """As NNG does it: all bytes are sent before any is read."""
    ours = testbed.own()
    is_ipc = transport == "ipc"

    with testbed.raw_listener(transport) as other:
        ours.dial(other.url)
        with other.accept() as end:
            end.handshake()
            assert ours.socket.wait_for_peers(1, LIMIT_S)
            for message in MESSAGES:
                ours.send(message)
                wanted = frame(message, is_ipc=is_ipc)
                assert end.read(len(wanted)) == wanted
            assert not other.has_waiting()


@clause("BP-9")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_dialler_that_states_its_type_at_once_sees_a_plain_listener(
    testbed: Testbed, transport: str
) -> None:
    """Nothing but the body follows the head of a frame, also from a device."""
    hub = testbed.own(raw=True)
    url = testbed.listen(hub, transport)
    is_ipc = transport == "ipc"

    with RawEnd.dial(url) as first, RawEnd.dial(url) as second:
        first.handshake()
        second.handshake()
        assert hub.socket.wait_for_peers(2, LIMIT_S)
        hub.forward_to(None)
        for message in (b"ABC", b"", b"x" * 300):
            wanted = frame(message, is_ipc=is_ipc)
            first.send(wanted)
            assert second.read(len(wanted)) == wanted


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_two_sockets_of_ours_recognise_each_other_beside_foreign_ones(
    testbed: Testbed, transport: str
) -> None:
    """Their connection is native; those of the others are plain."""
    ours, second = testbed.own(), testbed.own()
    url = testbed.listen(ours, transport)
    second.dial(url)
    foreign = [testbed.foreign("nng"), testbed.foreign("nanomsg")]
    for each in foreign:
        each.dial(url)
    assert ours.socket.wait_for_peers(3, LIMIT_S)

    natives = [each for each in ours.socket.stats.peers if each.is_native]

    assert [each.node for each in natives] == [second.socket.stats.node]
