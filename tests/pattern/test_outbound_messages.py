"""`OutboundMessages`: callers that wait to send, and the calls that wake them.

The tests of messages in quick succession are in test_batches.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.pattern.inproc import InprocConnection
from bus.pattern.node import Node
from bus.pattern.socket_config import SocketConfig
from bus.pattern.wire import EndpointType
from specs.clauses import clause
from tests.pattern.inproc_pairs import bus_node, join, receive_all
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.pattern.drop_ledger import Drop


@clause("BP-4", "BP-6")
def test_an_exit_within_on_drop_of_the_other_node_wakes_callers_that_wait() -> None:
    dropped: list[Drop] = []

    def leave_once(drop: Drop) -> None:
        dropped.append(drop)
        if len(dropped) == 1:
            raise SystemExit

    full = SocketConfig(receive_messages=1, receive_overflow="drop")
    sender = Node(SocketConfig(send_messages=1), EndpointType.PAIR0, pipes_max=1)
    receiver = Node(full, EndpointType.PAIR0, on_drop=leave_once)
    ends = [InprocConnection(node, lambda: None) for node in (sender, receiver)]
    assert ends[0].join(ends[1], "inproc://test")
    sender.send_waiting(b"it fills the queue of the receiver", None)
    ends[0].queue.blocked = True
    sender.send_waiting(b"it fills the queue of the sender", None)
    with Threads() as threads:
        waiting = threads.start(sender.send_waiting, b"it waits for room", None)
        until(lambda: len(sender.outbound.senders) == 1, "it waits")
        ends[0].queue.blocked = False

        with pytest.raises(SystemExit):
            sender.outbound.pass_on()

        waiting.result()
    assert [drop.count for drop in dropped] == [1, 1]
    sender.close()
    receiver.close()


def _node(*, on_drop: Callable[[Drop], object], **limits: Any) -> Node:
    return Node(SocketConfig(**limits), EndpointType.BUS, on_drop=on_drop)


def _leave(_: Drop) -> None:
    raise SystemExit


@clause("BP-4")
def test_an_exit_within_on_drop_of_a_peer_costs_no_other_peer_a_message() -> None:
    sender, other = bus_node(), bus_node()
    join(sender, _node(on_drop=_leave, receive_messages=1))
    join(sender, other)
    sender.send(b"1")
    with pytest.raises(SystemExit):
        sender.send(b"2")

    assert receive_all(other) == [b"1", b"2"]


@clause("BP-4")
def test_an_exit_within_on_drop_leaves_no_message_of_another_thread() -> None:
    sender = bus_node()

    def send_and_leave(_: Drop) -> None:
        if dropped:
            return
        dropped.append(True)
        with Threads() as threads:  # it finds a thread that flushes, and leaves it that
            threads.start(sender.send, b"3").result()
        assert receive_all(receiver) == [b"1"]
        raise SystemExit

    dropped: list[bool] = []
    receiver = _node(on_drop=send_and_leave, receive_messages=1)
    join(sender, receiver)
    sender.send(b"1")
    with pytest.raises(SystemExit):
        sender.send(b"2")

    assert receive_all(receiver) == [b"3"]


@clause("BP-6")
def test_an_exit_within_on_drop_at_a_resume_wakes_callers_that_wait() -> None:
    limits = {"receive_messages": 1, "receive_overflow": "block", "repeat_s": 1e6}
    sender = Node(SocketConfig(send_messages=1), EndpointType.PAIR0, pipes_max=1)
    receiver = _node(on_drop=_leave, **limits)
    join(sender, receiver)
    sender.send_waiting(b"1", None)
    sender.send_waiting(b"1", None)  # it waits for room, and then is a repeat
    with Threads() as threads:
        waiting = threads.start(sender.send_waiting, b"2", None)
        until(lambda: len(sender.outbound.senders) == 1, "it waits")
        with pytest.raises(SystemExit):
            receiver.receive(0)
        waiting.result()
    assert receive_all(receiver) == [b"2"]
    sender.close()
    receiver.close()
