"""What every bus socket does, over each transport, native and plain (BP-1 to BP-20)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from bus.pattern import (
    BusSocket,
    Drop,
    DropReason,
    RawBusSocket,
    RawMessage,
    SocketConfig,
    device,
)
from queuebroker.errors import BrokerClosedError, ReceiveTimeoutError
from specs.clauses import clause
from tests.pattern.nodes import LIMIT_S, TRANSPORTS, Mesh, all_of, fresh_url, queued
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANY = 300


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["native", "plain"])
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


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
def test_a_node_hands_on_nothing_that_it_receives(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    hub, *leaves = (stack.enter_context(BusSocket(native=native)) for _ in range(4))
    url = hub.listen(fresh_url(transport, tmp_path)).url
    for leaf in leaves:
        leaf.dial(url)
    assert hub.wait_for_peers(3, LIMIT_S)
    for leaf in leaves:
        assert leaf.wait_for_peers(1, LIMIT_S)
        leaf.send(b"up")

    assert all_of(hub, 3) == [b"up"] * 3
    hub.send(b"down")
    assert [all_of(leaf, 1) for leaf in leaves] == [[b"down"]] * 3


@clause("BP-4")
def test_a_peer_without_room_loses_messages_and_no_other_does(
    tmp_path: Path, stack: ExitStack
) -> None:
    """The slow one is a plain peer that never reads: its own queue fills, and the
    kernel's buffers.
    """
    drops: list[Drop] = []
    config = SocketConfig(
        send_messages=16, receive_messages=10_000, receive_bytes=1 << 30
    )
    sender = stack.enter_context(BusSocket(config, on_drop=drops.append))
    quick = stack.enter_context(BusSocket(config))
    url = sender.listen(fresh_url("ipc", tmp_path)).url
    quick.dial(url)
    stack.enter_context(_never_reads(url))
    assert sender.wait_for_peers(2, LIMIT_S)
    for number in range(5000):
        sender.send(number.to_bytes(4096))
        if not number % 16:
            until(lambda: not _of(sender, native=True).queued, "all has left")

    taken = [int.from_bytes(quick.receive(LIMIT_S)) for _ in range(5000)]
    assert taken == [*range(5000)]
    stats = _of(sender, native=False)
    lost = stats.dropped[DropReason.SEND_QUEUE]
    assert lost + stats.queued < 5000
    assert lost > 4000
    assert sum(drop.count for drop in drops) == lost
    assert {(drop.pipe, drop.reason) for drop in drops} == {
        (stats.pipe, DropReason.SEND_QUEUE)
    }


def _of(socket: BusSocket, *, native: bool):  # type: ignore[no-untyped-def]
    [found] = [each for each in socket.stats.peers if each.is_native is native]
    return found


def _never_reads(url: str) -> ExitStack:
    """Return a plain peer over ``ipc`` that completes the handshake and stops."""
    import socket  # noqa: PLC0415

    stack = ExitStack()
    peer = stack.enter_context(socket.socket(socket.AF_UNIX))
    peer.connect(url.removeprefix("ipc://"))
    peer.sendall(bytes.fromhex("0053500000700000"))
    return stack


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


@clause("BP-6")
def test_a_full_receive_queue_drops_the_newest_message(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    """Both ends have the account of it."""
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

    def is_told() -> bool:
        [peer] = sender.stats.peers
        taken = peer.remote_taken
        return taken is not None and taken.delivered == 16

    until(is_told, "the sender has the account")
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
    url = receiver.listen(fresh_url(transport, tmp_path)).url
    for each in (flood, quiet):
        each.dial(url)
        assert each.wait_for_peers(1, LIMIT_S)
    assert receiver.wait_for_peers(2, LIMIT_S)
    for _ in range(MANY):
        flood.send(b"flood")
    until(lambda: DropReason.RECEIVE_QUEUE in receiver.stats.dropped, "it is full")
    for number in range(10):
        quiet.send(b"%d" % number)
    until(lambda: queued(receiver) == 26, "all that fit are there")

    came = all_of(receiver, 26)
    # Some of each in turn, while both have messages.
    assert came[:22].count(b"flood") == 12
    assert [each for each in came if each != b"flood"] == [
        b"%d" % number for number in range(10)
    ]


@clause("BP-7", "BP-9", "BP-10")
def test_a_raw_socket_tags_a_message_with_the_pipe_that_it_came_by(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    raw = stack.enter_context(RawBusSocket(native=native))
    first, second = (stack.enter_context(BusSocket(native=native)) for _ in range(2))
    url = raw.listen(fresh_url(transport, tmp_path)).url
    for each in (first, second):
        each.dial(url)
        assert each.wait_for_peers(1, LIMIT_S)
    assert raw.wait_for_peers(2, LIMIT_S)
    first.send(b"one")
    one = raw.receive(LIMIT_S)
    second.send(b"two")
    two = raw.receive(LIMIT_S)

    assert (one.body, two.body) == (b"one", b"two")
    assert {one.pipe, two.pipe} == {peer.pipe for peer in raw.stats.peers}
    assert 0 not in {one.pipe, two.pipe}
    assert one.header == one.pipe.to_bytes(4)
    own = {peer.pipe for each in (first, second) for peer in each.stats.peers}
    assert not own & {one.pipe, two.pipe}


@clause("BP-8")
def test_a_raw_socket_sends_to_all_but_the_pipe_of_the_tag(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    raw = stack.enter_context(RawBusSocket(native=native))
    nodes = [stack.enter_context(BusSocket(native=native)) for _ in range(3)]
    url = raw.listen(fresh_url(transport, tmp_path)).url
    for each in nodes:
        each.dial(url)
        assert each.wait_for_peers(1, LIMIT_S)
    assert raw.wait_for_peers(3, LIMIT_S)
    nodes[0].send(b"to others")
    raw.send(raw.receive(LIMIT_S))
    raw.send(b"to all")
    raw.send(RawMessage(b"to all, too"))

    assert all_of(nodes[0], 2) == [b"to all", b"to all, too"]
    for each in nodes[1:]:
        assert all_of(each, 3) == [b"to others", b"to all", b"to all, too"]


@clause("BP-11")
def test_a_device_of_one_socket_sends_each_message_to_all_other_leaves(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    hub = stack.enter_context(RawBusSocket(native=native))
    leaves = [stack.enter_context(BusSocket(native=native)) for _ in range(3)]
    url = hub.listen(fresh_url(transport, tmp_path)).url
    for leaf in leaves:
        leaf.dial(url)
        assert leaf.wait_for_peers(1, LIMIT_S)
    assert hub.wait_for_peers(3, LIMIT_S)
    stack.enter_context(device(hub))
    for number, leaf in enumerate(leaves):
        leaf.send(b"%d" % number)
        leaf.send(b"")  # an empty message is one, too (BP-20)

    for number, leaf in enumerate(leaves):
        others = {b"0", b"1", b"2"} - {b"%d" % number}
        came = [leaf.receive(LIMIT_S) for _ in range(4)]
        assert sorted(came) == sorted([*others, b"", b""])
    # In each leaf's connection, its own message would have come before this one.
    leaves[0].send(b"end")
    assert [all_of(leaf, 1) for leaf in leaves[1:]] == [[b"end"]] * 2
    leaves[1].send(b"end")
    assert all_of(leaves[0], 1) == [b"end"]


@clause("BP-12")
def test_a_device_of_two_sockets_takes_messages_to_the_other_side_only(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    sides = [stack.enter_context(RawBusSocket(native=native)) for _ in range(2)]
    nodes: list[list[BusSocket]] = []
    for side in sides:
        url = side.listen(fresh_url(transport, tmp_path)).url
        nodes.append([stack.enter_context(BusSocket(native=native)) for _ in range(2)])
        for node in nodes[-1]:
            node.dial(url)
            assert node.wait_for_peers(1, LIMIT_S)
        assert side.wait_for_peers(2, LIMIT_S)
    stack.enter_context(device(*sides))
    for own, other in ((0, 1), (1, 0)):
        nodes[own][0].send(b"across")
        assert [all_of(node, 1) for node in nodes[other]] == [[b"across"]] * 2
    # Behind any message that was sent back to its own side:
    nodes[0][1].send(b"end")
    nodes[1][1].send(b"end")
    assert [all_of(node, 1) for node in (*nodes[0], *nodes[1])] == [[b"end"]] * 4


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
        came = [receiver.receive(LIMIT_S) for _ in range(3 * MANY)]
        threads.join()
    for number in range(3):
        counts = [int.from_bytes(each[1:]) for each in came if each[0] == number]
        assert counts == [*range(MANY)]


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


# Loops (BP-16).


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

    until(is_complete, "the second copies have come, too")
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
        until(lambda node=node: len(node.stats.peers) == 2, "both are there")  # type: ignore[misc]
        assert [peer.is_standby for peer in node.stats.peers] == [False, True]
    nodes[0].send(b"once")
    nodes[1].send(b"once, too")
    assert all_of(nodes[1], 1) == [b"once"]
    assert all_of(nodes[0], 1) == [b"once, too"]

    diallers[0].close()
    for node in nodes:
        until(lambda node=node: len(node.stats.peers) == 1, "one is left")  # type: ignore[misc]
        assert not node.stats.peers[0].is_standby
    nodes[0].send(b"again")
    assert all_of(nodes[1], 1) == [b"again"]


# Connections.


@clause("BP-17")
def test_a_dialler_waits_for_its_listener_and_dials_again_after_a_loss(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    if transport.startswith("tcp"):
        with BusSocket() as other:  # a port that is free again
            url = other.listen(fresh_url(transport, tmp_path)).url
    else:
        url = fresh_url(transport, tmp_path)
    node = stack.enter_context(BusSocket(native=native))
    dialler = node.dial(url)
    for _ in range(3):
        with BusSocket(native=native) as listener:
            listener.listen(url)
            assert node.wait_for_peers(1, LIMIT_S)
            assert listener.wait_for_peers(1, LIMIT_S)
            assert dialler.is_connected
            node.send(b"there")
            assert all_of(listener, 1) == [b"there"]
        until(lambda: not node.stats.peers, "the connection is lost")
    assert not dialler.is_connected


def test_a_socket_that_is_closed_ends_every_call(
    transport: str, tmp_path: Path
) -> None:
    node = BusSocket()
    listener = node.listen(fresh_url(transport, tmp_path))
    node.fileno()
    threads = Threads()

    def receives() -> None:
        with pytest.raises(BrokerClosedError, match="cannot receive"):
            node.receive(LIMIT_S)

    waiting = [threads.start(receives) for _ in range(3)]
    until(lambda: len(node._node.arrivals.receivers) == 3, "all wait")
    node.close()
    threads.join()
    assert waiting
    assert node.closed
    for call in (
        lambda: node.send(b"x"),
        lambda: node.receive(0),
        lambda: node.listen(listener.url),
        lambda: node.dial(listener.url),
        node.fileno,
    ):
        with pytest.raises(BrokerClosedError, match="this socket is closed"):
            call()
    node.close()
    with BusSocket() as other:  # the address is free again
        other.listen(listener.url)


def test_an_address_in_use_is_refused_with_its_name(
    transport: str, tmp_path: Path
) -> None:
    with BusSocket() as first, BusSocket() as second:
        url = first.listen(fresh_url(transport, tmp_path)).url
        with pytest.raises(OSError, match="cannot listen at ") as caught:
            second.listen(url)
        assert url in str(caught.value)
        assert "choose another address" in str(caught.value)


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
    import select  # noqa: PLC0415

    with Mesh(transport, tmp_path, 2) as mesh:
        first, second = mesh.nodes
        poller = select.poll()
        poller.register(second.fileno(), select.POLLIN)
        assert not poller.poll(0)
        first.send(b"1")
        first.send(b"2")
        assert poller.poll(LIMIT_S * 1000)
        until(lambda: queued(second) == 2, "both are there")
        second.receive(0)
        assert poller.poll(0)
        second.receive(0)
        assert not poller.poll(0)
        second.close()
        assert poller.poll(0)


def test_drain_waits_until_all_has_left(tmp_path: Path, stack: ExitStack) -> None:
    config = SocketConfig(send_messages=10_000)
    sender = stack.enter_context(BusSocket(config))
    url = sender.listen(fresh_url("ipc", tmp_path)).url
    peer = stack.enter_context(_never_reads(url))
    assert sender.wait_for_peers(1, LIMIT_S)
    for _ in range(1000):
        sender.send(bytes(4096))
    assert not sender.drain(0.01)
    peer.close()
    assert sender.drain(LIMIT_S)
    lost = sender.stats.dropped[DropReason.LOST]
    assert lost > 0


@clause("BP-13", "BP-14")
def test_a_device_takes_raw_sockets_that_no_other_device_has(
    tmp_path: Path, stack: ExitStack
) -> None:
    from bus.errors import BusyError  # noqa: PLC0415

    first, second, third = (stack.enter_context(RawBusSocket()) for _ in range(3))
    cooked = stack.enter_context(BusSocket())
    with pytest.raises(ValueError, match="at least one socket"):
        device(None)
    with pytest.raises(ValueError, match="two different sockets"):
        device(first, first)
    for pair in ((cooked, None), (first, cooked), (None, cooked)):
        with pytest.raises(TypeError, match="must be a RawBusSocket, got"):
            device(*pair)
    running = device(first, second)
    for act in (
        lambda: device(first),
        lambda: device(third, second),
        lambda: first.send(b"x"),
        lambda: second.receive(0),
    ):
        with pytest.raises(BusyError, match="this socket, by device"):
            act()
    third.send(b"still usable")  # the failed start left it alone
    assert not running.wait(0)
    running.close()
    assert running.wait(LIMIT_S)
    assert running.closed
    assert running.error is None
    assert first.closed
    assert second.closed
    assert not third.closed


@clause("BP-14")
def test_a_call_that_waits_ends_when_a_device_takes_the_socket(
    stack: ExitStack,
) -> None:
    from bus.errors import BusyError  # noqa: PLC0415

    raw = stack.enter_context(RawBusSocket())
    threads = Threads()

    def receives() -> None:
        with pytest.raises(BusyError):
            raw.receive(LIMIT_S)

    threads.start(receives)
    until(lambda: len(raw._node.arrivals.receivers) == 1, "it waits")
    stack.enter_context(device(raw))
    threads.join()


@clause("BP-14")
def test_a_device_ends_with_one_of_its_sockets(stack: ExitStack) -> None:
    first, second = (stack.enter_context(RawBusSocket()) for _ in range(2))
    running = device(first, second)
    second.close()
    assert running.wait(LIMIT_S)
    assert first.closed
    assert running.error is None


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

    came = [int.from_bytes(receiver.receive(LIMIT_S)) for _ in range(2000)]
    assert came == [*range(2000)]
    assert not receiver.stats.dropped
    assert not sender.stats.dropped
