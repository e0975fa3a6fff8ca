"""QB-RDV-11: callers that time out, are interrupted, or whose broker closes."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    BrokerClosedError,
    DisconnectedQueueError,
    MessageQueue,
    RendezvousTimeoutError,
    UnknownBrokerError,
)
from queuebroker.meeting import meet
from specs.clauses import clause
from tests.meetings import nobody_waits
from tests.schedules.callers import (
    accepting,
    brokers,
    connecting,
    met,
    talk,
)
from tests.schedules.outcome import failed, finish, outcome
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from queuebroker.testing import Run


@scenario()
@clause("QB-RDV-11", "QB-TIME-4", "QB-TIME-5")
def both_expire_or_neither(run: Run) -> None:
    """Accept and connect with one deadline: both have an end, or both expired."""
    a, b = brokers()
    accept = accepting(run, a, timeout=1)
    connect = connecting(run, b, timeout=1)

    ends = [outcome(call, RendezvousTimeoutError) for call in (accept, connect)]
    if RendezvousTimeoutError in ends:
        assert ends == [RendezvousTimeoutError] * 2
        assert run.now >= 1
    else:
        talk(met(accept), met(connect))
    nobody_waits(a, b)


@scenario()
@clause("QB-TIME-8", "QB-TIME-4")
def at_zero_both_meet_or_neither(run: Run) -> None:
    """With timeout=0 on both sides, both have an end or neither has."""
    a, b = brokers()
    accept = accepting(run, a, timeout=0)
    connect = connecting(run, b, timeout=0)

    finish(accept, connect)
    assert failed(accept) == failed(connect)
    if not failed(accept):
        talk(met(accept), met(connect))
    assert run.now == 0
    nobody_waits(a, b)


@scenario(quick=1)
@clause("QB-RDV-11", "QB-RDV-5")
def a_connect_that_expires_is_not_met(run: Run) -> None:
    """One accept, two connects of which one times out: no end without a peer."""
    a, b = brokers()
    hasty = connecting(run, b, timeout=1)
    patient = connecting(run, b)
    accept = accepting(run, a)

    mine = met(accept)
    hasty.join()
    a.close()  # a connect not matched by now never will be
    theirs = [
        outcome(hasty, RendezvousTimeoutError),
        outcome(patient, BrokerClosedError, UnknownBrokerError),
    ]
    (peer,) = [end for end in theirs if isinstance(end, MessageQueue)]
    talk(mine, peer)
    nobody_waits(a, b)


CLOSED = {"the target": (0,), "the source": (1,)}


@scenario(quick=1, variants=CLOSED)
@clause("QB-NAME-6", "QB-RDV-11")
def closing_releases_both_or_neither(run: Run, which: int) -> None:
    """Close against match: both have an end, or both raise."""
    both = brokers()
    a, b = both
    accept = accepting(run, a)
    connect = connecting(run, b)
    close = run.spawn(both[which].close)

    refused = outcome(connect, BrokerClosedError, UnknownBrokerError)
    close.join()
    if isinstance(refused, MessageQueue):
        talk(met(accept), refused)
    else:
        a.close()
        assert outcome(accept, BrokerClosedError) is BrokerClosedError
    nobody_waits(a, b)


@scenario()
@clause("QB-TIME-5", "QB-NAME-6")
def an_accept_that_expires_while_its_broker_closes(run: Run) -> None:
    """It raises one of the two; a close that had returned beats the deadline."""
    (a,) = brokers("a")
    closed_at: list[float] = []

    def close() -> None:
        a.close()
        closed_at.append(run.now)

    accept = accepting(run, a, timeout=1)
    closing = run.spawn(close)

    end = outcome(accept, RendezvousTimeoutError, BrokerClosedError)
    closing.join()
    assert end is BrokerClosedError or closed_at[0] >= 1
    nobody_waits(a)


@scenario(quick=1)
@clause("QB-RDV-16", "QB-RDV-11")
def the_lists_keep_their_invariants(run: Run) -> None:
    """No listed call is matched or withdrawn; a port never lists both roles."""
    a, b = brokers()

    def watch() -> None:
        for _ in range(2):
            with a.manager.lock:
                for waiting in a._broker.waiting._waiting.values():
                    assert waiting, "a port without a waiter is kept"
                    assert len({rdv.state for rdv in waiting}) == 1
                    assert all(rdv.waiting for rdv in waiting)
                    assert all(rdv.end is None for rdv in waiting)

    watcher = run.spawn(watch)
    calls = [
        accepting(run, a, timeout=1),
        connecting(run, b, timeout=1),
    ]

    ends = [outcome(call, RendezvousTimeoutError) for call in calls]
    assert outcome(watcher) is None
    for end in ends:
        if isinstance(end, MessageQueue):
            end.disconnect()
    nobody_waits(a, b)


@scenario(variants={"accept": (0,), "connect": (1,)})
@clause("QB-RDV-11", "QB-RDV-12")
def an_interrupted_caller_leaves_nobody_behind(run: Run, which: int) -> None:
    """Before its match it leaves no trace; after it, its peer sees a disconnect."""
    a, b = brokers()
    calls = (
        accepting(run, a),
        connecting(run, b),
    )
    victim, other = calls[which], calls[1 - which]

    run.interrupt(victim, KeyboardInterrupt)
    interrupted = outcome(victim, KeyboardInterrupt)
    run.settle()

    if isinstance(interrupted, MessageQueue):
        talk(interrupted, met(other))
    elif other.done:
        with pytest.raises(DisconnectedQueueError):
            met(other).receive()
    else:
        a.close()
        assert outcome(other, BrokerClosedError) is BrokerClosedError
    nobody_waits(a, b)


@scenario(quick=1)
@clause("QB-RDV-11", "QB-CONC-4")
def an_interrupted_accept_does_not_take_anothers_turn(run: Run) -> None:
    """Two accepts, one interrupted, one connect: it matches the accept that is left."""
    a, b = brokers()
    interrupted = accepting(run, a)
    other = accepting(run, a)
    connect = connecting(run, b)

    run.interrupt(interrupted, KeyboardInterrupt)
    end = outcome(interrupted, KeyboardInterrupt)
    peer = met(connect)
    run.settle()
    if other.done:
        talk(met(other), peer)
        assert end is KeyboardInterrupt
    else:
        a.close()
        assert outcome(other, BrokerClosedError) is BrokerClosedError
        if isinstance(end, MessageQueue):
            talk(end, peer)
        else:
            with pytest.raises(DisconnectedQueueError):
                peer.receive()
    nobody_waits(a, b)


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_a_caller_that_spins(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where callers spin, and make their parkers afterwards."""
    monkeypatch.setattr(meet, "LOCKED", True)
    check(scenario)
