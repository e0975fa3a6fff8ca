"""Nodes within a process, under every schedule up to a bound: nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.pattern.device import Device
from bus.pattern.drop_reason import DropReason
from bus.pattern.inproc import InprocConnection
from bus.pattern.node import Node
from bus.pattern.socket_config import SocketConfig
from bus.pattern.wire import EndpointType
from queuebroker import _sync
from queuebroker.errors import BrokerClosedError, SendTimeoutError
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def _node(**limits: Any) -> Node:
    pipes_max = limits.pop("pipes_max", None)
    config = SocketConfig(**limits)
    return Node(config, EndpointType.BUS, EndpointType.NATIVE_BUS, pipes_max=pipes_max)


def _join(first: Node, second: Node) -> None:
    ends = [InprocConnection(node, lambda: None) for node in (first, second)]
    assert ends[0].join(ends[1], "inproc://x")


def _take(node: Node, count: int) -> list[bytes]:
    return [node.receive(None) for _ in range(count)]


def _under_schedules(program: Callable[[Run], None]) -> None:
    explore(program, bound=2, limit=schedules(4000), random=schedules(300), seed=1)


@clause("BP-1", "BP-19")
def test_messages_of_two_threads_arrive_in_the_order_of_each() -> None:
    def program(run: Run) -> None:
        sender, receiver = _node(), _node()
        _join(sender, receiver)

        def sends(*bodies: bytes) -> None:
            for body in bodies:
                sender.send(body)

        run.spawn(sends, b"a1", b"a2")
        run.spawn(sends, b"b1", b"b2")
        came = _take(receiver, 4)
        run.join()

        assert sorted(came) == [b"a1", b"a2", b"b1", b"b2"]
        assert came.index(b"a1") < came.index(b"a2")
        assert came.index(b"b1") < came.index(b"b2")

    _under_schedules(program)


@clause("BP-1", "BP-4")
def test_two_nodes_that_send_to_each_other_never_block() -> None:
    def program(run: Run) -> None:
        nodes = [_node(), _node()]
        _join(*nodes)
        other = run.spawn(nodes[1].send, b"1")
        nodes[0].send(b"0")
        taking = run.spawn(_take, nodes[1], 1)
        assert _take(nodes[0], 1) == [b"1"]
        taking.join()
        other.join()
        assert taking.result == [b"0"]

    _under_schedules(program)


@clause("BP-6")
def test_a_receiver_that_blocks_gets_all_messages() -> None:
    def program(run: Run) -> None:
        sender = _node()
        receiver = _node(receive_messages=1, receive_overflow="block")
        _join(sender, receiver)

        def sends() -> None:
            for number in range(3):
                sender.send(b"%d" % number)

        run.spawn(sends)
        assert _take(receiver, 3) == [b"0", b"1", b"2"]
        run.join()

    _under_schedules(program)


@clause("BP-6")
def test_a_pair_that_waits_for_room_is_woken() -> None:
    def program(run: Run) -> None:
        sender = _node(send_messages=1, pipes_max=1)
        receiver = _node(receive_messages=1, receive_overflow="block", pipes_max=1)
        _join(sender, receiver)

        def sends() -> None:
            for number in range(4):
                sender.send_waiting(b"%d" % number, None)

        run.spawn(sends)
        assert _take(receiver, 4) == [b"0", b"1", b"2", b"3"]
        run.join()

    _under_schedules(program)


def test_a_pair_that_waits_for_its_peer_is_woken() -> None:
    def program(run: Run) -> None:
        sender, receiver = _node(pipes_max=1), _node(pipes_max=1)
        run.spawn(sender.send_waiting, b"x", None)
        joining = run.spawn(_join, sender, receiver)
        assert _take(receiver, 1) == [b"x"]
        joining.join()
        run.join()

    _under_schedules(program)


@clause("BP-4", "BP-17")
def test_each_message_to_a_node_that_closes_is_taken_or_counted() -> None:
    def program(run: Run) -> None:
        sender, receiver = _node(), _node()
        _join(sender, receiver)
        taken: list[bytes] = []

        def takes() -> None:
            try:
                while True:
                    taken.append(receiver.receive(None))
            except BrokerClosedError:
                pass

        def sends() -> None:
            sender.send(b"1")
            sender.send(b"2")

        run.spawn(takes)
        run.spawn(sends)
        receiver.close()
        run.join()

        assert taken == [b"1", b"2"][: len(taken)]
        mine, theirs = sender.stats(), receiver.stats()
        lost = sum(mine.dropped.values()) + sum(theirs.dropped.values())
        assert set(mine.dropped) <= {DropReason.NO_PEER, DropReason.LOST}
        assert set(theirs.dropped) <= {DropReason.CLOSED}
        assert theirs.delivered == len(taken)
        assert len(taken) + lost == 2

    _under_schedules(program)


def test_a_call_that_drains_is_woken() -> None:
    def program(run: Run) -> None:
        sender = _node()
        receiver = _node(receive_messages=1, receive_overflow="block")
        _join(sender, receiver)
        for number in range(3):
            sender.send(b"%d" % number)
        draining = run.spawn(sender.drain, None)
        assert _take(receiver, 3) == [b"0", b"1", b"2"]
        draining.join()
        assert draining.result is True

    _under_schedules(program)


@clause("BP-11", "BP-14")
def test_a_device_forwards_and_ends() -> None:
    def program(run: Run) -> None:
        hub = _node()
        leaves = [_node(), _node()]
        for leaf in leaves:
            _join(leaf, hub)
        device = Device([hub])
        leaves[0].send(b"x")
        assert _take(leaves[1], 1) == [b"x"]
        closing = run.spawn(device.close)
        assert device.wait(None)
        closing.join()
        assert device.error is None
        assert not leaves[0].stats().peers

    _under_schedules(program)


def test_a_send_in_time_or_an_error_that_says_so() -> None:
    """The deadline and the room come at the same moment."""

    def program(run: Run) -> None:
        sender = _node(send_messages=1, pipes_max=1)
        receiver = _node(receive_messages=1, receive_overflow="block", pipes_max=1)
        _join(sender, receiver)
        sender.send_waiting(b"0", None)
        sender.send_waiting(b"1", None)

        def sends() -> bool:
            try:
                sender.send_waiting(b"2", _sync.monotonic() + 1.0)
            except SendTimeoutError:
                return False
            return True

        sending = run.spawn(sends)
        came = _take(receiver, 2)
        sending.join()
        if sending.result:
            came += _take(receiver, 1)
        assert came == [b"0", b"1", b"2"][: len(came)]
        assert sender.stats().sent == len(came)

    _under_schedules(program)
