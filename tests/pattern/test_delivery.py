"""Messages of bus sockets reach all peers whole and in order (BP-1 to BP-5, BP-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern import BusSocket, Drop, DropReason, SocketConfig
from queuebroker.errors import ReceiveTimeoutError
from specs.clauses import clause
from tests.pattern.inproc_pairs import connect
from tests.pattern.nodes import (
    LIMIT_S,
    Mesh,
    all_of,
    attach,
    fresh_url,
    is_readable,
    queued,
)
from tests.support import Threads, until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


MANY = 300


@clause("BP-1", "BP-3")
def test_in_a_mesh_each_node_gets_the_messages_of_all_others(
    transport: str, tmp_path: Path, *, native: bool
) -> None:
    with Mesh(transport, tmp_path, 4, native=native) as mesh:
        for number, node in enumerate(mesh.nodes):
            node.send(b"from %d" % number)
        for number, node in enumerate(mesh.nodes):
            others = {b"from %d" % other for other in range(4)} - {b"from %d" % number}
            assert {*all_of(node, 3)} == others
        for node in mesh.nodes:
            assert [peer.is_native for peer in node.stats.peers] == [native] * 3
            assert [peer.remote_taken for peer in node.stats.peers] == [
                None
            ] * 3 or native


@clause("BP-2")
def test_a_node_forwards_no_message_that_it_receives(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    hub, *leaves = (stack.enter_context(BusSocket(native=native)) for _ in range(4))
    attach(hub, leaves, fresh_url(transport, tmp_path))
    for leaf in leaves:
        leaf.send(b"up")

    assert all_of(hub, 3) == [b"up"] * 3
    hub.send(b"down")
    assert [all_of(leaf, 1) for leaf in leaves] == [[b"down"]] * 3


@clause("BP-5", "BP-17")
def test_without_peers_a_message_is_dropped_and_a_later_peer_does_not_get_it(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    drops: list[Drop] = []
    early = stack.enter_context(BusSocket(on_drop=drops.append))
    url = early.listen(fresh_url(transport, tmp_path)).url
    early.send(b"too early")
    late = stack.enter_context(BusSocket())
    late.dial(url)
    assert early.wait_for_peers(1, LIMIT_S)
    assert late.wait_for_peers(1, LIMIT_S)
    early.send(b"in time")

    assert all_of(late, 1) == [b"in time"]
    assert drops == [Drop(0, DropReason.NO_PEER, 1)]
    assert early.stats.dropped == {DropReason.NO_PEER: 1}


def test_a_message_that_was_not_received_is_not_delivered_and_a_close_drops_it(
    stack: ExitStack,
) -> None:
    near, far = (stack.enter_context(BusSocket()) for _ in range(2))
    connect(near, far)
    for number in range(3):
        near.send(b"%d" % number)
    assert far.receive(0) == b"0"

    [peer] = far.stats.peers
    assert (peer.arrived, peer.delivered, queued(far)) == (3, 1, 2)

    far.close()
    assert (far.stats.delivered, queued(far)) == (1, 0)
    assert far.stats.dropped == {DropReason.CLOSED: 2}


@pytest.mark.deep
@clause("BP-19")
def test_the_messages_of_each_peer_arrive_in_order(
    transport: str, tmp_path: Path, *, native: bool
) -> None:
    config = SocketConfig(send_messages=10_000, receive_messages=10_000)
    with Mesh(transport, tmp_path, 4, config=config, native=native) as mesh:
        receiver, *senders = mesh.nodes
        threads = Threads()

        def sends(number: int) -> None:
            for count in range(MANY):
                senders[number].send(bytes([number]) + count.to_bytes(4))

        for number in range(3):
            threads.start(lambda number=number: sends(number))  # type: ignore[misc]
        received = [receiver.receive(LIMIT_S) for _ in range(3 * MANY)]
        threads.join()
    for number in range(3):
        counts = [int.from_bytes(each[1:]) for each in received if each[0] == number]
        assert counts == [*range(MANY)]


@pytest.mark.deep
@clause("BP-20")
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 1 << 20, 5 << 20])
def test_messages_of_all_lengths_arrive_whole(
    transport: str, tmp_path: Path, size: int, *, native: bool
) -> None:
    message = bytes(range(256)) * (size // 256 + 1)
    with Mesh(transport, tmp_path, 2, native=native) as mesh:
        first, second = mesh.nodes
        first.send(message[:size])
        assert all_of(second, 1) == [message[:size]]


def test_nothing_to_receive_times_out() -> None:
    with BusSocket() as node:
        for wait in (node.receive_nowait, lambda: node.receive(0.01)):
            with pytest.raises(ReceiveTimeoutError):
                wait()
        assert not node.wait_for_peers(1, 0.01)
        assert node.drain(0)


def test_a_descriptor_is_readable_while_a_message_is_there(
    transport: str, tmp_path: Path
) -> None:
    with Mesh(transport, tmp_path, 2) as mesh:
        first, second = mesh.nodes
        descriptor = second.fileno()
        assert not is_readable(descriptor)
        first.send(b"1")
        first.send(b"2")
        until(lambda: is_readable(descriptor), "it is readable")
        until(lambda: queued(second) == 2, "both have arrived")
        second.receive(0)
        assert is_readable(descriptor)
        second.receive(0)
        assert not is_readable(descriptor)
        second.close()
        assert is_readable(descriptor)
