"""QB-RECV: receivers against senders, disconnects, deadlines and interrupts."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedQueueError, MessageQueue
from specs.clauses import clause
from tests.pairs import queue_pair
from tests.schedules.outcome import failed, finish, outcome, result
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from queuebroker.testing import Run


@scenario(quick=1, spurious=1)
@clause("QB-RECV-1", "QB-RECV-8", "QB-CONC-4", "QB-CONC-6")
def two_receivers_share_two_messages(run: Run) -> None:
    """Each message is received once, and no receiver sleeps while there is one."""
    with queue_pair() as (left, right):

        def send() -> None:
            left.send(b"1")
            left.send(b"2")

        run.spawn(send)
        receives = [run.spawn(right.receive) for _ in range(2)]
        run.join()

        assert sorted(receive.result for receive in receives) == [b"1", b"2"]
        assert right.pending == 0


@scenario()
@clause("QB-RECV-2", "QB-CONC-4")
def two_messages_are_for_two_receivers(run: Run) -> None:
    """Two are sent in a row: both waiters get one, even while one still wakes."""
    with queue_pair(2) as (left, right):
        receives = [run.spawn(right.receive) for _ in range(2)]
        run.settle()

        left.send(b"1")
        left.send(b"2")
        run.settle()

        assert all(one.done for one in receives), "one lies there, and somebody waits"
        assert {result(one) for one in receives} == {b"1", b"2"}


@scenario()
@clause("QB-BULK-1", "QB-CONC-4")
def one_bulk_send_is_for_two_receivers(run: Run) -> None:
    """Two are sent in one call: both waiters get one, though it wakes only one."""
    with queue_pair(2) as (left, right):
        receives = [run.spawn(right.receive) for _ in range(2)]
        run.settle()

        assert left.send_many([b"1", b"2"]) == 2
        run.settle()

        assert all(one.done for one in receives), "one lies there, and somebody waits"
        assert {result(one) for one in receives} == {b"1", b"2"}


@scenario(quick=0, variants={"1": (1,), "2": (2,)})
@clause("QB-DISC-15", "QB-RECV-3", "QB-RECV-5")
def as_many_receivers_return_as_there_are_messages(run: Run, messages: int) -> None:
    """Of three waiters, k return with the k messages sent, and the others raise."""
    with queue_pair(2) as (left, right):
        sent = [b"%d" % number for number in range(messages)]

        def send_and_hang_up() -> None:
            for message in sent:
                left.send(message)
            left.disconnect()

        receives = [run.spawn(right.receive) for _ in range(3)]
        run.spawn(send_and_hang_up)

        ends = [outcome(receive, DisconnectedQueueError) for receive in receives]
        got = [end for end in ends if isinstance(end, bytes)]
        assert sorted(got) == sent
        assert right.disconnected()


@scenario()
@clause("QB-RECV-6")
def a_message_that_was_taken_is_returned(run: Run) -> None:
    """If its own end disconnects, a receive returns the message or never had it."""
    with queue_pair() as (left, right):
        left.send(b"kept")
        receive = run.spawn(right.receive)
        goodbye = run.spawn(right.disconnect)

        got = outcome(receive, DisconnectedQueueError)
        goodbye.join()

        counters = left.stats()
        assert (got == b"kept") == (right.stats().received == 1)
        assert (got is DisconnectedQueueError) == (counters.discarded == 1)


@scenario()
@clause("QB-TIME-7", "QB-CONC-4")
def a_receive_that_expires_does_not_take_anothers_message(run: Run) -> None:
    """A message comes as one receiver times out: the other one does not sleep on."""
    with queue_pair() as (left, right):
        hasty = run.spawn(partial(right.receive, timeout=1), name="hasty")
        patient = run.spawn(right.receive)
        run.sleep(1)

        left.send(b"1")
        run.settle()

        assert right.pending == 0, "a message lies there, and somebody waits for it"
        hasty.join()
        if failed(hasty):
            assert outcome(patient) == b"1"
        else:
            left.send(b"2")
            assert {outcome(hasty), outcome(patient)} == {b"1", b"2"}


@scenario(quick=1)
@clause("QB-RECV-8", "QB-CONC-4")
def an_interrupted_receive_passes_its_turn_on(run: Run) -> None:
    """One of two waiters is interrupted as a message comes; the other gets it."""
    with queue_pair() as (left, right):
        interrupted = run.spawn(right.receive)
        other = run.spawn(right.receive)
        send = run.spawn(left.send, b"1")

        run.interrupt(interrupted, KeyboardInterrupt)
        first = outcome(interrupted, KeyboardInterrupt)
        assert outcome(send) is None
        run.settle()

        assert right.pending == 0, "a message lies there, and somebody waits for it"
        assert right.stats().received == 1
        if other.done:
            assert (first, outcome(other)) == (KeyboardInterrupt, b"1")
        left.disconnect()
        outcome(other, DisconnectedQueueError)


@scenario(quick=1)
@clause("QB-BOOK-1", "QB-SEND-6")
def the_counters_balance_after_an_interrupt(run: Run) -> None:
    """Interrupted as it wakes a sender, a receive has counted its message."""
    with queue_pair() as (left, right):
        left.send(b"0")
        send = run.spawn(left.send, b"1")
        receive = run.spawn(right.receive)

        run.interrupt(receive, KeyboardInterrupt)
        outcome(receive, KeyboardInterrupt)
        run.settle()
        if not send.done:
            right.receive()
        outcome(send)

        counters, peers = left.stats(), right.stats()
        assert counters.sent == 2 == peers.received + right.pending


@scenario(quick=1)
@clause("QB-FIFO-6", "QB-RECV-3")
def both_sides_say_goodbye_after_two_messages(run: Run) -> None:
    """Each side receives a prefix of the accepted messages, and no more."""
    with queue_pair() as ends:
        accepted: list[list[bytes]] = [[], []]

        def send_and_hang_up(side: int) -> None:
            for message in (b"1", b"2"):
                try:
                    ends[side].send(message)
                except DisconnectedQueueError:
                    return
                accepted[side].append(message)
            ends[side].disconnect()

        senders = [run.spawn(send_and_hang_up, side) for side in (0, 1)]
        receiver = run.spawn(partial(list[bytes], ends[1]), name="receiver")
        finish(*senders, receiver)

        received = outcome(receiver)
        assert isinstance(received, list)
        assert received == accepted[0][: len(received)]
        for end in ends:
            end.disconnect()


@scenario()
@clause("QB-RECV-8")
def an_end_never_receives_its_own(run: Run) -> None:
    """Both ends send and receive at once: each gets the other's messages."""
    with queue_pair() as (left, right):

        def swap(end: MessageQueue, message: bytes) -> bytes:
            end.send(message)
            return end.receive()

        from_left = run.spawn(swap, left, b"left")
        from_right = run.spawn(swap, right, b"right")

        assert (outcome(from_left), outcome(from_right)) == (b"right", b"left")


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)
