"""Loops of devices and second connections: each message arrives once (BP-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.pattern import BusSocket, DropReason, RawBusSocket, device
from specs.clauses import clause
from tests.pattern.nodes import LIMIT_S, all_of, fresh_url, queued
from tests.support import until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


MANY = 300


@clause("BP-16")
def test_in_a_ring_of_devices_each_message_arrives_once(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    """Every other library would send it round for ever."""
    hubs = [stack.enter_context(RawBusSocket()) for _ in range(3)]
    urls = [hub.listen(fresh_url(transport, tmp_path)).url for hub in hubs]
    leaves = [stack.enter_context(BusSocket()) for _ in hubs]
    for number, hub in enumerate(hubs):
        hub.dial(urls[(number + 1) % 3])
        leaves[number].dial(urls[number])
    for hub, leaf in zip(hubs, leaves, strict=True):
        assert hub.wait_for_peers(3, LIMIT_S)
        assert leaf.wait_for_peers(1, LIMIT_S)
    for hub in hubs:
        stack.enter_context(device(hub))
    for count in range(MANY):
        leaves[count % 3].send(b"%d" % count)

    for number, leaf in enumerate(leaves):
        expected = [b"%d" % count for count in range(MANY) if count % 3 != number]
        assert sorted(all_of(leaf, len(expected))) == sorted(expected)


@clause("BP-16")
def test_two_parallel_devices_deliver_once(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    left, right = (stack.enter_context(BusSocket()) for _ in range(2))
    for _ in range(2):
        sides = [stack.enter_context(RawBusSocket()) for _ in range(2)]
        for node, side in zip((left, right), sides, strict=True):
            node.dial(side.listen(fresh_url(transport, tmp_path)).url)
            assert side.wait_for_peers(1, LIMIT_S)
        stack.enter_context(device(*sides))
    for node in (left, right):
        assert node.wait_for_peers(2, LIMIT_S)
    for count in range(MANY):
        left.send(b"%d" % count)

    expected = [b"%d" % count for count in range(MANY)]
    assert sorted(all_of(right, MANY)) == sorted(expected)

    def is_complete() -> bool:
        return right.stats.dropped.get(DropReason.DUPLICATE) == MANY

    until(is_complete, "the second copies have arrived")
    assert not queued(right)


@clause("BP-16")
def test_two_nodes_that_dial_each_other_use_one_connection(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    """If it is lost, the other one carries the messages."""
    nodes = [stack.enter_context(BusSocket()) for _ in range(2)]
    urls = [node.listen(fresh_url(transport, tmp_path)).url for node in nodes]
    diallers = [node.dial(url) for node, url in zip(nodes, reversed(urls), strict=True)]
    for node in nodes:
        until(lambda node=node: len(node.stats.peers) == 2, "both are connected")  # type: ignore[misc]
        assert [peer.is_standby for peer in node.stats.peers] == [False, True]
    nodes[0].send(b"once")
    nodes[1].send(b"once, too")
    assert all_of(nodes[1], 1) == [b"once"]
    assert all_of(nodes[0], 1) == [b"once, too"]

    diallers[0].close()
    for node in nodes:
        until(lambda node=node: len(node.stats.peers) == 1, "one is connected")  # type: ignore[misc]
        assert not node.stats.peers[0].is_standby
    nodes[0].send(b"again")
    assert all_of(nodes[1], 1) == [b"again"]
