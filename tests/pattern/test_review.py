"""Interrupts, signal handlers, races and hostile peers leave nothing wrong behind."""

from __future__ import annotations

import os
import socket as system_socket
from typing import TYPE_CHECKING, Any

import pytest

import bus
import queuebroker
from bus.pattern import (
    BusSocket,
    Drop,
    PairSocket,
    RawBusSocket,
    RawMessage,
    SocketConfig,
)
from bus.pattern.device import device
from bus.pattern.fair_queue import FairQueue
from bus.pattern.inproc import InprocConnection, InprocRegistry
from bus.pattern.loop_guard import LoopGuard
from bus.pattern.message_run import MessageRun
from bus.pattern.node import Node
from bus.pattern.send_queue import SendQueue
from bus.pattern.wire import EndpointType
from queuebroker import _net, _sync
from queuebroker.errors import BrokerClosedError, ReceiveTimeoutError
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.pattern.nodes import LIMIT_S, fresh_url
from tests.strikes import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuebroker.testing import Run
    from tests.strikes import Blow


def _node(**limits: Any) -> Node:
    config = SocketConfig(**limits)
    return Node(config, EndpointType.BUS, EndpointType.NATIVE_BUS)


def _joined(*nodes: Node) -> bool:
    ends = [InprocConnection(node, lambda: None) for node in nodes]
    return ends[0].join(ends[1], "inproc://x")


def _under_schedules(program: Callable[[Run], None]) -> None:
    explore(program, bound=2, limit=schedules(4000), random=schedules(300), seed=1)


def _eventually(condition: Callable[[], object]) -> None:
    deadline = _sync.monotonic() + LIMIT_S
    while not condition():
        assert _sync.monotonic() < deadline


# Interrupts.


def test_an_interrupted_flush_leaves_its_lock_free() -> None:
    def case(struck: Blow) -> None:
        queue: SendQueue[bytes]
        came: list[bytes] = []

        def write() -> bool:
            while (frame := queue.take()) is not None:
                came.append(frame)
            return True

        queue = SendQueue(9, 99, write)
        queue.put(MessageRun(1, 1, [b"x"]), lambda run: run.bodies[0])
        struck(queue.flush)

        assert not queue._flush.locked()
        queue.put(MessageRun(1, 2, [b"y"]), lambda run: run.bodies[0])
        queue.flush()
        assert came[-1] == b"y"
        assert len(queue) == queue.size == 0, "an account of no message"

    everywhere(case, packages=[bus, queuebroker])


def test_a_message_that_cannot_be_encoded_takes_no_room() -> None:
    def refuse(run: MessageRun) -> bytes:
        raise TypeError(run)

    queue: SendQueue[bytes] = SendQueue(9, 99, lambda: True)
    with pytest.raises(TypeError):
        queue.put(MessageRun(1, 1, [b"x"]), refuse)
    assert len(queue) == queue.size == 0


@clause("BP-18")
def test_an_interrupted_receive_loses_no_later_message() -> None:
    def case(struck: Blow) -> None:
        nodes = [_node(), _node(), _node()]
        for sender in nodes[1:]:
            _joined(sender, nodes[0])
            sender.send(b"1")
            sender.send(b"2")
        struck(lambda: nodes[0].receive(0))
        for sender in nodes[1:]:
            sender.send(b"3")

        came = _all_of(nodes[0])
        assert came.count(b"3") == 2, came
        assert not len(nodes[0].arrivals)
        assert nodes[0].arrivals.has_next() is False

    everywhere(case, packages=[bus])


def test_an_interrupted_send_within_a_process_loses_no_later_message() -> None:
    def case(struck: Blow) -> None:
        sender, receiver = _node(), _node()
        _joined(sender, receiver)
        struck(lambda: sender.send(b"1"))
        sender.send(b"2")

        assert _all_of(receiver)[-1] == b"2"
        assert sender.drain(0)

    everywhere(case, packages=[bus])


def test_an_interrupted_receive_resumes_a_peer_that_was_held_back() -> None:
    def case(struck: Blow) -> None:
        sender = _node()
        receiver = _node(receive_messages=1, receive_overflow="block")
        _joined(sender, receiver)
        sender.send(b"1")
        sender.send(b"2")
        sender.send(b"3")
        struck(lambda: receiver.receive(0))
        sender.send(b"4")

        assert _all_of(receiver)[-1] == b"4"

    everywhere(case, packages=[bus])


def test_a_descriptor_is_right_after_an_interrupted_receive() -> None:
    def case(struck: Blow) -> None:
        with BusSocket() as sender, BusSocket() as receiver:
            _joined(sender._node, receiver._node)
            descriptor = receiver.fileno()
            sender.send(b"1")
            sender.send(b"2")
            receiver.receive(0)
            struck(lambda: receiver.receive(0))
            _all_of(receiver._node)
            assert not _is_readable(descriptor)

    everywhere(case, packages=[bus])


def test_an_interrupted_close_is_completed_by_the_next_one(tmp_path: Path) -> None:
    def case(struck: Blow) -> None:
        url = fresh_url("ipc", tmp_path)
        with BusSocket() as receiver, BusSocket() as sender:
            listener = receiver.listen(url)
            sender.dial(url)
            _joined(sender._node, receiver._node)
            struck(receiver.close)
            receiver.close()
            del listener
            assert not os.path.exists(url.removeprefix("ipc://"))
            assert not receiver._node.peers
            _eventually(lambda: not receiver._node._closers)

    everywhere(case, packages=[bus])


def _all_of(node: Node) -> list[bytes]:
    came = []
    try:
        while True:
            came.append(node.receive(0))
    except ReceiveTimeoutError:
        return came


def _is_readable(descriptor: int) -> bool:
    poller = _net.Poller()
    poller.register(descriptor, _net.READ)
    try:
        return bool(poller.poll(0))
    finally:
        poller.close()


# Signal handlers.


@clause("BP-16")
def test_a_signal_handler_that_sends_takes_no_number_of_another_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender, receiver = _node(), _node()
    _joined(sender, receiver)
    sender.pipes.gathers = True
    monkeypatch.setattr(InprocConnection, "flush_soon", lambda *_: None)
    handling: list[bool] = []

    def interrupted() -> float:
        if not handling:
            handling.append(True)
            sender.send(b"handler")
        return 1.0

    monkeypatch.setattr(_sync, "monotonic", interrupted)
    sender.send(b"1")
    sender.send(b"2")
    sender.flush()
    monkeypatch.undo()
    assert sorted(_all_of(receiver)) == [b"1", b"2", b"handler"]


# Races.


def test_a_drain_during_a_join_is_woken() -> None:
    def program(run: Run) -> None:
        sender, receiver = _node(), _node()
        joining = run.spawn(_joined, sender, receiver)
        sender.send(b"x")
        assert sender.drain(None)
        joining.join()

    _under_schedules(program)


def test_no_connection_outlives_a_node_that_closes_while_it_is_made() -> None:
    def program(run: Run) -> None:
        first, second = _node(), _node()
        closing = run.spawn(first.close)
        joined = _joined(first, second)
        closing.join()
        assert second.peers == 0, joined

    _under_schedules(program)


def test_a_dialler_is_woken_by_a_later_listener() -> None:
    class Names(dict[str, Any]):
        """A table whose calls are steps of a schedule."""

        def __init__(self) -> None:
            self.step = _sync.Lock()

        def setdefault(self, *args: Any) -> Any:
            with self.step:
                return super().setdefault(*args)

        def get(self, *args: Any) -> Any:
            with self.step:
                return super().get(*args)

        def pop(self, *args: Any) -> Any:
            with self.step:
                return super().pop(*args)

    def program(run: Run) -> None:
        registry = InprocRegistry()
        registry._listeners = Names()  # type: ignore[misc]
        registry._waiting = Names()  # type: ignore[misc]
        end: Any = object()
        dialled: list[bool] = []

        def dial() -> None:
            dialled.append(registry.dial("n", end, dial))

        def accept(_: InprocConnection) -> bool:
            return True

        dialling = run.spawn(dial)
        registry.listen("n", accept)
        registry.stop("n")
        dialling.join()
        if True not in dialled:
            registry.listen("n", accept)
            assert True in dialled

    _under_schedules(program)


def test_a_connection_waits_for_room_whatever_resumes_it_meanwhile(
    tmp_path: Path,
) -> None:
    url = fresh_url("ipc", tmp_path)
    with BusSocket() as first, BusSocket() as second:
        first.listen(url)
        second.dial(url)
        assert first.wait_for_peers(1, LIMIT_S)
        connection: Any = first._node.pipes.active[0].carrier
        masks: list[int] = []

        class Watched:
            def watch(self, _: int, mask: int) -> None:
                if not masks:
                    masks.append(0)
                    # A thread that sends comes here first, and finds no room.
                    connection._writer._set_awaits_room(awaits=True)
                masks.append(mask)

        driver, connection._driver = connection._driver, Watched()
        connection._watch()
        connection._driver = driver
        assert masks[-1] & _net.WRITE
        connection._writer.awaits_room = False


# Closing.


def test_a_listener_that_closes_twice_leaves_the_next_one_alone() -> None:
    url = "inproc://twice"
    with BusSocket() as first, BusSocket() as second, BusSocket() as third:
        listener = first.listen(url)
        listener.close()
        second.listen(url)
        listener.close()
        third.dial(url)
        assert third.wait_for_peers(1, 0.0) or third.wait_for_peers(1, 1.0)


def test_a_call_that_waits_for_peers_raises_once_the_socket_is_closed() -> None:
    node = BusSocket()
    node.close()
    with pytest.raises(BrokerClosedError):
        node.wait_for_peers(1, 0)
    with pytest.raises(BrokerClosedError):
        node.drain(0)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_closes_a_listener_leaves_the_file_of_its_parent(
    tmp_path: Path,
) -> None:
    url = fresh_url("ipc", tmp_path)
    with BusSocket() as node:
        listener = node.listen(url)
        child = os.fork()
        if not child:
            try:
                listener.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.path.exists(url.removeprefix("ipc://"))


def test_an_exit_within_on_drop_leaves_no_descriptor_open(tmp_path: Path) -> None:
    def leave(_: Drop) -> None:
        raise SystemExit

    url = fresh_url("ipc", tmp_path)
    with BusSocket(SocketConfig(send_bytes=1 << 16), on_drop=leave) as node:
        node.listen(url)
        peer = _native_peer(node, url.removeprefix("ipc://"))
        connection: Any = node._node.pipes.active[0].carrier
        while not connection.queued:
            node.send(bytes(1 << 15))
        peer.close()
        _eventually(lambda: not node.stats.peers)
        _eventually(lambda: connection._socket.fileno() < 0)


# Peers that are hostile, slow or of other libraries.


def _native_peer(node: BusSocket, path: str) -> system_socket.socket:
    """Connect a native peer without a program behind it."""
    peer = system_socket.socket(system_socket.AF_UNIX)
    peer.connect(path)
    peer.sendall(b"\0SP\0\xf0\x70\0\0" + b"\1" + (9).to_bytes(8) + b"\2" + b"\7" * 8)
    assert node.wait_for_peers(1, LIMIT_S)
    return peer


@clause("BP-4")
def test_accounts_do_not_pile_up_for_a_peer_that_does_not_read(tmp_path: Path) -> None:
    url = fresh_url("ipc", tmp_path)
    with BusSocket(SocketConfig(send_bytes=1 << 16)) as node:
        node.listen(url)
        with _native_peer(node, url.removeprefix("ipc://")):
            carrier: Any = node._node.pipes.active[0].carrier
            while not carrier._writer.queue.blocked:
                node.send(bytes(1 << 15))
            before = len(carrier._writer.queue._frames)
            for _ in range(100):
                carrier._report()
            assert len(carrier._writer.queue._frames) - before <= 2


@clause("BP-6")
def test_a_peer_that_is_held_back_and_ends_takes_no_processor_time(
    tmp_path: Path,
) -> None:
    url = fresh_url("ipc", tmp_path)
    config = SocketConfig(receive_messages=1, receive_overflow="block")
    with BusSocket(config) as node:
        node.listen(url)
        with _native_peer(node, url.removeprefix("ipc://")) as peer:
            carrier: Any = node._node.pipes.active[0].carrier
            frame = b"\1" + b"\7" * 8 + (1).to_bytes(8) + (1).to_bytes(4) + bytes(4)
            peer.sendall(b"\1" + len(frame).to_bytes(8) + frame)
            _eventually(lambda: node.stats.received_queued)
            peer.sendall(b"\1" + (1 << 20).to_bytes(8))
            _eventually(lambda: carrier._is_paused)
        calls = []
        ready = type(carrier).ready

        def counted(self: Any, mask: int) -> None:
            calls.append(mask)
            ready(self, mask)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(carrier), "ready", counted)
            with BusSocket() as other, BusSocket() as another:  # keep the driver busy
                other.listen(f"{url}x")
                for _ in range(20):
                    another.dial(f"{url}x").close()
                _sync.park(_taken(), lambda: False, _sync.monotonic() + 0.1)
            assert len([mask for mask in calls if mask & _net.ENDED]) < 30


def _taken() -> Any:
    lock = _sync.Lock()
    lock.acquire()
    return lock


def test_a_raw_message_of_other_types_is_refused() -> None:
    wrong: list[dict[str, Any]] = [
        {"body": "text"},
        {"body": b"", "origin": -1},
        {"body": b"", "origin": 1 << 64},
        {"body": b"", "origin": 1, "number": 0},
        {"body": b"", "origin": 1, "number": 1 << 64},
    ]
    with RawBusSocket() as node, BusSocket() as peer:
        _joined(node._node, peer._node)
        for each in wrong:
            with pytest.raises((TypeError, ValueError)):
                node.send(RawMessage(**each))
        assert node.drain(0)
        assert node.stats.sent == 0


@clause("BP-16")
def test_the_origin_that_is_heard_most_is_not_forgotten() -> None:
    guard = LoopGuard(7)
    for number in range(1, 5000):
        guard.without_duplicates(MessageRun(1, number, [b""]))
        guard.without_duplicates(MessageRun(1000 + number, 1, [b""]))
    assert not guard.accepts(1, 4000)


def test_a_name_that_no_resolver_takes_is_an_error_of_the_dialler() -> None:
    with BusSocket() as node:
        dialler = node.dial(f"tcp://{'a' * 64}.example:80")
        _eventually(lambda: dialler.error)


def test_a_device_forwards_many_messages_of_a_plain_peer(tmp_path: Path) -> None:
    config = SocketConfig(message_bytes=1 << 14)
    urls = [fresh_url("ipc", tmp_path) for _ in range(2)]
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


def test_no_group_is_lost_when_its_socket_closes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = BusSocket()
    add_pipe = Node.add_pipe

    def closed_meanwhile(self: Node, *args: Any) -> Any:
        pipe = add_pipe(self, *args)
        closing = _sync.Thread(target=self.close)
        closing.start()
        _sync.join(closing, 0.05)
        return pipe

    monkeypatch.setattr(Node, "add_pipe", closed_meanwhile)
    node.join("udp-mcast://239.255.1.1:9999", source="127.0.0.1")
    _eventually(lambda: not node._node.peers)
    assert node.stats.peers == ()


def test_a_pair_with_a_short_queue_sends_after_an_interrupt() -> None:
    def case(struck: Blow) -> None:
        first, second = PairSocket(SocketConfig(send_messages=1)), PairSocket()
        with first, second:
            _joined(first._node, second._node)
            struck(lambda: first.send(b"1", 0))
            first.send(b"2", 0)
            assert _all_of(second._node)[-1] == b"2"

    everywhere(case, packages=[bus])


def test_a_queue_counts_its_messages_again_after_an_exception() -> None:
    queue: FairQueue[str] = FairQueue(9, 99)
    queue.offer("a", MessageRun(1, 1, [b"1"]))
    queue._shares["a"].count = 5  # as an interrupt within a call leaves it
    queue.repair()
    assert queue.take() == ("a", MessageRun(1, 1, [b"1"]))
    assert not queue
