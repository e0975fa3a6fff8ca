"""Messages of all lengths between ours, NNG and nanomsg, over all transports."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.pattern.interop.delivery import expect_in_order, wait_for_mesh
from tests.pattern.interop.testbed import TRANSPORTS
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from tests.pattern.interop.peer import Peer
    from tests.pattern.interop.testbed import Testbed

FOREIGN = ("nng", "nanomsg")
# Lengths at which something changes: the length of heads, of our joined writes and
# reads, and the limit of nanomsg.
LENGTHS = (
    *(0, 1, 2, 7, 8, 9, 17, 255, 256, 4096),
    *(65_518, 65_535, 65_536, 65_537, 131_072, 1_000_000, 1_048_576),
)
MIB = 1 << 20


def body(length: int) -> bytes:
    """Return bytes of which no part equals another part."""
    block = b"".join(
        hashlib.sha256(b"%d" % i).digest() for i in range((length + 31) // 32)
    )
    return block[:length]


def connected(testbed: Testbed, first: Peer, second: Peer, transport: str) -> None:
    """Let the first listen, and the second dial."""
    second.dial(testbed.listen(first, transport))
    wait_for_mesh([first, second])


@pytest.mark.deep
@clause("BP-20")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("listens", [True, False], ids=["listens", "dials"])
def test_messages_of_every_length_arrive_unchanged_in_both_directions(
    testbed: Testbed, foreign: str, transport: str, listens: bool
) -> None:
    """Up to the limit of nanomsg; the empty one, too."""
    ours, other = testbed.own(), testbed.foreign(foreign)
    if listens:
        connected(testbed, ours, other, transport)
    else:
        connected(testbed, other, ours, transport)

    for length in LENGTHS:
        message = body(length)
        ours.send(message)
        other.send(message)

        expect_in_order(other, [message])
        expect_in_order(ours, [message])


@pytest.mark.deep
@clause("BP-19")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_burst_to_nng_arrives_whole_and_in_order(
    testbed: Testbed, transport: str
) -> None:
    """Order is kept on each connection."""
    ours, other = testbed.own(), testbed.foreign("nng")
    connected(testbed, ours, other, transport)
    messages = [b"%d" % i + body(i % 700) for i in range(1000)]

    ours.send_all(messages)
    expect_in_order(other, messages)

    other.send_all(messages)
    expect_in_order(ours, messages)


@clause("BP-19")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_burst_with_nanomsg_keeps_its_order(testbed: Testbed, transport: str) -> None:
    """nanomsg drops messages of its own bursts, and keeps the order of the others."""
    ours, other = testbed.own(), testbed.foreign("nanomsg")
    connected(testbed, ours, other, transport)
    messages = [b"%d" % i + body(i % 700) for i in range(1000)]

    ours.send_all(messages)
    expect_in_order(other, messages)

    other.send_all(messages)
    # The library drops each message that it cannot send at once, also this one.
    arrived: list[bytes] = []
    while b"last" not in arrived:
        other.send(b"last")
        while (message := ours.receive(0.01)) is not None:
            arrived.append(message)
    numbers = [messages.index(each) for each in arrived if each != b"last"]
    assert numbers == sorted(set(numbers))
    assert numbers


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_message_above_our_limit_ends_the_connection_and_nothing_arrives(
    testbed: Testbed, foreign: str, transport: str
) -> None:
    """The dialler dials again, and messages within the limit arrive."""
    ours, other = testbed.own(message_bytes=1000), testbed.foreign(foreign)
    connected(testbed, ours, other, transport)
    other.send(body(1000))
    expect_in_order(ours, [body(1000)])
    [before] = ours.socket.stats.peers

    other.send(body(1001))

    until(
        lambda: [each.pipe for each in ours.socket.stats.peers] != [before.pipe],
        "the connection ends",
    )
    wait_for_mesh([ours, other])
    expect_after = body(999)
    other.send(expect_after)
    expect_in_order(ours, [expect_after])


@pytest.mark.deep
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_message_above_their_limit_makes_them_close_and_we_dial_again(
    testbed: Testbed, foreign: str, transport: str
) -> None:
    """The limit of nanomsg is 1 MiB, that of NNG is set; we send any length."""
    ours = testbed.own()
    if foreign == "nanomsg":
        other = testbed.foreign(foreign)
    else:
        other = testbed.foreign(foreign, message_bytes=MIB)
    connected(testbed, other, ours, transport)
    ours.send(body(MIB))
    expect_in_order(other, [body(MIB)])
    [before] = ours.socket.stats.peers

    ours.send(body(MIB + 1))

    until(
        lambda: [each.pipe for each in ours.socket.stats.peers] != [before.pipe],
        "they close the connection",
    )
    wait_for_mesh([ours, other])
    ours.send(b"short")
    expect_in_order(other, [b"short"])


@pytest.mark.deep
def test_a_message_of_16_mib_passes_between_ours_and_nng(testbed: Testbed) -> None:
    """NNG has no limit by default; ours is 64 MiB."""
    ours, other = testbed.own(), testbed.foreign("nng")
    connected(testbed, ours, other, "ipc")
    message = body(16 * MIB)

    ours.send(message)
    expect_in_order(other, [message])
    other.send(message)
    expect_in_order(ours, [message])


@clause("BP-17")
@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_node_that_connects_later_receives_nothing_from_before(
    testbed: Testbed, foreign: str, transport: str
) -> None:
    """A message goes to the peers that are connected when it is sent."""
    ours, early, late = (
        testbed.own(),
        testbed.foreign(foreign),
        testbed.foreign(foreign),
    )
    url = testbed.listen(ours, transport)
    early.dial(url)
    wait_for_mesh([ours, early])
    ours.send(b"old")
    expect_in_order(early, [b"old"])

    late.dial(url)
    assert ours.socket.wait_for_peers(2, LIMIT_S)
    ours.send(b"new")

    expect_in_order(early, [b"new"])
    expect_in_order(late, [b"new"])
