"""QB-RDV: matches of accepts and connects, in every schedule."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    MessageQueue,
    PortInUseError,
    QueueBroker,
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
from tests.schedules.outcome import outcome
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from queuebroker.testing import Run


@scenario(spurious=1)
@clause("QB-RDV-1", "QB-RDV-2", "QB-CONC-6")
def a_pair_meets_whoever_comes_first(run: Run) -> None:
    """Accept and connect meet in every schedule, with spurious wake-ups or without."""
    a, b = brokers()
    accept = accepting(run, a)
    connect = connecting(run, b)

    talk(met(accept), met(connect))
    nobody_waits(a, b)


@scenario(quick=0)
@clause("QB-RDV-5", "QB-RDV-6")
def two_pairs_are_a_perfect_matching(run: Run) -> None:
    """Two accepts, two connects on one port: each end has one peer."""
    a, b = brokers()
    accepts = [accepting(run, a) for _ in range(2)]
    connects = [connecting(run, b) for _ in range(2)]

    ends = [met(call) for call in (*accepts, *connects)]
    for number, end in enumerate(ends):
        end.send(b"%d" % number)
    received = [int(end.receive()) for end in ends]
    assert sorted(received) == [0, 1, 2, 3]
    assert all(received[received[number]] == number for number in range(4))
    assert all((number < 2) != (received[number] < 2) for number in range(4))
    for end in ends:
        end.disconnect()
    nobody_waits(a, b)


@scenario()
@clause("QB-RDV-8")
def a_port_is_used_twice_in_a_row(run: Run) -> None:
    """A matched pair leaves no trace: the port serves the next pair at once."""
    a, b = brokers()

    def accept_twice() -> list[MessageQueue]:
        return [a.accept(1), a.accept(1)]

    accepts = run.spawn(accept_twice)
    connects = [b.connect("a", 1, required=True) for _ in range(2)]

    accepts.join()
    for left, right in zip(accepts.result, connects, strict=True):
        talk(left, right)
    nobody_waits(a, b)


@scenario()
@clause("QB-RDV-4", "QB-RDV-7")
def kinds_and_ports_do_not_meet(run: Run) -> None:
    """A channel's accept and a queue's on one port each match their own kind."""
    manager = BrokerManager()
    plain = Broker("a", manager=manager)
    face = QueueBroker(plain)
    queue = run.spawn(face.accept, 1)
    channel = run.spawn(plain.accept, 1)

    near = plain.connect("a", 1, required=True)
    left = face.connect("a", 1, required=True)

    talk(left, met(queue))
    far = outcome(channel)
    near.write(b"x")
    assert getattr(far, "read_exactly", lambda _: None)(1) == b"x"
    near.disconnect()
    getattr(far, "disconnect", lambda: None)()


@scenario()
@clause("QB-RDV-10")
def a_broker_meets_itself(run: Run) -> None:
    """A broker may connect to itself, from two threads."""
    (a,) = brokers("a")
    accept = accepting(run, a)
    connect = connecting(run, a)

    talk(met(accept), met(connect))
    nobody_waits(a)


@scenario(quick=1)
@clause("QB-RDV-9")
def an_exclusive_accept_and_another_refuse_one_another(run: Run) -> None:
    """The second of the two is rejected, unless the first is already matched."""
    a, b = brokers()
    exclusive = accepting(run, a, exclusive=True)
    other = accepting(run, a)
    connect = connecting(run, b)

    peer = met(connect)
    run.settle()
    a.close()
    ends = [
        outcome(call, PortInUseError, BrokerClosedError) for call in (exclusive, other)
    ]
    (winner,) = [end for end in ends if isinstance(end, MessageQueue)]
    talk(winner, peer)
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
