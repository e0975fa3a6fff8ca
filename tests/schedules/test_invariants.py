"""Properties that SPIN proves of the models, asserted of the library in every schedule.

The programs are those of ``specs/promela``; the properties have the same names.
"""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    BrokerClosedError,
    DisconnectedQueueError,
    MessageQueue,
    QueueBrokerError,
    ReceiveTimeoutError,
)
from queuebroker.meeting.meet import withdraw_locked
from queuebroker.observer import Reason
from queuebroker.testing import Failure, explore
from queuebroker.waiting import parking
from specs.clauses import clause
from specs.promela.model import MODELS
from tests.kernel import restart_invariants, search_invariants, stream_invariants
from tests.pairs import look_away, queue_pair
from tests.schedules import invariants
from tests.schedules.callers import accepting, brokers, connecting
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check
from tests.simulate import dialling_invariants

if TYPE_CHECKING:
    from queuebroker import Status
    from queuebroker.testing import Run, Spawned


class InterruptError(BaseException):
    """An exception raised in a caller from outside."""


def ends(calls: list[Spawned[MessageQueue]]) -> list[MessageQueue]:
    """Wait for the calls; return the results of those that did not fail."""
    found = []
    for call in calls:
        call.join()
        if call.error is None:
            found.append(call.result)
        else:
            assert isinstance(call.error, (QueueBrokerError, InterruptError))
    return found


@scenario(spurious=1, quick=1)
@clause("QB-RDV-16", "QB-RDV-5", "QB-RDV-6", "QB-TIME-5")
def four_callers_meet_or_leave(run: Run) -> None:
    """Two accepts and two connects on one port, one of each with a deadline."""
    a, b = brokers()
    with invariants.watch_meetings([a, b]) as meetings:
        calls = [
            accepting(run, a, timeout=1),
            connecting(run, b),
            accepting(run, a),
            run.spawn(lambda: a.connect("a", 1, timeout=1, required=True)),
        ]
        run.settle()
        a.close()
        returned = ends(calls)

        invariants.both_succeed_or_neither(meetings, returned)
        assert meetings.looks >= len(calls)
        for end in returned:
            end.disconnect()


@scenario(quick=1, variants={"its own": ("b",), "the accepting one": ("a",)})
@clause("QB-NAME-6", "QB-RDV-11")
def a_close_releases_the_callers(run: Run, name: str) -> None:
    """An accept, a remote connect and a connect to itself, and a broker closes."""
    a, b = brokers()
    with invariants.watch_meetings([a, b]) as meetings:
        calls = [
            accepting(run, a, timeout=1),
            connecting(run, b),
            run.spawn(lambda: a.connect("a", 1, timeout=1, required=True)),
        ]
        (a if name == "a" else b).close()
        run.settle()
        a.close()
        returned = ends(calls)

        invariants.both_succeed_or_neither(meetings, returned)
        for end in returned:
            end.disconnect()


@scenario(quick=1)
@clause("QB-RDV-11", "QB-RDV-12")
def a_caller_is_interrupted(run: Run) -> None:
    """It withdraws, or disconnects its end; its peer never waits in vain."""
    a, b = brokers()
    with invariants.watch_meetings([a, b]) as meetings:
        interrupted = accepting(run, a)
        other = connecting(run, b)
        run.interrupt(interrupted, InterruptError)
        run.settle()
        a.close()
        returned = ends([interrupted, other])

        invariants.both_succeed_or_neither(meetings, returned, interrupted=1)
        invariants.who_was_interrupted_hangs_up(meetings, returned)
        for end in returned:
            end.disconnect()


def send_all(end: MessageQueue, count: int) -> None:
    with suppress(DisconnectedQueueError):
        for number in range(1, count + 1):
            end.send(b"%d" % number)


def receive_all(end: MessageQueue, timeout: float | None = None) -> None:
    try:
        while True:
            end.receive(timeout=timeout)
    except DisconnectedQueueError:
        invariants.what_was_accepted_is_drained(end)
    except ReceiveTimeoutError:
        pass


def look(end: MessageQueue) -> None:
    read: list[Status] = [end.status]
    while not end.disconnected():
        read.append(end.status)
        with suppress(DisconnectedQueueError, ReceiveTimeoutError):
            end.receive(timeout=0)
        read.append(end.status)
        if len(read) > 6:
            break
    invariants.status_as_read_moves_down_only(read)


@scenario(quick=0, variants={"sender": (1,), "receiver": (0,)})
@clause("QB-DISC-1", "QB-DISC-4", "QB-DISC-7", "QB-RECV-3", "QB-CONC-4")
def two_receivers_and_a_hang_up(run: Run, who: int) -> None:
    """A full buffer, two receivers, one with a deadline; either end disconnects."""
    with queue_pair(2, observer=look_away) as pair:
        talk = invariants.Talk(pair[0])
        run.spawn(receive_all, pair[0])
        run.spawn(receive_all, pair[0], 1)
        run.spawn(send_all, pair[1], 3)
        run.spawn(pair[who].disconnect)
        run.join()
        assert talk.looks > 3


@scenario(quick=0)
@clause("QB-DISC-5", "QB-DISC-9", "QB-BOOK-1", "QB-FIFO-4")
def both_ends_talk_and_hang_up(run: Run) -> None:
    """Each end sends more than fits, receives, and disconnects."""
    with queue_pair(1, observer=look_away) as (left, right):
        talk = invariants.Talk(left)
        for end in (left, right):
            run.spawn(send_all, end, 2)
            run.spawn(receive_all, end)
        run.spawn(left.disconnect)
        right.disconnect()
        run.join()
        assert talk.looks > 3


@scenario(quick=2)
@clause("QB-DISC-1", "QB-DISC-2")
def a_status_is_read_while_its_peer_hangs_up(run: Run) -> None:
    """A thread that reads it repeatedly sees it move down only."""
    with queue_pair(2, observer=look_away) as (left, right):
        invariants.Talk(left)
        run.spawn(look, left)
        send_all(right, 2)
        right.disconnect()
        run.join()


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The invariants hold in every schedule up to its bound, and in random ones."""
    check(scenario)


def test_every_safety_property_of_the_models_is_asserted_on_the_code() -> None:
    places = {
        "stream": stream_invariants,
        "restarts": restart_invariants,
        "search": search_invariants,
        "dialling": dialling_invariants,
    }
    for model in MODELS:
        for name in model.safety():
            assert callable(getattr(places.get(model.name, invariants), name, None)), (
                name
            )


def test_a_disconnect_that_wakes_no_waiter_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(invariants.NotingWaitList, "wake_all", lambda self: None)

    def program(run: Run) -> None:
        with queue_pair(2, observer=look_away) as (left, right):
            invariants.Talk(left)
            run.spawn(receive_all, left)
            run.settle()
            right.disconnect()

    with pytest.raises(Failure, match="nobody_sleeps_through_a_hang_up"):
        explore(program, bound=0, random=0)


def test_a_wake_up_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking.WaitList, "wake_one", lambda self: None)
    monkeypatch.setattr(invariants.NotingWaitList, "wake_one", lambda self: None)

    with pytest.raises(Failure, match="no_waiter_is_forgotten"):
        explore(both_ends_talk_and_hang_up, bound=0, random=20)


def test_a_withdrawal_without_a_reason_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "queuebroker.meeting.broker.withdraw_locked",
        lambda rdv, reason: withdraw_locked(rdv, Reason.NONE),
    )

    def program(run: Run) -> None:
        a, b = brokers()
        with invariants.watch_meetings([a, b]):
            call = connecting(run, b)
            run.settle()
            a.close()
            call.join()
            assert isinstance(call.error, BrokerClosedError)

    with pytest.raises(Failure, match="who_withdrew_knows_why"):
        explore(program, bound=0, random=0)
