"""QB-SEND: senders against receivers, disconnects, deadlines and interrupts."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    DisconnectedQueueError,
    MessageQueue,
    Operation,
    Status,
)
from specs.clauses import clause
from tests.pairs import queue_pair
from tests.schedules.outcome import failed, finish, outcome
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check
from tests.traffic import fits

if TYPE_CHECKING:
    from queuebroker.testing import Run, Spawned


def _room(sender: MessageQueue, receiver: MessageQueue) -> int:
    """Return how many messages fit now, by sending and receiving that many."""
    count = fits(sender)
    assert receiver.receive_many() == [b"+"] * count
    return count


@scenario(quick=1, variants={"1": (1,), "2": (2,)})
@clause("QB-SEND-6", "QB-FIFO-1", "QB-FIFO-3")
def the_capacity_is_never_exceeded(run: Run, capacity: int) -> None:
    """Two senders, one receiver: under the lock, there are never more than fit."""
    depths: list[int] = []

    def watch(operation: Operation, *rest: object) -> None:
        if operation in {Operation.SEND, Operation.RECEIVE}:
            depth = rest[4]
            assert isinstance(depth, int)
            depths.append(depth)

    with queue_pair(capacity, observer=watch) as (left, right):

        def send(*messages: bytes) -> None:
            for message in messages:
                left.send(message)

        run.spawn(send, b"a1", b"a2")
        run.spawn(send, b"b1", b"b2")
        received = [right.receive() for _ in range(4)]
        run.join()

    assert sorted(received) == [b"a1", b"a2", b"b1", b"b2"]
    assert received.index(b"a1") < received.index(b"a2")
    assert received.index(b"b1") < received.index(b"b2")
    assert 0 <= min(depths) <= max(depths) <= capacity
    assert len(depths) == 8


@scenario(spurious=2)
@clause("QB-SEND-6", "QB-CONC-6")
def one_receive_lets_exactly_one_sender_go_on(run: Run) -> None:
    """Two senders wait on a full buffer; a receive releases exactly one."""
    with queue_pair() as (left, right):
        left.send(b"0")
        sends = [run.spawn(left.send, message) for message in (b"1", b"2")]
        run.settle()
        assert not any(send.done for send in sends)

        assert right.receive() == b"0"
        run.settle()
        assert sum(send.done for send in sends) == 1
        assert right.pending == 1

        assert {right.receive(), right.receive()} == {b"1", b"2"}
        run.join()


@scenario()
@clause("QB-SEND-6", "QB-CONC-4")
def two_places_are_for_two_senders(run: Run) -> None:
    """Two receives make room: both senders continue, even while one still wakes."""
    with queue_pair(2) as (left, right):
        left.send_many([b"1", b"2"])
        sends = [run.spawn(left.send, message) for message in (b"3", b"4")]
        run.settle()

        received = [right.receive(), right.receive()]
        run.settle()

        assert all(send.done for send in sends), "there is room, and somebody waits"
        received += right.receive_many()
        assert received[:2] == [b"1", b"2"]
        assert {*received[2:]} == {b"3", b"4"}


GOODBYES = {
    f"{who}, {unread} unread, {'waits' if waits else 'races'}": (end, unread, waits)
    for end, who in enumerate(("its own end", "the peer"))
    for unread in (0, 1)
    for waits in (False, True)
}


@scenario(variants=GOODBYES)
@clause("QB-SEND-2", "QB-SEND-5", "QB-DISC-4", "QB-DISC-7", "QB-DISC-12")
def a_send_on_a_full_buffer_against_a_goodbye(
    run: Run, hangs_up: int, unread: int, waits: bool
) -> None:
    """It raises without effect; only a send begun while half is dropped."""
    with queue_pair() as (left, right):
        left.send(b"full")
        right.send_many([b"unread"] * unread)
        ends = (left, right)
        send = run.spawn(left.send, b"late")
        if waits:
            run.settle()
        goodbye = run.spawn(ends[hangs_up].disconnect)

        said = outcome(send, DisconnectedQueueError)
        goodbye.join()

        may_drop = hangs_up == 1 and unread == 1 and not waits
        assert said is DisconnectedQueueError or may_drop
        counters = left.stats()
        assert counters.half_disconnected == (said is None)
        assert counters.sent == 1 + (said is None)
        if hangs_up == 0:
            assert list(right) == [b"full"]
        elif unread:
            assert left.status is Status.HALF_DISCONNECTED


@scenario()
@clause("QB-TIME-6", "QB-CONC-4")
def a_send_that_expires_does_not_take_anothers_room(run: Run) -> None:
    """Room is made as one sender times out: either that one or the other gets it."""
    with queue_pair() as (left, right):
        left.send(b"0")
        hasty = run.spawn(partial(left.send, b"hasty", timeout=1), name="hasty")
        patient = run.spawn(left.send, b"patient")
        run.sleep(1)

        assert right.receive() == b"0"
        run.settle()

        assert right.pending == 1, "there is room, and somebody waits for it"
        first = right.receive()
        hasty.join()
        if failed(hasty):
            assert first == b"patient"
            assert patient.done
        else:
            assert {first, right.receive()} == {b"hasty", b"patient"}
        run.join()


@scenario(quick=1)
@clause("QB-SEND-6", "QB-CONC-4")
def an_interrupted_send_passes_its_turn_on(run: Run) -> None:
    """One of two waiters is interrupted as room is made; the other gets the room."""
    with queue_pair() as (left, right):
        left.send(b"0")
        interrupted = run.spawn(left.send, b"interrupted")
        other = run.spawn(left.send, b"other")
        receive = run.spawn(right.receive)

        run.interrupt(interrupted, KeyboardInterrupt)
        outcome(interrupted, KeyboardInterrupt)
        assert outcome(receive) == b"0"
        run.settle()

        assert right.pending == 1
        rest = [right.receive()]
        run.settle()
        if right.pending:
            rest.append(right.receive())
        assert outcome(other) is None
        assert b"other" in rest
        assert _room(left, right) == 1, "a slot is lost, or one too many"


@scenario()
@clause("QB-SEND-6")
def the_capacity_is_whole_after_interrupts(run: Run) -> None:
    """A send and a receive are interrupted anywhere: capacity sends still fit."""
    with queue_pair(2) as (left, right):
        left.send(b"0")
        calls: list[Spawned[Any]] = [
            run.spawn(left.send, b"1"),
            run.spawn(right.receive),
        ]
        for call in calls:
            run.interrupt(call, KeyboardInterrupt)
        finish(*calls)
        for call in calls:
            outcome(call, KeyboardInterrupt)

        counters, peers = left.stats(), right.stats()
        assert counters.sent == peers.received + peers.pending
        if right.pending:
            right.receive_many()
        assert _room(left, right) == 2


@scenario(quick=1)
@clause("QB-BULK-1", "QB-SEND-2")
def many_that_are_interrupted_were_sent_up_to_there(run: Run) -> None:
    """An interrupt in `send_many`: whole messages, a prefix, and no slot is lost."""
    with queue_pair() as (left, right):
        messages = [b"1", b"2", b"3"]
        send = run.spawn(left.send_many, messages)
        receive = run.spawn(right.receive)

        run.interrupt(send, KeyboardInterrupt)
        assert outcome(send, KeyboardInterrupt) is KeyboardInterrupt
        run.settle()
        if not receive.done:
            assert left.stats().sent == 0, "a message lies there, and somebody waits"
            left.send(b"1")

        received = [outcome(receive)]
        if right.pending:
            received += right.receive_many()
        assert received == messages[: len(received)]
        assert _room(left, right) == 1


@scenario(quick=1)
@clause("QB-BULK-1", "QB-SEND-2", "QB-FIFO-3", "QB-RECV-8")
def many_and_another_are_sent_at_once(run: Run) -> None:
    """Each message arrives once, and those of the one call in their order."""
    with queue_pair(8) as (left, right):
        messages = [b"1", b"2", b"3"]
        many = run.spawn(left.send_many, messages)
        one = run.spawn(left.send, b"x")

        assert outcome(many) == 3
        assert outcome(one) is None
        received = right.receive_many()
        assert sorted(received) == [*messages, b"x"]
        assert [message for message in received if message != b"x"] == messages


@scenario()
@clause("QB-SEND-7")
def what_is_sent_is_what_was_there_at_the_call(run: Run) -> None:
    """If a buffer changes while its send waits, its old content is received."""
    with queue_pair() as (left, right):
        left.send(b"0")
        data = bytearray(b"before")
        send = run.spawn(left.send, data)
        run.settle()
        data[:] = b"after, and longer"

        assert [right.receive(), right.receive()] == [b"0", b"before"]
        assert outcome(send) is None


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)
