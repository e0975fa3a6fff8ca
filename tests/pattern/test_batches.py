"""Messages that are sent in quick succession travel together, and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern.message_run import MessageRun
from bus.pattern.node import Node
from bus.pattern.send_queue import SendQueue
from bus.pattern.socket_config import SocketConfig
from bus.pattern.wire import EndpointType
from queuebroker import _sync
from queuebroker.sockets import quick_sends
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.pattern.pipe import Pipe
    from queuebroker.sockets.quick_sends import FlushSoon


class _Carrier:
    """A `Carrier` that takes everything, and records it."""

    is_idle = True
    flush_soon: FlushSoon | None

    def __init__(self, node: Node, number: int) -> None:
        self.queue = SendQueue[MessageRun](1000, 1 << 20, self._write)
        self.runs: list[list[bytes]] = []
        self.numbers: list[int] = []
        self.flushes: list[Callable[[], object]] = []
        self.flush_soon = self._flush_soon
        self.flushed = 0
        pipe = node.add_pipe(self, f"test://{number}", number)
        assert pipe is not None
        self.pipe: Pipe = pipe

    def put(self, run: MessageRun) -> int:
        self.runs.append([*run.bodies])
        self.numbers += range(run.first, run.first + len(run.bodies))
        return self.queue.put(run, lambda each: each)

    def _flush_soon(self, flush: Callable[[], object], _delay_s: float = 0.0) -> None:
        self.flushes.append(flush)

    def _write(self) -> bool:
        self.flushed += 1
        self.queue.discard()
        return True

    def report(self) -> None:
        pass

    ask = refresh = resume = close = report


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node for which no time passes: every message but the first is in a batch."""
    monkeypatch.setattr(_sync, "monotonic", lambda: 100.0)
    monkeypatch.setattr(quick_sends, "_IN_A_ROW_MIN", 0)
    return Node(SocketConfig(), EndpointType.BUS, EndpointType.NATIVE_BUS)


def _many(node: Node, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        node.send(b"%d" % number)


@clause("BP-1", "BP-19")
def test_the_first_message_is_sent_at_once_and_the_next_ones_together(
    node: Node,
) -> None:
    first, second = _Carrier(node, 1), _Carrier(node, 2)
    _many(node, 5)
    assert first.runs == [[b"0"]]
    assert first.flushed == 1
    [flush] = first.flushes + second.flushes
    flush()
    for each in (first, second):
        assert each.runs == [[b"0"], [b"1", b"2", b"3", b"4"]]
        assert each.numbers == [1, 2, 3, 4, 5]
        assert each.flushed == 2
    flush()
    assert len(first.runs) == 2


@clause("BP-1", "BP-19")
def test_a_long_batch_is_sent_without_a_flush(node: Node) -> None:
    carrier = _Carrier(node, 1)
    _many(node, 1 + 256 + 3)
    assert [len(run) for run in carrier.runs] == [1, 256]
    assert carrier.flushed == 2
    node.send(bytes(40_000))
    node.send(bytes(40_000))
    assert [len(run) for run in carrier.runs] == [1, 256, 5]
    assert carrier.numbers == [*range(1, 263)]


@clause("BP-19")
def test_a_long_message_follows_the_batch_before_it(node: Node) -> None:
    carrier = _Carrier(node, 1)
    _many(node, 3)
    node.send(bytes(1 << 16))
    assert carrier.runs == [[b"0"], [b"1", b"2"], [bytes(1 << 16)]]
    assert carrier.numbers == [1, 2, 3, 4]


@clause("BP-19")
def test_a_forwarded_message_follows_the_batch_before_it(node: Node) -> None:
    carrier = _Carrier(node, 1)
    _many(node, 3)
    node.forward(MessageRun(9, 5, [b"theirs"]), came_by=0)
    node.forward(MessageRun(0, 0, [b"own"]), came_by=0)
    assert carrier.runs == [[b"0"], [b"1", b"2"], [b"theirs"], [b"own"]]
    assert carrier.numbers == [1, 2, 3, 5, 4]


@clause("BP-17")
def test_a_batch_goes_to_the_peers_that_are_connected_when_it_is_sent(
    node: Node,
) -> None:
    early = _Carrier(node, 1)
    _many(node, 3)
    late = _Carrier(node, 2)
    assert early.runs == [[b"0"], [b"1", b"2"]]
    assert not late.runs
    _many(node, 2, 3)
    node.remove_pipe(early.pipe)
    for each in (early, late):
        assert each.runs[-1] == [b"3", b"4"]
    assert early.pipe.sent == 5
    assert late.pipe.sent == 2


@pytest.mark.parametrize("look", ["stats", "drain", "close"])
def test_a_batch_is_handed_over_before_the_account_and_the_end(
    node: Node, look: str
) -> None:
    carrier = _Carrier(node, 1)
    _many(node, 3)
    if look == "drain":
        node.drain(0.0)
    else:
        getattr(node, look)()
    assert carrier.runs == [[b"0"], [b"1", b"2"]]
    assert carrier.pipe.sent == 3


def test_a_peer_that_does_not_gather_gets_each_message_at_once(node: Node) -> None:
    carrier, other = _Carrier(node, 1), _Carrier(node, 2)
    other.flush_soon = None
    node.remove_pipe(carrier.pipe)
    _many(node, 3)
    assert other.runs == [[b"0"], [b"1"], [b"2"]]
    assert not other.flushes
