"""QB-BOOK-1 to 3: books that balance, who waits, and ending every wait."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    DisconnectedChannelError,
    DisconnectedQueueError,
    QueueBroker,
    Stats,
)
from queuebroker.testing import explore
from specs.clauses import clause
from tests.meetings import accepts_wait, meet, meet_bytes
from tests.pairs import channel_pair, queue_pair
from tests.support import Threads, until
from tests.traffic import tried

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Channel, MessageQueue
    from queuebroker.testing import Run

    End = MessageQueue | Channel


def balances(sender: Stats, receiver: Stats) -> bool:
    """Whether the books of one direction are closed."""
    return sender.sent == receiver.received + sender.dropped + receiver.pending


def books(
    sent: int = 0,
    received: int = 0,
    half: int = 0,
    discarded: int = 0,
    pending: int = 0,
) -> Stats:
    """Return the books that an end must have."""
    return Stats(sent, received, half, discarded, 0, pending)


@clause("QB-BOOK-1")
def test_every_message_is_booked_once_by_what_became_of_it() -> None:
    """Sent, received, pending, dropped while half, discarded unread; or not at all."""
    with queue_pair(3) as (left, right):
        assert (left.stats(), right.stats()) == (books(), books())
        left.send_many([b"1", b"2", b"3"])
        right.send(b"4")
        with pytest.raises(TimeoutError):
            left.send(b"full", timeout=0)
        assert left.stats() == books(sent=3, pending=1)
        assert right.stats() == books(sent=1, pending=3)

        right.receive()
        assert right.stats() == books(sent=1, received=1, pending=2)

        right.disconnect()
        left.send(b"into the void")
        left.send_many([b"and", b"again"])
        assert left.stats() == books(sent=6, half=3, discarded=2, pending=1)
        assert right.stats() == books(sent=1, received=1)

        left.receive()
        with pytest.raises(DisconnectedQueueError):
            left.send(b"refused")
        assert left.stats() == books(sent=6, received=1, half=3, discarded=2)
        assert left.stats().dropped == 5
        assert balances(left.stats(), right.stats())
        assert balances(right.stats(), left.stats())


@clause("QB-BOOK-1")
def test_a_channel_books_bytes() -> None:
    """The same, with bytes for messages."""
    with channel_pair(5) as (left, right):
        assert left.write(b"1234567") == 5
        right.write(b"ab")
        right.read_exactly(2)
        assert left.stats() == books(sent=5, pending=2)
        assert right.stats() == books(sent=2, received=2, pending=3)

        right.disconnect()
        assert left.write(b"void") == 4
        assert left.stats() == books(sent=9, half=4, discarded=3, pending=2)
        left.disconnect()

        assert right.stats() == books(sent=2, received=2, discarded=2)
        assert balances(left.stats(), right.stats())
        assert balances(right.stats(), left.stats())


@clause("QB-BOOK-1")
def test_no_count_is_lost_by_many_threads() -> None:
    """What each thread counts for itself adds up to the books, at either goodbye."""
    total = 3000
    with queue_pair(4) as (left, right), Threads() as threads:

        def send_all(end: MessageQueue) -> int:
            return sum(_returned(end.send, b"x") for _ in range(total))

        def receive_all(end: MessageQueue, most: int) -> int:
            return sum(1 for _ in itertools.islice(end, most))

        senders = [threads.start(send_all, left) for _ in range(3)]
        back = [threads.start(send_all, right) for _ in range(2)]
        receivers = [threads.start(receive_all, right, total) for _ in range(2)]
        readers = [threads.start(receive_all, left, total) for _ in range(2)]
        received = sum(each.result() for each in receivers)
        right.disconnect()
        sent = sum(each.result() for each in senders)
        sent_back = sum(each.result() for each in back)
        received_back = sum(each.result() for each in readers)

        mine, theirs = left.stats(), right.stats()
        assert (mine.sent, mine.received) == (sent, received_back)
        assert (theirs.sent, theirs.received) == (sent_back, received)
        assert received == 2 * total
        assert balances(mine, theirs)
        assert balances(theirs, mine)


def _returned(call: Callable[..., object], *args: object) -> bool:
    try:
        call(*args)
    except DisconnectedQueueError:
        return False
    return True


@clause("QB-BOOK-1")
@pytest.mark.parametrize("hangs_up", [0, 1])
def test_the_books_are_right_in_every_schedule(hangs_up: int) -> None:
    """Live within what is under way, exact once all is quiet; with a goodbye."""

    def program(run: Run) -> None:
        with queue_pair(1) as ends:
            left, right = ends
            sent: list[bool] = []
            received: list[bool] = []

            def send() -> None:
                sent.append(_returned(left.send, b"x"))

            def receive() -> None:
                received.append(_returned(right.receive))

            def watch() -> None:
                before, there, after = left.stats(), right.stats(), left.stats()
                seen = there.received + there.pending
                assert before.sent <= seen + after.dropped
                assert seen + before.dropped <= after.sent

            for task in (send, send, receive, watch, ends[hangs_up].disconnect):
                run.spawn(task)
            run.join()
            mine, theirs = left.stats(), right.stats()
            assert mine.sent == sum(sent)
            assert theirs.received == sum(received)
            assert balances(mine, theirs)

    explore(program, bound=1, random=60, seed=1, limit=300)


@clause("QB-BOOK-2")
def test_a_broker_tells_who_waits_at_any_moment() -> None:
    """By port and kind; its own connects by name and port; asking disturbs nothing."""
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
def test_what_is_told_cannot_be_used_to_change_it() -> None:
    """Each answer is the caller's own."""
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
    """Of brokers always, with BrokerClosedError; of ends with `disconnect` only."""
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
def test_closing_a_manager_against_matches_leaves_nobody() -> None:
    """In every schedule each caller has an end that is disconnected, or raised."""

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

    explore(program, bound=2, random=50, seed=1, limit=1500)


@clause("QB-BOOK-1")
def test_a_random_life_balances_at_every_step() -> None:
    """Whatever the two ends do, one after the other, both directions balance."""
    rng = random.Random(7)
    for _ in range(30):
        with queue_pair(2) as ends:
            for _ in range(25):
                end = ends[rng.randrange(2)]
                act = rng.choice(["send", "many", "receive", "receive", "go"])
                if act == "go" and rng.random() < 0.3:
                    end.disconnect()
                elif act == "send":
                    tried(end.send_nowait, b"x")
                elif act == "many":
                    tried(lambda end=end: end.send_many([b"x"] * 3, timeout=0))
                else:
                    tried(end.receive_nowait)
                assert balances(ends[0].stats(), ends[1].stats())
                assert balances(ends[1].stats(), ends[0].stats())
