"""`device`: the messages that it forwards, its sockets and its end (BP-11 to BP-14)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import bus
from bus.errors import BusyError
from bus.pattern import BusSocket, Device, RawBusSocket, SocketConfig, device
from bus.pattern.node import Node
from specs.clauses import clause
from tests.pattern.inproc_pairs import connect
from tests.pattern.nodes import LIMIT_S, all_of, attach, fresh_url
from tests.strikes import everywhere
from tests.support import Threads, until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from tests.strikes import Blow


@clause("BP-11")
def test_a_device_of_one_socket_sends_each_message_to_all_other_leaves(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    hub = stack.enter_context(RawBusSocket(native=native))
    leaves = [stack.enter_context(BusSocket(native=native)) for _ in range(3)]
    attach(hub, leaves, fresh_url(transport, tmp_path))
    stack.enter_context(device(hub))
    for number, leaf in enumerate(leaves):
        leaf.send(b"%d" % number)
        leaf.send(b"")  # an empty message is one, too (BP-20)

    for number, leaf in enumerate(leaves):
        others = {b"0", b"1", b"2"} - {b"%d" % number}
        received = [leaf.receive(LIMIT_S) for _ in range(4)]
        assert sorted(received) == sorted([*others, b"", b""])
    # On each leaf's connection, its own message would have arrived before this one.
    leaves[0].send(b"end")
    assert [all_of(leaf, 1) for leaf in leaves[1:]] == [[b"end"]] * 2
    leaves[1].send(b"end")
    assert all_of(leaves[0], 1) == [b"end"]


@clause("BP-12")
def test_a_device_of_two_sockets_sends_messages_to_the_other_side_only(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    sides = [stack.enter_context(RawBusSocket(native=native)) for _ in range(2)]
    nodes: list[list[BusSocket]] = []
    for side in sides:
        nodes.append([stack.enter_context(BusSocket(native=native)) for _ in range(2)])
        attach(side, nodes[-1], fresh_url(transport, tmp_path))
    stack.enter_context(device(*sides))
    for own, other in ((0, 1), (1, 0)):
        nodes[own][0].send(b"across")
        assert [all_of(node, 1) for node in nodes[other]] == [[b"across"]] * 2
    # Behind any message that was sent back to its own side:
    nodes[0][1].send(b"end")
    nodes[1][1].send(b"end")
    assert [all_of(node, 1) for node in (*nodes[0], *nodes[1])] == [[b"end"]] * 4


def test_a_device_forwards_many_messages_of_a_plain_peer(tmp_path: Path) -> None:
    config = SocketConfig(message_bytes=1 << 14)
    urls = [fresh_url("local", tmp_path) for _ in range(2)]
    with (
        BusSocket(config, native=False) as plain,
        BusSocket(config) as leaf,
        RawBusSocket(config) as first,
        RawBusSocket(config) as second,
    ):
        first.listen(urls[0])
        second.listen(urls[1])
        plain.dial(urls[0])
        leaf.dial(urls[1])
        for each in (plain, leaf, first, second):
            assert each.wait_for_peers(1, LIMIT_S)
        node = first._node
        pipe = node.pipes.active[0]
        frames = [bytes(1 << 14)] * 16
        connection: Any = pipe.carrier
        runs, _ = connection._framing.read(frames, pipe.origin)
        node.accept(pipe, runs)
        with device(first, second):
            for _ in frames:
                assert leaf.receive(LIMIT_S) == frames[0]


@clause("BP-13", "BP-14")
def test_a_device_takes_raw_sockets_that_no_other_device_has(
    tmp_path: Path, stack: ExitStack
) -> None:
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
def test_a_device_without_one_of_its_threads_leaves_the_sockets_usable(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (stack.enter_context(RawBusSocket()) for _ in range(2))
    leaf = stack.enter_context(BusSocket())
    connect(leaf, first)
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        start(thread)
        started.append(thread)

    disown = Node.disown

    def disown_later(node: Node, owner: str) -> None:
        """Let the thread that has started run before the sockets are free again."""
        if not leaf.stats.sent:
            leaf.send(b"x")
        for thread in started:
            thread.join(LIMIT_S)
            assert not thread.is_alive()
        disown(node, owner)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_one)
        patch.setattr(Node, "disown", disown_later)
        with pytest.raises(RuntimeError, match="new thread"):
            device(first, second)

    assert len(started) == 1
    assert first.receive(0).body == b"x"
    assert not second.closed


@clause("BP-14")
def test_an_interrupted_start_of_a_device_leaves_the_sockets_usable() -> None:
    made: list[Device] = []

    def case(struck: Blow) -> None:
        with RawBusSocket() as first, RawBusSocket() as second, BusSocket() as leaf:
            made.clear()
            before = {*threading.enumerate()}
            connect(leaf, first)
            struck(lambda: made.append(device(first, second)))
            if first._node.state.owner:
                return  # it has started, and the caller was interrupted
            second.send(b"x")
            for thread in {*threading.enumerate()} - before:
                if thread.name.startswith("device "):
                    thread.join(LIMIT_S)
                    assert not thread.is_alive()
            leaf.send(b"y")
            assert first.receive(0).body == b"y"
            assert not second.closed

    everywhere(case, packages=[bus])


@clause("BP-14")
def test_a_call_that_waits_ends_when_a_device_takes_the_socket(
    stack: ExitStack,
) -> None:
    raw = stack.enter_context(RawBusSocket())
    threads = Threads()

    def receives() -> None:
        with pytest.raises(BusyError):
            raw.receive(LIMIT_S)

    threads.start(receives)
    until(lambda: len(raw._node.inbound.receivers) == 1, "it waits")
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
