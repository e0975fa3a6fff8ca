"""After an interrupt anywhere in a call, no later message is lost."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

import bus
import queuebroker
from bus.pattern import BusSocket, DropReason, PairSocket, SocketConfig, aio
from bus.pattern.message_run import MessageRun
from bus.pattern.node import Node
from bus.pattern.pipe import Pipe
from bus.pattern.send_queue import SendQueue
from bus.pattern.wire import EndpointType
from queuebroker import _sync
from specs.clauses import clause
from tests.pattern.inproc_pairs import bus_node, connect, join, receive_all
from tests.pattern.nodes import LIMIT_S, fresh_url, is_readable
from tests.strikes import everywhere
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.strikes import Blow


def follow_quickly(sender: Node) -> None:
    """Let the next message be one of many: it waits in the batch."""
    quick_sends = sender.outbound._quick_sends
    quick_sends._sent_at, quick_sends.in_a_row = 1e18, 64


def test_an_interrupted_flush_leaves_its_lock_free() -> None:
    def case(struck: Blow) -> None:
        queue: SendQueue[bytes]
        written: list[bytes] = []

        def write() -> bool:
            while (frame := queue.take()) is not None:
                written.append(frame)
            return True

        queue = SendQueue(9, 99, write)
        queue.put(MessageRun(1, 1, [b"x"]), lambda run: run.bodies[0])
        struck(queue.flush)

        assert not queue._flush.locked()
        queue.put(MessageRun(1, 2, [b"y"]), lambda run: run.bodies[0])
        queue.flush()
        assert written[-1] == b"y"
        assert len(queue) == queue.size == 0, "frames of no message"

    everywhere(case, packages=[bus, queuebroker])


@clause("BP-18")
def test_an_interrupted_receive_loses_no_later_message() -> None:
    def case(struck: Blow) -> None:
        nodes = [bus_node(), bus_node(), bus_node()]
        for sender in nodes[1:]:
            join(sender, nodes[0])
            sender.send(b"1")
            sender.send(b"2")
        struck(lambda: nodes[0].receive(0))
        for sender in nodes[1:]:
            sender.send(b"3")

        received = receive_all(nodes[0])
        assert received.count(b"3") == 2, received
        assert not len(nodes[0].inbound)
        assert nodes[0].inbound.has_next() is False

    everywhere(case, packages=[bus])


def test_an_interrupted_send_within_a_process_loses_no_later_message() -> None:
    def case(struck: Blow) -> None:
        sender, receiver = bus_node(), bus_node()
        join(sender, receiver)
        struck(lambda: sender.send(b"1"))
        sender.send(b"2")

        assert receive_all(receiver)[-1] == b"2"
        assert sender.drain(0)

    everywhere(case, packages=[bus])


def test_a_pair_with_a_short_queue_sends_after_an_interrupt() -> None:
    def case(struck: Blow) -> None:
        first, second = PairSocket(SocketConfig(send_messages=1)), PairSocket()
        with first, second:
            connect(first, second)
            struck(lambda: first.send(b"1", 0))
            first.send(b"2", 0)
            assert receive_all(second._node)[-1] == b"2"

    everywhere(case, packages=[bus])


@pytest.mark.deep
@clause("BP-6")
def test_a_coroutine_with_a_short_queue_sends_after_an_interrupt() -> None:
    def case(struck: Blow) -> None:
        first, second = PairSocket(SocketConfig(send_messages=1)), PairSocket()
        with first, second:
            connect(first, second)
            struck(lambda: first.send(b"1", 0))
            asyncio.run(_send(first, b"2"))
            assert receive_all(second._node)[-1] == b"2"

    everywhere(case, packages=[bus])


async def _send(socket: PairSocket, body: bytes) -> None:
    await aio.wrap(socket).send(body, 0)


@pytest.mark.deep
@clause("BP-4")
@pytest.mark.parametrize("room", [9, 2])
def test_an_interrupted_hand_over_costs_no_peer_a_message_of_the_batch(
    room: int,
) -> None:
    """The calls that sent these messages have returned before."""

    def case(struck: Blow) -> None:
        sender = bus_node(send_messages=room)
        plain = Node(SocketConfig(), EndpointType.BUS)
        receivers = [bus_node(), plain, bus_node()]
        for each in receivers:
            join(sender, each)
        sender.pipes.flush_soon = lambda *_: None
        for body in (b"1", b"2", b"3"):
            follow_quickly(sender)
            sender.send(body)
        struck(sender.outbound.hand_over_batch_locked)
        sender.outbound.flush()

        arrived = [b"1", b"2", b"3"][:room]
        assert [receive_all(each) for each in receivers] == [arrived] * 3
        lost = {DropReason.SEND_QUEUE: 1} if room == 2 else {}
        for peer in sender.stats().peers:
            assert (peer.sent, peer.queued, peer.dropped) == (3, 0, lost)

    everywhere(case, packages=[bus])


@pytest.mark.deep
@clause("BP-4", "BP-16")
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("kind", ["gathers", "sends at once", "reads the account"])
def test_a_signal_handler_costs_no_peer_a_message_of_the_batch(
    kind: str, *, raises: bool
) -> None:
    """Nor a later one, nor does a peer of another library get one twice."""

    def case(struck: Blow) -> None:
        sender = bus_node()
        receivers = [bus_node(), Node(SocketConfig(), EndpointType.BUS), bus_node()]
        for each in receivers:
            join(sender, each)
        sender.pipes.flush_soon = lambda *_: None
        sent = [b"1", b"2"]
        for body in sent:
            follow_quickly(sender)
            sender.send(body)

        def handler() -> None:
            if kind == "reads the account":  # which hands over the batch
                sender.stats()
            else:
                follow_quickly(sender)
                if kind != "gathers":
                    sender.outbound._quick_sends._sent_at = 0.0
                sender.send(b"handler")
                sent.append(b"handler")
            if raises:
                raise KeyboardInterrupt

        struck(sender.outbound.hand_over_batch_locked, handler)
        follow_quickly(sender)
        sender.send(b"3")
        sender.outbound.flush()

        arrived = sorted([*sent, b"3"])
        assert [sorted(receive_all(each)) for each in receivers] == [arrived] * 3
        for peer in sender.stats().peers:
            assert (peer.sent, peer.queued, peer.dropped) == (len(arrived), 0, {})

    everywhere(case, packages=[bus])


def test_a_batch_is_flushed_after_an_interrupt() -> None:
    def case(struck: Blow) -> None:
        sender, receiver = bus_node(), bus_node()
        join(sender, receiver)
        flushes: list[Callable[[], object]] = []
        sender.pipes.flush_soon = lambda flush, _delay_s=0.0: flushes.append(flush)
        follow_quickly(sender)
        struck(lambda: sender.send(b"1"))
        follow_quickly(sender)
        sender.send(b"2")
        for flush in flushes:
            flush()

        assert receive_all(receiver)[-1:] == [b"2"]

    everywhere(case, packages=[bus])


@pytest.mark.deep
@clause("BP-4")
def test_a_drain_ends_after_an_interrupted_send_to_a_native_peer(
    tmp_path: Path,
) -> None:
    def case(struck: Blow) -> None:
        url = fresh_url("local", tmp_path)
        with BusSocket() as receiver, BusSocket() as sender:
            receiver.listen(url)
            sender.dial(url)
            assert sender.wait_for_peers(1, LIMIT_S)
            struck(lambda: sender.send(b"1"))
            sender.send(b"2")
            assert sender.drain(LIMIT_S)

    everywhere(case, packages=[bus])


@clause("BP-4")
def test_an_account_is_sent_after_an_interrupt() -> None:
    reports: list[bool] = []

    class Carrier:
        def report(self) -> None:
            reports.append(True)
            if len(reports) == 1:
                raise KeyboardInterrupt

    carrier: Any = Carrier()
    pipe = Pipe(carrier, "test://", 1)
    with pytest.raises(KeyboardInterrupt):
        pipe.report_soon_locked()
    pipe.report_soon_locked()
    assert len(reports) == 2


def test_an_interrupted_receive_resumes_a_peer_that_was_held_back() -> None:
    def case(struck: Blow) -> None:
        sender = bus_node()
        receiver = bus_node(receive_messages=1, receive_overflow="block")
        join(sender, receiver)
        sender.send(b"1")
        sender.send(b"2")
        sender.send(b"3")
        struck(lambda: receiver.receive(0))
        sender.send(b"4")

        assert receive_all(receiver)[-1] == b"4"

    everywhere(case, packages=[bus])


def test_a_descriptor_is_right_after_an_interrupted_receive() -> None:
    def case(struck: Blow) -> None:
        with BusSocket() as sender, BusSocket() as receiver:
            connect(sender, receiver)
            descriptor = receiver.fileno()
            sender.send(b"1")
            sender.send(b"2")
            receiver.receive(0)
            struck(lambda: receiver.receive(0))
            receive_all(receiver._node)
            assert not is_readable(descriptor)

    everywhere(case, packages=[bus])


@pytest.mark.deep
def test_an_interrupted_close_is_completed_by_the_next_one(tmp_path: Path) -> None:
    def case(struck: Blow) -> None:
        url = fresh_url("ipc", tmp_path)
        with BusSocket() as receiver, BusSocket() as sender:
            receiver.listen(url)
            sender.dial(url)
            connect(sender, receiver)
            struck(receiver.close)
            receiver.close()
            assert not os.path.exists(url.removeprefix("ipc://"))
            assert not receiver._node.peers
            until(lambda: not receiver._node._closers, "the driver has closed all")

    everywhere(case, packages=[bus])


@clause("BP-16")
def test_a_signal_handler_that_sends_takes_no_number_of_another_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender, receiver = bus_node(), bus_node()
    join(sender, receiver)
    sender.pipes.flush_soon = lambda *_: None
    handling: list[bool] = []

    def interrupted() -> float:
        if not handling:
            handling.append(True)
            sender.send(b"handler")
        return 1.0

    monkeypatch.setattr(_sync, "monotonic", interrupted)
    sender.send(b"1")
    sender.send(b"2")
    sender.outbound.flush()
    monkeypatch.undo()
    assert sorted(receive_all(receiver)) == [b"1", b"2", b"handler"]


@clause("BP-1")
def test_an_interrupted_connect_leaves_both_nodes_or_none_with_a_peer() -> None:
    def case(interrupted: Blow) -> None:
        one, other = bus_node(), bus_node()
        interrupted(lambda: join(one, other))

        assert one.peers == other.peers
        for sender, receiver in ((one, other), (other, one)):
            sender.send(b"x")
            assert receive_all(receiver) == [b"x"] * sender.peers

    everywhere(case, packages=[bus])
