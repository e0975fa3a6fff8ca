"""QB-BOOK-2 and 3: reports about waiting callers, and ending every wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    DisconnectedChannelError,
    DisconnectedQueueError,
    QueueBroker,
)
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.meetings import accepts_wait, meet, meet_bytes
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Channel, MessageQueue
    from queuebroker.testing import Run

    End = MessageQueue | Channel


@clause("QB-BOOK-2")
def test_a_broker_reports_its_waiting_callers_at_any_moment() -> None:
    """By port and kind; own connects by name and port; the query has no effect."""
    with BrokerManager() as manager, Threads() as threads:
        b, a = (QueueBroker(name, manager=manager) for name in "ba")
        plain = Broker("p", manager=manager)
        for _ in range(2):
            threads.start(lambda: _closed(lambda: b.accept(1)))
        threads.start(lambda: _closed(lambda: b.accept(2)))
        for port in (3, 3, 4):
            threads.start(lambda port=port: _closed(lambda: a.connect("b", port)))  # type: ignore[misc]  # a lambda with a default
        threads.start(lambda: _closed(lambda: a.connect("a", 5)))
        threads.start(lambda: _closed(lambda: plain.accept(1)))
        threads.start(lambda: _closed(lambda: plain.connect("b", 1)))
        until(lambda: len(b._broker.waiting) == 7, "not all wait")
        until(lambda: len(a._broker.departing) == 4, "not all wait")
        until(lambda: plain.outgoing() == {("b", 1): 1}, "not all wait")
        accepts_wait(plain, {1: 1})

        for _ in range(3):
            assert manager.names() == ["b", "a", "p"]
            assert b.waiting_accepts() == {1: 2, 2: 1}
            assert b.waiting_connects() == {3: 2, 4: 1}
            assert b.outgoing() == {}
            assert a.waiting_connects() == {5: 1}
            assert a.outgoing() == {("b", 3): 2, ("b", 4): 1, ("a", 5): 1}
            assert plain.waiting_connects() == {}
        a.close()
        assert manager.names() == ["b", "p"]
        assert (b.waiting_connects(), a.outgoing()) == ({}, {})
        assert b.waiting_accepts() == {1: 2, 2: 1}
        manager.close()


@clause("QB-BOOK-2")
def test_a_change_of_a_reported_result_does_not_change_the_broker() -> None:
    """Each result is a copy."""
    with BrokerManager() as manager:
        b = QueueBroker("b", manager=manager)
        b.waiting_accepts()[1] = 1
        b.waiting_connects()[1] = 1
        b.outgoing()["b", 1] = 1
        manager.names().clear()

        assert (b.waiting_accepts(), b.waiting_connects(), b.outgoing()) == ({}, {}, {})
        assert manager.names() == ["b"]


def _closed(call: Callable[[], object]) -> None:
    with pytest.raises(BrokerClosedError):
        call()


@clause("QB-BOOK-3")
@pytest.mark.parametrize("disconnect", [False, True])
def test_closing_a_manager_ends_every_wait(disconnect: bool) -> None:
    """Waits at brokers always end, with BrokerClosedError; at ends if `disconnect`."""
    manager = BrokerManager()
    b, a = (QueueBroker(name, manager=manager, capacity=1) for name in "ba")
    d, c = (Broker(name, manager=manager, capacity=1) for name in "dc")
    left, right = meet(b, a)
    near, far = meet_bytes(d, c)
    left.send(b"f")
    near.write(b"f")
    with Threads() as threads:
        for call in (
            lambda: b.accept(2),
            lambda: a.connect("b", 3),
            lambda: d.accept(2),
            lambda: c.connect("d", 3),
        ):
            threads.start(_closed, call)
        sending = threads.start(left.send, b"x")
        receiving = threads.start(left.receive)
        writing = threads.start(near.write, b"x")
        reading = threads.start(near.read, bytearray(1))
        until(lambda: all(map(_two_wait, (b._broker, d))), "a broker's caller")
        until(lambda: all(_both_wait(end) for end in (left, near)), "an end's caller")

        manager.close(disconnect=disconnect)

        until(lambda: not any(map(_two_wait, (b._broker, d))), "a caller waits on")
        assert manager.names() == []
        if not disconnect:
            assert not any(end.closed for end in (left, right, near, far))
            assert (right.receive(), far.read_exactly(1)) == (b"f", b"f")
            right.send(b"y")
            far.write(b"y")
            assert (receiving.result(), reading.result()) == (b"y", 1)
            sending.result()
            writing.result()
            manager.close(disconnect=True)
        else:
            for error in (sending.error(), receiving.error()):
                assert isinstance(error, DisconnectedQueueError)
            for error in (writing.error(), reading.error()):
                assert isinstance(error, DisconnectedChannelError)
        assert all(end.closed for end in (left, right, near, far))


def _two_wait(broker: Broker) -> bool:
    return len(broker.waiting) == 2


def _both_wait(end: End) -> bool:
    flows = end._connection.flows
    return bool(flows[1].buffer.room) and bool(flows[0].buffer.arrived)


@clause("QB-BOOK-3")
def test_a_manager_that_closes_during_a_match_leaves_no_connected_end() -> None:
    """In every schedule each caller raises or has an end that is disconnected."""

    def program(run: Run) -> None:
        manager = BrokerManager()
        b, a = (QueueBroker(name, manager=manager) for name in "ba")
        accept = run.spawn(b.accept, 1)
        connect = run.spawn(a.connect, "b", 1)
        manager.close(disconnect=True)
        accept.join()
        connect.join()
        if accept.error is None:
            assert connect.result is not None
            assert accept.result.closed
            assert connect.result.closed
        else:
            assert isinstance(accept.error, BrokerClosedError)
            assert isinstance(connect.error, BrokerClosedError | None)
            assert connect.error is not None or connect.result is None

    explore(program, bound=2, random=schedules(50), seed=1, limit=schedules(1500))
