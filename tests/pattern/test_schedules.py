"""Nodes within a process, under every schedule up to a bound: nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern.device import Device
from bus.pattern.drop_reason import DropReason
from queuebroker import _sync
from queuebroker.errors import BrokerClosedError, SendTimeoutError
from specs.clauses import clause
from tests.pattern.inproc_pairs import bus_node, join, receive_all, under_schedules

if TYPE_CHECKING:
    from bus.pattern.node import Node
    from queuebroker.testing import Run


def _take(node: Node, count: int) -> list[bytes]:
    return [node.receive(None) for _ in range(count)]


@clause("BP-1", "BP-19")
def test_messages_of_two_threads_arrive_in_the_order_of_each() -> None:
    def program(run: Run) -> None:
        sender, receiver = bus_node(), bus_node()
        join(sender, receiver)

        def sends(*bodies: bytes) -> None:
            for body in bodies:
                sender.send(body)

        run.spawn(sends, b"a1", b"a2")
        run.spawn(sends, b"b1", b"b2")
        received = _take(receiver, 4)
        run.join()

        assert sorted(received) == [b"a1", b"a2", b"b1", b"b2"]
        assert received.index(b"a1") < received.index(b"a2")
        assert received.index(b"b1") < received.index(b"b2")

    under_schedules(program)


@clause("BP-1", "BP-4")
def test_two_nodes_that_send_to_each_other_never_block() -> None:
    def program(run: Run) -> None:
        nodes = [bus_node(), bus_node()]
        join(*nodes)
        other = run.spawn(nodes[1].send, b"1")
        nodes[0].send(b"0")
        taking = run.spawn(_take, nodes[1], 1)
        assert _take(nodes[0], 1) == [b"1"]
        taking.join()
        other.join()
        assert taking.result == [b"0"]

    under_schedules(program)


@clause("BP-6")
def test_a_receiver_that_blocks_gets_all_messages() -> None:
    def program(run: Run) -> None:
        sender = bus_node()
        receiver = bus_node(receive_messages=1, receive_overflow="block")
        join(sender, receiver)

        def sends() -> None:
            for number in range(3):
                sender.send(b"%d" % number)

        run.spawn(sends)
        assert _take(receiver, 3) == [b"0", b"1", b"2"]
        run.join()

    under_schedules(program)


@clause("BP-6")
def test_a_pair_that_waits_for_room_is_woken() -> None:
    def program(run: Run) -> None:
        sender = bus_node(send_messages=1, pipes_max=1)
        receiver = bus_node(receive_messages=1, receive_overflow="block", pipes_max=1)
        join(sender, receiver)

        def sends() -> None:
            for number in range(4):
                sender.send_waiting(b"%d" % number, None)

        run.spawn(sends)
        assert _take(receiver, 4) == [b"0", b"1", b"2", b"3"]
        run.join()

    under_schedules(program)


def test_a_pair_that_waits_for_its_peer_is_woken() -> None:
    def program(run: Run) -> None:
        sender, receiver = bus_node(pipes_max=1), bus_node(pipes_max=1)
        run.spawn(sender.send_waiting, b"x", None)
        joining = run.spawn(join, sender, receiver)
        assert _take(receiver, 1) == [b"x"]
        joining.join()
        run.join()

    under_schedules(program)


@clause("BP-4", "BP-17")
def test_each_message_to_a_node_that_closes_is_taken_or_counted() -> None:
    def program(run: Run) -> None:
        sender, receiver = bus_node(), bus_node()
        join(sender, receiver)
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

    under_schedules(program)


def test_a_call_that_drains_is_woken() -> None:
    def program(run: Run) -> None:
        sender = bus_node()
        receiver = bus_node(receive_messages=1, receive_overflow="block")
        join(sender, receiver)
        for number in range(3):
            sender.send(b"%d" % number)
        draining = run.spawn(sender.drain, None)
        assert _take(receiver, 3) == [b"0", b"1", b"2"]
        draining.join()
        assert draining.result is True

    under_schedules(program)


@clause("BP-4")
def test_a_call_that_drains_waits_for_a_message_in_the_hands_of_another() -> None:
    def program(run: Run) -> None:
        sender, receiver = bus_node(), bus_node()
        join(sender, receiver)
        sending = run.spawn(sender.send, b"0")
        sender.send(b"1")
        assert sender.drain(None)
        assert b"1" in receive_all(receiver)
        sending.join()

    under_schedules(program)


@pytest.mark.deep
@clause("BP-11", "BP-14")
def test_a_device_forwards_and_ends() -> None:
    def program(run: Run) -> None:
        hub = bus_node()
        leaves = [bus_node(), bus_node()]
        for leaf in leaves:
            join(leaf, hub)
        device = Device([hub])
        leaves[0].send(b"x")
        assert _take(leaves[1], 1) == [b"x"]
        closing = run.spawn(device.close)
        assert device.wait(None)
        closing.join()
        assert device.error is None
        assert not leaves[0].stats().peers

    under_schedules(program)


def test_a_send_succeeds_in_time_or_raises() -> None:
    """The deadline passes when the queue gets room."""

    def program(run: Run) -> None:
        sender = bus_node(send_messages=1, pipes_max=1)
        receiver = bus_node(receive_messages=1, receive_overflow="block", pipes_max=1)
        join(sender, receiver)
        sender.send_waiting(b"0", None)
        sender.send_waiting(b"1", None)

        def sends() -> bool:
            try:
                sender.send_waiting(b"2", _sync.monotonic() + 1.0)
            except SendTimeoutError:
                return False
            return True

        sending = run.spawn(sends)
        received = _take(receiver, 2)
        sending.join()
        if sending.result:
            received += _take(receiver, 1)
        assert received == [b"0", b"1", b"2"][: len(received)]
        assert sender.stats().sent == len(received)

    under_schedules(program)


def test_a_drain_during_a_join_is_woken() -> None:
    def program(run: Run) -> None:
        sender, receiver = bus_node(), bus_node()
        joining = run.spawn(join, sender, receiver)
        sender.send(b"x")
        assert sender.drain(None)
        joining.join()

    under_schedules(program)


def test_no_connection_outlives_a_node_that_closes_while_it_is_made() -> None:
    def program(run: Run) -> None:
        first, second = bus_node(), bus_node()
        closing = run.spawn(first.close)
        joined = join(first, second)
        closing.join()
        assert second.peers == 0, joined

    under_schedules(program)
