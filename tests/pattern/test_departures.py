"""`Departures`: callers that wait to send, and the calls that wake them.

The tests of messages in quick succession are in test_batches.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern.inproc import InprocConnection
from bus.pattern.node import Node
from bus.pattern.socket_config import SocketConfig
from bus.pattern.wire import EndpointType
from specs.clauses import clause
from tests.support import Threads, until

if TYPE_CHECKING:
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
        until(lambda: len(sender.departures.senders) == 1, "it waits")
        ends[0].queue.blocked = False

        with pytest.raises(SystemExit):
            sender.departures.pass_on()

        waiting.result()
    assert [drop.count for drop in dropped] == [1, 1]
    sender.close()
    receiver.close()
