"""QB-CONC-10: a signal handler makes a non-blocking call at every point of a call.

The handler runs at every point of every call (`tests.handlers`), on the same end as the
interrupted call; the results of both calls must match one of the two orders. Tests with
real signals are in `test_conc_signals`.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    BrokerClosedError,
    BrokerManager,
    DisconnectedQueueError,
    MessageQueue,
    Operation,
    QueueBroker,
    QueueBrokerError,
)
from queuebroker.lockfree.fast_queue import FastMessageQueue
from specs.clauses import clause
from tests import pairs
from tests.handlers import Interruption, everywhere_handled
from tests.spec.test_rdv_lists import check_lists
from tests.support import Threads, taken, ticking, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Channel

    Call = Callable[[MessageQueue, MessageQueue], object]
    ByteCall = Callable[[Channel, Channel], object]

CAPACITY = 2

# Messages go from left to right.
CALLS: dict[str, Call] = {
    "send": lambda left, right: left.send(b"m", timeout=0),
    "receive": lambda left, right: right.receive(timeout=0),
    "receive_into": lambda left, right: bytes(
        (buffer := bytearray(4))[: right.receive_into(buffer, timeout=0)]
    ),
    "receive_many": lambda left, right: tuple(right.receive_many(1, timeout=0)),
    "stats": lambda left, right: left.stats(),
    "disconnect": lambda left, right: left.disconnect(),
    "disconnect with error": lambda left, right: left.disconnect(ValueError("m")),
    "peer disconnects": lambda left, right: right.disconnect(),
}

HANDLERS: dict[str, Call] = {
    "send_nowait": lambda left, right: left.send_nowait(b"h"),
    "receive_nowait": lambda left, right: right.receive_nowait(),
    "stats": lambda left, right: right.stats(),
    "disconnect": lambda left, right: left.disconnect(),
    "peer disconnects": lambda left, right: right.disconnect(),
}

KINDS = ("fresh", "open", "locked")


def outcome(call: Callable[[], object]) -> object:
    """Return the result of a call, or the name of its exception's type."""
    try:
        return call()
    except QueueBrokerError as error:
        return type(error).__name__


def left_behind(left: Any, right: Any) -> list[object]:
    """Return the visible state of a connection, including every message."""
    seen: list[object] = [left.status, right.status, left.stats(), right.stats()]
    seen += [outcome(right.receive_nowait) for _ in range(CAPACITY + 1)]
    seen += [outcome(lambda: left.send_nowait(b"z")) for _ in range(CAPACITY + 1)]
    seen += [outcome(right.receive_nowait) for _ in range(CAPACITY + 1)]
    return [*seen, left.stats(), right.stats(), left.status, right.status]


def one_after_the_other(
    make: Callable[[ExitStack], tuple[Any, Any]], calls: list[Call], *, swapped: bool
) -> tuple[object, ...]:
    """Return the results and the final state of two calls in one order."""
    with ExitStack() as stack:
        left, right = make(stack)
        results = {}
        for each in (1, 0) if swapped else (0, 1):
            results[each] = outcome(partial(calls[each], left, right))
        return results[0], results[1], left_behind(left, right)


@pytest.mark.deep
@clause("QB-CONC-10", "QB-FIFO-1", "QB-BUF-3")
@pytest.mark.parametrize("unread", range(CAPACITY + 1))
@pytest.mark.parametrize("handled", HANDLERS)
@pytest.mark.parametrize("called", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_anywhere_in_a_call_is_before_it_or_after_it(
    kind: str, called: str, handled: str, unread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results, order, capacity, counters and status match one of the two orders."""
    monkeypatch.setattr(pairs, "STAGE", kind if kind != "locked" else "open")

    def make(stack: ExitStack) -> tuple[Any, Any]:
        # Also where QUEUEBROKER_LOCKED forces the lock.
        monkeypatch.setattr("queuebroker.meeting.meet.LOCKED", kind == "locked")
        left, right = stack.enter_context(pairs.queue_pair(CAPACITY))
        assert isinstance(left, FastMessageQueue) is (kind != "locked")
        for number in range(unread):
            left.send(b"%d" % number)
        return left, right

    calls = [CALLS[called], HANDLERS[handled]]
    expected = [one_after_the_other(make, calls, swapped=s) for s in (False, True)]

    def case(interrupted: Interruption) -> None:
        with ExitStack() as stack:
            left, right = make(stack)
            results: list[object] = []
            handlings: list[object] = []

            interrupted(
                lambda: results.append(outcome(lambda: calls[0](left, right))),
                lambda: handlings.append(outcome(lambda: calls[1](left, right))),
            )

            assert not taken(left._connection.lock)
            if not handlings:
                return
            seen = (results[0], handlings[0], left_behind(left, right))
            assert seen in expected

    everywhere_handled(case)


BYTE_CALLS: dict[str, ByteCall] = {
    "write": lambda left, right: left.write(b"mno", timeout=0),
    "read": lambda left, right: bytes(
        (buffer := bytearray(2))[: right.read(buffer, timeout=0)]
    ),
    "stats": lambda left, right: left.stats(),
    "disconnect": lambda left, right: left.disconnect(),
    "peer disconnects": lambda left, right: right.disconnect(),
}


def bytes_left_behind(left: Channel, right: Channel) -> list[object]:
    """Return the visible state of a channel, including every byte."""

    def drained() -> object:
        buffer = bytearray(9)
        return bytes(buffer[: right.read(buffer, timeout=0)])

    seen: list[object] = [left.status, right.status, left.stats(), right.stats()]
    seen += [outcome(drained), outcome(lambda: left.write(b"zzzzzzzzz", timeout=0))]
    return [*seen, outcome(drained), left.stats(), right.stats(), left.status]


@pytest.mark.deep
@clause("QB-CONC-10", "QB-CHAN-3", "QB-BUF-8")
@pytest.mark.parametrize("unread", [0, 1, 3, 5])
@pytest.mark.parametrize("handled", BYTE_CALLS)
@pytest.mark.parametrize("called", BYTE_CALLS)
def test_a_handler_anywhere_in_a_call_on_a_channel_is_before_it_or_after_it(
    called: str, handled: str, unread: int
) -> None:
    """No byte is lost, doubled or overtaken, and the capacity is exact."""

    def begun(left: Channel, right: Channel) -> None:
        left.write(b"1234")  # so that later bytes wrap around the ring
        right.read(bytearray(4))
        if unread:
            left.write(b"abcde"[:unread])

    def in_order(first: str, second: str) -> tuple[object, object, list[object]]:
        with pairs.channel_pair(5) as (left, right):
            begun(left, right)
            results = [outcome(lambda: BYTE_CALLS[first](left, right))]
            results.append(outcome(lambda: BYTE_CALLS[second](left, right)))
            return results[0], results[1], bytes_left_behind(left, right)

    before = in_order(called, handled)
    after = in_order(handled, called)
    expected = [before, (after[1], after[0], after[2])]

    def case(interrupted: Interruption) -> None:
        with pairs.channel_pair(5) as (left, right):
            begun(left, right)
            results: list[object] = []
            handlings: list[object] = []

            interrupted(
                lambda: results.append(
                    outcome(lambda: BYTE_CALLS[called](left, right))
                ),
                lambda: handlings.append(
                    outcome(lambda: BYTE_CALLS[handled](left, right))
                ),
            )

            if handlings:
                seen = (results[0], handlings[0], bytes_left_behind(left, right))
                assert seen in expected

    everywhere_handled(case)


# Observed: a call that the observer would see out of order is rejected; a disconnect is
# deferred.


@pytest.mark.deep
@clause("QB-CONC-10", "QB-BOOK-4")
@pytest.mark.parametrize("handled", HANDLERS)
@pytest.mark.parametrize("called", CALLS)
def test_a_handler_anywhere_in_an_observed_call_acts_in_order_or_is_refused(
    called: str, handled: str
) -> None:
    """The events balance; the error names a safe way; a disconnect takes effect."""

    def case(interrupted: Interruption) -> None:
        reported: list[tuple[Operation, int, int]] = []

        def observer(
            operation: Operation, _number: int, direction: int, seq: int, *_: object
        ) -> None:
            reported.append((operation, direction, seq))

        with pairs.queue_pair(CAPACITY, observer=observer) as (left, right):
            left.send(b"0")
            refused: list[str] = []
            ran = []

            def handler() -> None:
                ran.append(True)
                try:
                    outcome(lambda: HANDLERS[handled](left, right))
                except RuntimeError as error:
                    refused.append(str(error))

            interrupted(lambda: outcome(lambda: CALLS[called](left, right)), handler)

            if handled in ("stats", "disconnect", "peer disconnects"):
                assert not refused
            if ran and handled == "disconnect":
                assert left.closed
            if ran and handled == "peer disconnects":
                assert right.closed
            assert all("SimpleQueue" in text for text in refused)
            assert not left._connection.deferred
            while outcome(right.receive_nowait) not in (
                "ReceiveTimeoutError",
                "DisconnectedQueueError",
            ):
                pass
        for side in (0, 1):
            sent = [
                seq for op, at, seq in reported if op is Operation.SEND and at == side
            ]
            gone = [
                seq
                for op, at, seq in reported
                if op in (Operation.RECEIVE, Operation.DROP) and at == side and seq
            ]
            assert sent == list(range(1, len(sent) + 1))
            assert gone == sent

    everywhere_handled(case)


# The rendezvous.

MEETING_HANDLERS: dict[str, Callable[[QueueBroker, QueueBroker], object]] = {
    "look": lambda a, b: (b.waiting_accepts(), a.outgoing(), a.manager.names()),
    "close the caller's broker": lambda a, b: a.close(),
    "close the other broker": lambda a, b: b.close(),
    "close the manager": lambda a, b: a.manager.close(disconnect=True),
    "connect": lambda a, b: a.connect("b", 2, timeout=0),
    "accept": lambda a, b: b.accept(1, timeout=0),
    "make a broker": lambda a, b: QueueBroker("c", manager=a.manager),
}


@pytest.mark.deep
@clause("QB-CONC-10", "QB-RDV-16")
@pytest.mark.parametrize("somebody_waits", [False, True])
@pytest.mark.parametrize("handled", MEETING_HANDLERS)
def test_a_handler_anywhere_in_a_meeting_leaves_sound_lists(
    handled: str, somebody_waits: bool
) -> None:
    """It acts, or its error names a safe way; a close has taken effect at the end."""

    def case(interrupted: Interruption) -> None:
        with BrokerManager() as manager, Threads() as threads:
            b, a = (QueueBroker(name, manager=manager) for name in "ba")
            if somebody_waits:
                accepting = threads.start(outcome, partial(b.accept, 1))
                until(lambda: b.waiting_accepts() == {1: 1}, "nobody waits")
            results: list[object] = []
            handled_as: list[object] = []
            refused: list[str] = []

            def handler() -> None:
                try:
                    handled_as.append(outcome(partial(MEETING_HANDLERS[handled], a, b)))
                except RuntimeError as error:
                    refused.append(str(error))

            interrupted(
                lambda: results.append(
                    outcome(partial(a.connect, "b", 1, timeout=0.0005))
                ),
                handler,
            )

            # The accepting thread may hold the lock briefly while it handles the close.
            until(lambda: not taken(manager.lock), "the lock is free")
            assert not manager.deferred
            assert all("SimpleQueue" in text for text in refused)
            check_lists(a)
            check_lists(b)
            assert not a.outgoing()
            b.close()
            ends = [*results, *handled_as]
            if somebody_waits:
                ends.append(accepting.result())
            for end in ends:
                if isinstance(end, MessageQueue):
                    if manager.closed:
                        assert end.closed, "the connection made meanwhile stays open"
                    end.disconnect()

    everywhere_handled(case)


@pytest.mark.deep
@clause("QB-CONC-10", "QB-CONC-4")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("handled", ["send_nowait", "disconnect"])
def test_a_handler_anywhere_in_a_send_wakes_the_waiting_receivers(
    kind: str, handled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two receivers wait; each gets a message or the disconnect."""
    monkeypatch.setattr("queuebroker.meeting.meet.LOCKED", kind == "locked")
    monkeypatch.setattr(pairs, "STAGE", kind if kind != "locked" else "open")

    def case(interrupted: Interruption) -> None:
        with pairs.queue_pair(CAPACITY) as (left, right), Threads() as threads:
            waiting = [threads.start(outcome, right.receive) for _ in range(2)]
            arrived = right._connection.flows[1].buffer.arrived
            until(lambda: len(arrived) == 2, "nobody waits")
            sent: list[object] = []

            interrupted(
                lambda: sent.append(outcome(lambda: left.send(b"m", timeout=0))),
                lambda: outcome(lambda: HANDLERS[handled](left, right)),
            )
            left.disconnect()

            got = [each.result() for each in waiting]
            assert (b"m" in got) is (sent == [None])
            assert {*got} <= {b"m", b"h", "DisconnectedQueueError"}

    everywhere_handled(case)


@clause("QB-CONC-10")
@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_that_would_wait_for_the_interrupted_call_is_refused(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raises at once and names a way that works; outside of a call it may wait."""
    monkeypatch.setattr("queuebroker.meeting.meet.LOCKED", kind == "locked")
    monkeypatch.setattr(pairs, "STAGE", kind if kind != "locked" else "open")

    with pairs.queue_pair(CAPACITY) as (left, right), left._connection.lock:
        with pytest.raises(RuntimeError, match="timeout=0"):
            right.receive()
        left.send_many([b"1", b"2"])
        with pytest.raises(RuntimeError, match="timeout=0"):
            left.send(b"3")
        assert right.receive() == b"1"


@clause("QB-CONC-10", "QB-DISC-4", "QB-NAME-6")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("waits", ["receive", "send", "accept", "connect"])
def test_a_handler_that_hangs_up_ends_the_wait_that_it_interrupted(
    kind: str, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real signal arrives while the main thread sleeps."""
    monkeypatch.setattr("queuebroker.meeting.meet.LOCKED", kind == "locked")
    with BrokerManager() as manager, pairs.queue_pair(CAPACITY) as (left, right):
        broker = QueueBroker("b", manager=manager)
        calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "receive": (right.receive, right.disconnect),
            "send": (partial(left.send, b"no room"), left.disconnect),
            "accept": (partial(broker.accept, 1), broker.close),
            "connect": (partial(broker.connect, "b", 1), broker.close),
        }
        call, hang_up = calls[waits]
        if waits == "send":
            left.send_many([b"m"] * CAPACITY)
        with (
            ticking(hang_up),
            pytest.raises((DisconnectedQueueError, BrokerClosedError)),
        ):
            call()
