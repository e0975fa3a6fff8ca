"""QB-WAIT: a receive from the first of several queues, against concurrent calls."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    DisconnectedQueueError,
    MessageQueue,
    ReceiveTimeoutError,
    receive_any,
)
from specs.clauses import clause
from tests.pairs import look_away, loose_queue_pair, queue_pair
from tests.schedules.outcome import failed, outcome, result
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuebroker import Observer
    from queuebroker.testing import Run

Pair = tuple[MessageQueue, MessageQueue]

# An observed queue is of the locked kind; one of each gives both at once.
Kinds = tuple["Observer | None", "Observer | None"]
FAST: Kinds = (None, None)
LOCKED: Kinds = (look_away, look_away)
MIXED: Kinds = (None, look_away)

PURE: dict[str, tuple[Kinds]] = {"fast": (FAST,), "locked": (LOCKED,)}
EVERY: dict[str, tuple[Kinds]] = {**PURE, "mixed": (MIXED,)}


@contextmanager
def _two(kinds: Kinds) -> Iterator[tuple[Pair, Pair]]:
    """Yield two connections, each as its sending end and its receiving end."""
    with queue_pair(observer=kinds[0]) as one, queue_pair(observer=kinds[1]) as other:
        yield one, other


@scenario(quick=1, spurious=2, variants=PURE)
@clause("QB-WAIT-1", "QB-CONC-6")
def wake_ups_for_no_reason(run: Run, kinds: Kinds) -> None:
    """It sleeps on, and the message still wakes it."""
    with _two(kinds) as ((_, first), (other, second)):
        receive = run.spawn(receive_any, [first, second], name="receive_any")
        run.spawn(other.send, b"m")

        assert result(receive) == (second, b"m")


@scenario(quick=1, variants=PURE)
@clause("QB-WAIT-1", "QB-CONC-4")
def two_senders_and_a_competing_receiver(run: Run, kinds: Kinds) -> None:
    """Each message is received once, and no receiver sleeps while there is one."""
    with _two(kinds) as ((one, first), (other, second)):
        ends = (first, second)
        chooses = run.spawn(receive_any, ends, name="receive_any")
        competes = run.spawn(second.receive, name="receive")
        sends = [run.spawn(one.send, b"first"), run.spawn(other.send, b"second")]

        end, message = result(chooses)
        run.settle()
        for send in sends:
            assert outcome(send) is None
        assert end is (first if message == b"first" else second)
        if message == b"first":
            assert competes.done, "one lies there, and somebody waits for it"
            assert result(competes) == b"second"
        else:
            assert not competes.done
            other.send(b"third")
            assert result(competes) == b"third"
        assert first.pending == (message != b"first")
        assert second.pending == 0
        assert [each.stats().received for each in ends] == [
            int(message == b"first"),
            1 if message == b"first" else 2,
        ]


@scenario(quick=1, variants=EVERY)
@clause("QB-WAIT-1", "QB-CONC-4")
def a_wake_up_that_is_not_used_is_passed_on(run: Run, kinds: Kinds) -> None:
    """Both wait for the second queue, one for the first too; both queues get one."""
    with _two(kinds) as ((one, first), (other, second)):
        second_once = run.spawn(receive_any, [first, second], name="receive_any")
        run.settle()
        waits = run.spawn(second.receive, name="receive")
        run.settle()

        run.spawn(one.send, b"first")
        run.spawn(other.send, b"second")
        run.settle()

        assert second_once.done
        end, message = result(second_once)
        assert (end is first) == (message == b"first")
        if end is first:
            assert waits.done, "a message lies there, and somebody waits for it"
            assert result(waits) == b"second"
        else:
            assert not waits.done
            other.send(b"third")
            assert result(waits) == b"third"
            assert first.receive(timeout=0) == b"first"


@scenario(quick=1, variants=PURE)
@clause("QB-WAIT-1", "QB-CONC-4")
def two_that_wait_for_the_same_two_queues(run: Run, kinds: Kinds) -> None:
    """In opposite orders, with a message on each queue: each of them gets one."""
    with _two(kinds) as ((one, first), (other, second)):
        calls = [
            run.spawn(receive_any, [first, second]),
            run.spawn(receive_any, [second, first]),
        ]
        run.spawn(one.send, b"first")
        run.spawn(other.send, b"second")
        run.join()

        assert {result(call)[1] for call in calls} == {b"first", b"second"}
        assert (first.pending, second.pending) == (0, 0)


@scenario(variants=PURE)
@clause("QB-WAIT-1", "QB-TIME-5", "QB-TIME-7", "QB-TIME-2")
def a_message_comes_as_the_time_runs_out(run: Run, kinds: Kinds) -> None:
    """The message is received, or it stays and the time has passed; never neither."""
    with _two(kinds) as ((_, first), (other, second)):

        def timed() -> tuple[object, float]:
            try:
                return receive_any([first, second], timeout=1), run.now
            except ReceiveTimeoutError:
                return None, run.now

        def send() -> None:
            run.sleep(1)
            other.send(b"late")

        receive, sending = run.spawn(timed), run.spawn(send)
        got, at = result(receive)
        result(sending)

        assert at >= 1
        assert got in {None, (second, b"late")}
        assert second.pending == (got is None)


@scenario()
@clause("QB-WAIT-1", "QB-TIME-7", "QB-CONC-4")
def a_wait_that_expires_does_not_take_anothers_message(run: Run) -> None:
    """A message comes as the wait times out: a receiver of one queue is woken."""
    with _two(FAST) as ((_, first), (other, second)):
        hasty = run.spawn(partial(receive_any, [first, second], timeout=1))
        patient = run.spawn(second.receive)
        run.sleep(1)

        other.send(b"1")
        run.settle()

        assert second.pending == 0, "a message lies there, and somebody waits for it"
        hasty.join()
        if failed(hasty):
            assert outcome(patient) == b"1"
        else:
            other.send(b"2")
            assert {result(hasty)[1], outcome(patient)} == {b"1", b"2"}


@scenario(quick=1, variants=EVERY)
@clause("QB-WAIT-1", "QB-CONC-4")
def an_interrupted_wait_passes_its_turn_on(run: Run, kinds: Kinds) -> None:
    """Interrupted as a message comes: another waiter gets it, and none sleeps on."""
    with _two(kinds) as ((_, first), (other, second)):
        interrupted = run.spawn(receive_any, [first, second], name="receive_any")
        waits = run.spawn(second.receive, name="receive")
        send = run.spawn(other.send, b"1")

        run.interrupt(interrupted, KeyboardInterrupt)
        outcome(interrupted, KeyboardInterrupt)
        assert outcome(send) is None
        run.settle()

        assert second.pending == 0, "a message lies there, and somebody waits for it"
        assert second.stats().received == 1
        for end in (first, second):
            assert len(end._connection.flows[end._side].buffer.arrived) <= (
                end is second and not waits.done
            )
        other.disconnect()
        outcome(waits, DisconnectedQueueError)


@scenario(quick=1, variants=EVERY)
@clause("QB-WAIT-1", "QB-DISC-7", "QB-CONC-4")
def the_last_of_several_hangs_up(run: Run, kinds: Kinds) -> None:
    """It waits while one is left, gets that one's messages, and then raises."""
    with _two(kinds) as ((one, first), (other, second)):

        def receive_all() -> list[bytes]:
            got: list[bytes] = []
            try:
                while True:
                    got.append(receive_any([first, second])[1])
            except DisconnectedQueueError:
                return got

        def send_and_hang_up() -> None:
            other.send(b"last")
            other.disconnect()

        receive = run.spawn(receive_all)
        run.spawn(one.disconnect)
        run.spawn(send_and_hang_up)

        assert result(receive) == [b"last"]
        run.join()


@scenario(quick=1, variants={"fast": (None,), "locked": (look_away,)})
@clause("QB-WAIT-1", "QB-CONC-9", "QB-PY-7")
def a_peer_is_forgotten(run: Run, observer: Observer | None) -> None:
    """Another thread collects the last peer: the wait for several queues raises."""
    with warnings.catch_warnings(), queue_pair(observer=observer) as (_, gone):
        warnings.simplefilter("ignore", ResourceWarning)  # left open on purpose
        gone.disconnect()
        left, right = loose_queue_pair(observer=observer)
        held = [left]
        del left
        receive = run.spawn(receive_any, [gone, right], name="receive_any")
        run.spawn(held.clear, name="forget")

        assert outcome(receive, DisconnectedQueueError) is DisconnectedQueueError
        run.join()
        assert right._connection.deferred == []


@scenario()
@clause("QB-WAIT-1", "QB-TIME-8")
def what_was_on_its_way_when_its_sender_hung_up(run: Run) -> None:
    """Once the peer has disconnected, a look gets its last message or raises."""
    with queue_pair() as (left, right):
        send = run.spawn(left.send, b"last")
        left.disconnect()

        got: object
        try:
            got = receive_any([right], timeout=0)
        except DisconnectedQueueError:
            got = None

        accepted = not failed(send)
        assert got == ((right, b"last") if accepted else None)
        assert right.disconnected()


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)
