"""Meshes, stars, devices and chains of ours, NNG and nanomsg, in every mix."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.pattern.interop.delivery import (
    expect,
    expect_nothing_before,
    wait_for_delivery,
    wait_for_mesh,
)
from tests.pattern.interop.peer import LIBRARIES
from tests.pattern.interop.testbed import TRANSPORTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.pattern.interop.peer import Peer
    from tests.pattern.interop.testbed import Testbed

# Every mix of three nodes with at least one of ours; the first two listen, so that each
# library has each role towards each other one.
MIXES = [mix for mix in itertools.product(LIBRARIES, repeat=3) if "ours" in mix]
LEAVES = [*itertools.combinations_with_replacement(LIBRARIES, 3)]


def ids(mix: Sequence[str]) -> str:
    return "-".join(mix)


def mesh(testbed: Testbed, mix: Sequence[str], transport: str) -> list[Peer]:
    """Open nodes; each dials those before it."""
    nodes = [testbed.open(each) for each in mix]
    for i, listener in enumerate(nodes[:-1]):
        url = testbed.listen(listener, transport)
        for dialler in nodes[i + 1 :]:
            dialler.dial(url)
    wait_for_mesh(nodes)
    return nodes


def star(
    testbed: Testbed, hub: Peer, leaves: Sequence[str], transport: str
) -> list[Peer]:
    """Open leaves, which dial a hub."""
    url = testbed.listen(hub, transport)
    nodes = [testbed.open(each) for each in leaves]
    for each in nodes:
        each.dial(url)
    return nodes


def exchange(nodes: Sequence[Peer], length: int = 1) -> None:
    """Let each node send; each receives the messages of all others, and no more."""
    sent = [b"%d" % i * (i + length) for i in range(len(nodes))]
    for node, message in zip(nodes, sent, strict=True):
        node.send(message)
    for node, own in zip(nodes, sent, strict=True):
        expect(node, [each for each in sent if each != own])


@pytest.mark.deep
@clause("BP-1", "BP-3")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mix", MIXES, ids=ids)
def test_in_a_full_mesh_each_node_receives_exactly_the_messages_of_the_others(
    testbed: Testbed, mix: tuple[str, ...], transport: str
) -> None:
    """Every message reaches every other node, and never its sender."""
    nodes = mesh(testbed, mix, transport)

    exchange(nodes)
    exchange(nodes, 300)

    # A message that had returned, or a second copy, would be in front of these.
    for node in nodes:
        expect_nothing_before(node, [each for each in nodes if each is not node])


@pytest.mark.deep
@clause("BP-2")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mix", MIXES, ids=ids)
def test_a_cooked_hub_does_not_forward(
    testbed: Testbed, mix: tuple[str, ...], transport: str
) -> None:
    """A plain node sends only the messages of its own application."""
    hub = testbed.open(mix[0])
    leaves = star(testbed, hub, mix[1:], transport)
    wait_for_delivery({hub: leaves, **{leaf: [hub] for leaf in leaves}})

    for leaf in leaves:
        leaf.send(b"from a leaf")
    expect(hub, [b"from a leaf"] * len(leaves))

    expect_nothing_before(hub, leaves)


@pytest.mark.deep
@clause("BP-11")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("leaves", LEAVES, ids=ids)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_device_of_one_socket_reflects_to_all_but_the_sender(
    testbed: Testbed, library: str, leaves: tuple[str, ...], transport: str
) -> None:
    """Each message of a leaf reaches the other leaves once, and not its sender."""
    hub = testbed.open(library, raw=True)
    nodes = star(testbed, hub, leaves, transport)
    hub.forward_to(None)
    wait_for_mesh(nodes)

    exchange(nodes)
    nodes[0].send(b"")
    for node in nodes[1:]:
        expect(node, [b""])

    for node in nodes:
        expect_nothing_before(node, [each for each in nodes if each is not node])


@pytest.mark.deep
@clause("BP-12")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("sides", [*itertools.product(LIBRARIES, repeat=2)], ids=ids)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_device_of_two_sockets_forwards_to_the_other_side_only(
    testbed: Testbed, library: str, sides: tuple[str, str], transport: str
) -> None:
    """No node on the side of the sender receives the message from the device."""
    first, second = testbed.open(library, raw=True), testbed.open(library, raw=True)
    left = star(testbed, first, [sides[0], "ours"], transport)
    right = star(testbed, second, [sides[1], "ours"], transport)
    first.forward_to(second)
    wait_for_delivery({**dict.fromkeys(left, right), **dict.fromkeys(right, left)})

    for near, far in ((left, right), (right, left)):
        for node in near:
            node.send(b"across")
        for node in far:
            expect(node, [b"across"] * len(near))

    # The next message of the other side is the first that arrives.
    for near, far in ((left, right), (right, left)):
        for node in near:
            expect_nothing_before(node, far)


@pytest.mark.deep
@clause("BP-12")
@pytest.mark.parametrize("ends", [*itertools.product(LIBRARIES, repeat=2)], ids=ids)
def test_a_message_crosses_a_chain_of_25_devices_of_all_libraries(
    testbed: Testbed, ends: tuple[str, str]
) -> None:
    """A message crosses them once, in both directions, and its order is kept."""
    left = testbed.open(ends[0])
    url = testbed.listen(left, "ipc")
    for library, _ in zip(itertools.cycle(LIBRARIES), range(25), strict=False):
        first, second = testbed.open(library, raw=True), testbed.open(library, raw=True)
        first.dial(url)
        url = testbed.listen(second, "ipc")
        first.forward_to(second)
    right = testbed.open(ends[1])
    right.dial(url)
    wait_for_delivery({left: [right], right: [left]})

    for sender, receiver in ((left, right), (right, left)):
        for i in range(20):
            sender.send(b"%d" % i)
            assert receiver.receive(30) == b"%d" % i
        expect_nothing_before(sender, [receiver])


@clause("BP-16")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_two_devices_of_ours_beside_a_foreign_one_do_not_multiply_messages(
    testbed: Testbed, transport: str
) -> None:
    """Between sockets of ours, a ring delivers once; foreign leaves see no copies."""
    hubs = [testbed.own(raw=True) for _ in range(3)]
    urls = [testbed.listen(each, transport) for each in hubs]
    for i, hub in enumerate(hubs):
        hub.dial(urls[(i + 1) % 3])
    leaves = [testbed.open(each) for each in ("nng", "nanomsg", "ours")]
    for leaf, url in zip(leaves, urls, strict=True):
        leaf.dial(url)
    for hub in hubs:
        assert hub.socket.wait_for_peers(3, 30)
        hub.forward_to(None)
    wait_for_mesh(leaves)

    exchange(leaves)

    for leaf in leaves:
        expect_nothing_before(leaf, [each for each in leaves if each is not leaf])
