"""Peers that do not read, and peers that flood: all others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern import DropReason
from specs.clauses import clause
from tests.pattern.interop.delivery import (
    expect_in_order,
    wait_for_delivery,
    wait_for_mesh,
)
from tests.pattern.interop.testbed import TRANSPORTS
from tests.pattern.raw_end import RawEnd, frame
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from tests.pattern.interop.testbed import Testbed

SENDS = 5000
STEP = 500
# How many messages of one peer a receive makes ready, at most, before another's turn;
# and the next turn of that peer.
AHEAD = 64 + 4 + 1
ROOM = 1024  # of a queue
# A write takes frames until 64 KiB are together, and a burst is one of 64 KiB at most.
IN_HAND = (1 << 17) // 4000 + 1


def numbered(i: int) -> bytes:
    """Return a message of 4,000 bytes that starts with a number of four bytes."""
    return i.to_bytes(4) + bytes(3996)


@pytest.mark.deep
@clause("BP-4", "BP-19")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_peer_that_never_reads_loses_messages_and_no_other_does(
    testbed: Testbed, transport: str
) -> None:
    """5,000 sends: the others get all; it gets the ones that had room, in order."""
    ours, quick = testbed.own(send_messages=ROOM), testbed.foreign("nng")
    url = testbed.listen(ours, transport)
    is_ipc = transport == "ipc"
    quick.dial(url)
    wait_for_mesh([ours, quick])

    with RawEnd.dial(url) as stuck:
        stuck.handshake()
        assert ours.socket.wait_for_peers(2, LIMIT_S)
        for start in range(0, SENDS, STEP):
            messages = [numbered(i) for i in range(start, start + STEP)]
            ours.send_all(messages)
            expect_in_order(quick, messages)

        peers = ours.socket.stats.peers
        [counted] = [each for each in peers if each.sent == SENDS]
        lost = counted.dropped[DropReason.SEND_QUEUE]
        assert counted.queued <= ROOM + IN_HAND
        assert 0 < lost < SENDS
        [other] = [each for each in peers if each is not counted]
        assert not other.dropped

        size = len(frame(numbered(0), is_ipc=is_ipc))
        arrived = []
        for _ in range(SENDS - lost):
            body = stuck.read(size)[-4000:]
            arrived.append(int.from_bytes(body[:4]))
        assert arrived == sorted({*arrived})
        assert arrived[:ROOM] == [*range(ROOM)]


@pytest.mark.deep
@clause("BP-4")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("library", ["nng", "nanomsg"])
def test_an_application_that_never_receives_does_not_block_us(
    testbed: Testbed, library: str, transport: str
) -> None:
    """nanomsg reads no more from the connection; NNG reads on and drops."""
    ours, quick = testbed.own(send_messages=ROOM), testbed.foreign("nng")
    stuck = testbed.foreign(library)
    url = testbed.listen(ours, transport)
    quick.dial(url)
    stuck.dial(url)
    wait_for_mesh([ours, quick])
    assert ours.socket.wait_for_peers(2, LIMIT_S)

    for start in range(0, SENDS, STEP):
        messages = [numbered(i) for i in range(start, start + STEP)]
        ours.send_all(messages)
        expect_in_order(quick, messages)

    for peer in ours.socket.stats.peers:
        assert peer.queued + sum(peer.dropped.values()) <= peer.sent
        assert peer.queued <= ROOM + IN_HAND


@clause("BP-6")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_messages_of_nng_beyond_our_queue_are_dropped_and_counted(
    testbed: Testbed, transport: str
) -> None:
    """The first messages stay, the newest are dropped."""
    ours, other = testbed.own(receive_messages=16), testbed.foreign("nng")
    other.dial(testbed.listen(ours, transport))
    wait_for_mesh([ours, other])
    [before] = ours.socket.stats.peers

    other.send_all([b"%d" % i for i in range(100)])

    def arrived() -> bool:
        return ours.socket.stats.peers[0].arrived == before.arrived + 100

    until(arrived, "all have arrived")
    expect_in_order(ours, [b"%d" % i for i in range(16)])
    assert ours.receive(0) is None
    [after] = ours.socket.stats.peers
    assert after.dropped == {DropReason.RECEIVE_QUEUE: 84}


@pytest.mark.deep
@clause("BP-18")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("quiet_library", ["nng", "nanomsg", "ours"])
def test_a_flood_of_one_peer_neither_delays_nor_drops_messages_of_another(
    testbed: Testbed, quiet_library: str, transport: str
) -> None:
    """Few messages of the other one are received before that of the quiet peer."""
    ours, quiet = testbed.own(receive_messages=ROOM), testbed.open(quiet_library)
    flooder = testbed.foreign("nng")
    url = testbed.listen(ours, transport)
    quiet.dial(url)
    flooder.dial(url)
    wait_for_delivery({quiet: [ours], flooder: [ours], ours: [quiet, flooder]})

    def total() -> int:
        return sum(each.arrived for each in ours.socket.stats.peers)

    for i in range(5):
        before = total()
        flooder.send_all([b"flood"] * 3000)
        until(lambda: total() == before + 3000, "the flood has arrived")  # noqa: B023
        quiet.send(b"quiet %d" % i)
        until(lambda: total() == before + 3001, "the message has arrived")  # noqa: B023

        first = [ours.receive(LIMIT_S) for _ in range(AHEAD)]
        assert b"quiet %d" % i in first

    lossy = [each for each in ours.socket.stats.peers if each.dropped]
    assert len(lossy) == 1
