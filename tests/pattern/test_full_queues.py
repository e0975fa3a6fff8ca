"""Full queues: the messages that are dropped, and the counters of both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern import BusSocket, Drop, DropReason, SocketConfig
from specs.clauses import clause
from tests.pattern.nodes import LIMIT_S, all_of, attach, fresh_url, queued
from tests.pattern.raw_end import HANDSHAKE, RawEnd
from tests.support import until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from bus.pattern.pipe import PeerStats

MANY = 300


def stats_of(socket: BusSocket, *, native: bool) -> PeerStats:
    """Return the counters of the native peer, or of the one that is not."""
    [found] = [each for each in socket.stats.peers if each.is_native is native]
    return found


@clause("BP-4")
def test_a_peer_without_room_loses_messages_and_no_other_does(
    tmp_path: Path, stack: ExitStack
) -> None:
    """The plain peer never reads: its queue and the buffers of the kernel fill."""
    drops: list[Drop] = []
    config = SocketConfig(
        send_messages=16, receive_messages=10_000, receive_bytes=1 << 30
    )
    sender = stack.enter_context(BusSocket(config, on_drop=drops.append))
    quick = stack.enter_context(BusSocket(config))
    url = sender.listen(fresh_url("local", tmp_path)).url
    quick.dial(url)
    stack.enter_context(RawEnd.dial(url)).send(HANDSHAKE)
    assert sender.wait_for_peers(2, LIMIT_S)
    for number in range(5000):
        sender.send(number.to_bytes(4096))
        if not number % 16:
            until(
                lambda: not stats_of(sender, native=True).queued, "all have been sent"
            )

    taken = [int.from_bytes(quick.receive(LIMIT_S)) for _ in range(5000)]
    assert taken == [*range(5000)]
    stats = stats_of(sender, native=False)
    lost = stats.dropped[DropReason.SEND_QUEUE]
    assert lost + stats.queued < 5000
    assert lost > 4000
    assert sum(drop.count for drop in drops) == lost
    assert {(drop.pipe, drop.reason) for drop in drops} == {
        (stats.pipe, DropReason.SEND_QUEUE)
    }


@clause("BP-6")
def test_a_full_receive_queue_drops_the_newest_message(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    """Both ends count the drops."""
    config = SocketConfig(receive_messages=16)
    drops: list[Drop] = []
    sender = stack.enter_context(BusSocket())
    receiver = stack.enter_context(BusSocket(config, on_drop=drops.append))
    receiver.dial(sender.listen(fresh_url(transport, tmp_path)).url)
    assert sender.wait_for_peers(1, LIMIT_S)
    assert receiver.wait_for_peers(1, LIMIT_S)
    for number in range(100):
        sender.send(bytes([number]))

    def has_arrived() -> bool:
        [peer] = receiver.stats.peers
        return peer.arrived == 100

    until(has_arrived, "all have arrived")
    assert all_of(receiver, 16) == [bytes([number]) for number in range(16)]
    assert sum(drop.count for drop in drops) == 84
    assert receiver.stats.dropped == {DropReason.RECEIVE_QUEUE: 84}

    def has_account() -> bool:
        [peer] = sender.stats.peers
        taken = peer.remote_taken
        return taken is not None and taken.delivered == 16

    until(has_account, "the sender has the account")
    [peer] = sender.stats.peers
    assert peer.remote_taken is not None
    assert peer.sent == 100
    assert peer.remote_taken.arrived == 100
    assert peer.remote_taken.overflowed == 84


@clause("BP-18")
def test_a_peer_that_floods_takes_no_room_from_another(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    config = SocketConfig(receive_messages=16)
    receiver = stack.enter_context(BusSocket(config))
    flood, quiet = (stack.enter_context(BusSocket()) for _ in range(2))
    attach(receiver, (flood, quiet), fresh_url(transport, tmp_path))
    for _ in range(MANY):
        flood.send(b"flood")
    until(lambda: DropReason.RECEIVE_QUEUE in receiver.stats.dropped, "it is full")
    for number in range(10):
        quiet.send(b"%d" % number)
    until(lambda: queued(receiver) == 26, "as many have arrived as fit")

    received = all_of(receiver, 26)
    # The peers are served in turn while both have messages.
    assert received[:22].count(b"flood") == 12
    assert [each for each in received if each != b"flood"] == [
        b"%d" % number for number in range(10)
    ]


@pytest.mark.deep
@clause("BP-6")
def test_a_socket_that_blocks_loses_nothing_at_the_receiver(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    """The messages wait at the sender, within its own bounds."""
    sending = SocketConfig(send_messages=10_000, send_bytes=1 << 30)
    receiving = SocketConfig(receive_messages=4, receive_overflow="block")
    sender = stack.enter_context(BusSocket(sending, native=native))
    receiver = stack.enter_context(BusSocket(receiving, native=native))
    receiver.dial(sender.listen(fresh_url(transport, tmp_path)).url)
    assert sender.wait_for_peers(1, LIMIT_S)
    assert receiver.wait_for_peers(1, LIMIT_S)
    for number in range(2000):
        sender.send(number.to_bytes(10_000))
    until(lambda: queued(receiver) >= 4, "it is full")
    [peer] = sender.stats.peers
    assert peer.queued > 500

    received = [int.from_bytes(receiver.receive(LIMIT_S)) for _ in range(2000)]
    assert received == [*range(2000)]
    assert not receiver.stats.dropped
    assert not sender.stats.dropped
