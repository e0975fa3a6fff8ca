"""`DropLedger`: each drop is counted, and reported once, whatever `on_drop` does."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from bus.pattern import BusSocket, Drop, DropReason, SocketConfig
from bus.pattern.drop_ledger import DropLedger
from bus.pattern.node import Node
from bus.pattern.wire import EndpointType
from queuebroker import _sync
from specs.clauses import clause
from tests.pattern.inproc_pairs import join

if TYPE_CHECKING:
    from types import FrameType


@clause("BP-4", "BP-5")
def test_a_callback_that_sends_without_a_peer_does_not_call_itself() -> None:
    """The limit of recursions of Python is far lower."""
    depth, depths, threads, reported = 0, set(), set(), 0

    def send_again(drop: Drop) -> None:
        nonlocal depth, reported
        depth += 1
        depths.add(depth)
        threads.add(threading.get_ident())
        reported += drop.count
        assert drop.reason is DropReason.NO_PEER
        if node.stats.sent < 5000:
            node.send(b"once more")
        depth -= 1

    with BusSocket(on_drop=send_again) as node:
        node.send(b"first")
        assert reported == 5000
        assert node.stats.dropped == {DropReason.NO_PEER: 5000}
    assert depths == {1}
    assert threads == {threading.get_ident()}


def _count(ledger: DropLedger, reason: DropReason, count: int) -> None:
    with ledger._lock:
        ledger.add_locked(None, reason, count)


@clause("BP-4")
def test_drops_within_a_callback_are_reported_after_it() -> None:
    calls: list[tuple[DropReason, int]] = []

    def on_drop(drop: Drop) -> None:
        calls.append((drop.reason, drop.count))
        if len(calls) == 1:
            for count in (2, 3):
                _count(ledger, DropReason.LOST, count)
                ledger.report()
            assert len(calls) == 1

    ledger = DropLedger(_sync.RLock(), on_drop)
    _count(ledger, DropReason.HOPS, 1)
    _count(ledger, DropReason.REPEAT, 1)
    ledger.report()
    assert calls == [
        (DropReason.HOPS, 1),
        (DropReason.REPEAT, 1),
        (DropReason.LOST, 5),
    ]


@clause("BP-4")
def test_another_thread_reports_while_a_callback_runs() -> None:
    calls: list[tuple[int, DropReason]] = []

    def report_elsewhere() -> None:
        _count(ledger, DropReason.LOST, 1)
        ledger.report()

    def on_drop(drop: Drop) -> None:
        calls.append((threading.get_ident(), drop.reason))
        if drop.reason is DropReason.HOPS:
            thread = threading.Thread(target=report_elsewhere)
            thread.start()
            thread.join()
            assert len(calls) == 2

    ledger = DropLedger(_sync.RLock(), on_drop)
    _count(ledger, DropReason.HOPS, 1)
    ledger.report()
    assert [reason for _, reason in calls] == [DropReason.HOPS, DropReason.LOST]
    assert calls[0][0] != calls[1][0]


@clause("BP-4")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_of_a_callback_costs_no_other_drop(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[DropReason] = []

    def on_drop(drop: Drop) -> None:
        calls.append(drop.reason)
        if len(calls) == 1:
            raise error

    ledger = DropLedger(_sync.RLock(), on_drop)
    _count(ledger, DropReason.HOPS, 1)
    _count(ledger, DropReason.LOST, 1)
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            ledger.report()
        ledger.report()
    else:
        ledger.report()
        assert "on_drop of a socket has raised an error" in caplog.text
    assert calls == [DropReason.HOPS, DropReason.LOST]


@clause("BP-4")
def test_no_python_code_runs_within_a_count() -> None:
    """A signal handler that drops a message there would have its drop forgotten."""
    node, peer = (
        Node(SocketConfig(), EndpointType.BUS, on_drop=lambda _: None) for _ in range(2)
    )
    join(node, peer)
    (pipe,) = node.pipes
    ledger = node.ledger
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    for reason in DropReason:
        for each in (None, pipe):
            del called[:]
            sys.setprofile(note)
            try:
                ledger.add_locked(each, reason)
            finally:
                sys.setprofile(None)
            assert called[0] == "DropLedger.add_locked"
            assert called[1:] == ([] if each is None else ["Pipe.report_soon_locked"])
    assert dict(ledger.totals) == dict.fromkeys(DropReason, 2)
    assert dict(pipe.dropped) == dict.fromkeys(DropReason, 1)
