"""`Pipe`: the ids of connections, and its account."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from bus.pattern import pipe as module
from bus.pattern.drop_reason import DropReason
from bus.pattern.message_run import MessageRun
from bus.pattern.pipe import Pipe, new_node_id
from bus.pattern.send_queue import SendQueue
from specs.clauses import clause

if TYPE_CHECKING:
    import pytest


class Idle:
    """A `Carrier` that carries nothing."""

    is_idle = False
    flush_soon = None

    def __init__(self) -> None:
        self.queue = SendQueue[MessageRun](3, 3, bool)
        self.queue.put(MessageRun(1, 1, [b"1", b"2", b"3"]), lambda run: run)

    def put(self, run: MessageRun) -> int:
        return 0

    def report(self) -> None: ...

    def ask(self) -> None: ...

    def refresh(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


def pipe(node: int | None = None) -> Pipe:
    return Pipe(Idle(), "test://", node)


@clause("BP-10")
def test_ids_have_31_bits_and_differ_in_the_whole_process() -> None:
    ids = [pipe(node).id for node in (None, 1, 2) for _ in range(100)]

    assert len({*ids}) == 300
    assert all(0 < each < 1 << 31 for each in ids)


@clause("BP-10")
def test_no_id_is_0_when_all_were_used(monkeypatch: pytest.MonkeyPatch) -> None:
    greatest = (1 << 31) - 1
    monkeypatch.setattr(module, "_ids", itertools.count(greatest - 1))

    assert [pipe().id for _ in range(4)] == [greatest - 1, greatest, 1, 2]


@clause("BP-16")
def test_each_peer_of_another_library_is_an_origin_of_its_own() -> None:
    first, second, native = pipe(), pipe(), pipe(9)

    assert 0 < first.origin != second.origin > 0
    assert (first.node, native.node, native.origin) == (None, 9, 9)
    assert all(0 < new_node_id() < 1 << 64 for _ in range(100))


@clause("BP-4")
def test_the_account_of_a_pipe_is_a_copy() -> None:
    counted = pipe(9)
    counted.sent = 5
    counted.dropped[DropReason.SEND_QUEUE] += 2

    counted.delivered = 4
    stats = counted.stats(delivered=3)
    counted.dropped[DropReason.SEND_QUEUE] += 1

    assert (stats.pipe, stats.url, stats.node) == (counted.id, "test://", 9)
    assert (stats.sent, stats.queued) == (5, 3)
    assert stats.is_native
    assert stats.delivered == 3  # the application has not taken the last one yet
    assert stats.dropped == {DropReason.SEND_QUEUE: 2}
    assert stats.remote_sent is None
    assert stats.remote_taken is None
