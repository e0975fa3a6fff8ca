"""QB-RDV: meeting against giving up, closing, interrupts and wake-ups for no reason."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    DisconnectedQueueError,
    MessageQueue,
    PortInUseError,
    QueueBroker,
    RendezvousTimeoutError,
    UnknownBrokerError,
)
from specs.clauses import clause
from tests.schedules.outcome import failed, finish, outcome
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from queuebroker.testing import Run, Spawned


def _brokers(names: str = "ab") -> list[QueueBroker]:
    manager = BrokerManager()
    return [QueueBroker(name, manager=manager, capacity=1) for name in names]


def _talk(left: MessageQueue, right: MessageQueue) -> None:
    """Prove that these are the two ends of one connection, and hang up."""
    left.send(b"from left")
    right.send(b"from right")
    assert right.receive() == b"from left"
    assert left.receive() == b"from right"
    left.disconnect()
    right.disconnect()


def _nobody_waits(*brokers: QueueBroker) -> None:
    """No list of any broker holds anybody: no ghost, no growth (QB-RDV-8)."""
    for broker in brokers:
        assert not broker.waiting_accepts()
        assert not broker.waiting_connects()
        assert not broker.outgoing()
        assert len(broker._broker.waiting) == 0
        assert not broker._broker.waiting._waiting
        assert not broker._broker.departing


def _accept(
    run: Run,
    broker: QueueBroker,
    *,
    timeout: float | None = None,
    exclusive: bool = False,
) -> Spawned[MessageQueue]:
    """Accept on port 1 in a thread."""
    return run.spawn(
        lambda: broker.accept(1, timeout=timeout, exclusive=exclusive), name="accept"
    )


def _connect(
    run: Run, broker: QueueBroker, *, timeout: float | None = None
) -> Spawned[MessageQueue]:
    """Connect to port 1 of broker "a" in a thread."""
    return run.spawn(
        lambda: broker.connect("a", 1, timeout=timeout, required=True), name="connect"
    )


def _queue(call: Spawned[MessageQueue]) -> MessageQueue:
    end = outcome(call)
    assert isinstance(end, MessageQueue)
    return end


@scenario(spurious=1)
@clause("QB-RDV-1", "QB-RDV-2", "QB-CONC-6")
def a_pair_meets_whoever_comes_first(run: Run) -> None:
    """Accept and connect meet in every schedule, woken for no reason or not."""
    a, b = _brokers()
    accept = _accept(run, a)
    connect = _connect(run, b)

    _talk(_queue(accept), _queue(connect))
    _nobody_waits(a, b)


@scenario(wide=True)
@clause("QB-RDV-5", "QB-RDV-6")
def two_pairs_are_a_perfect_matching(run: Run) -> None:
    """Two accepts, two connects on one port: each end has one peer, nobody is left."""
    a, b = _brokers()
    accepts = [_accept(run, a) for _ in range(2)]
    connects = [_connect(run, b) for _ in range(2)]

    ends = [_queue(call) for call in (*accepts, *connects)]
    for number, end in enumerate(ends):
        end.send(b"%d" % number)
    heard = [int(end.receive()) for end in ends]
    assert sorted(heard) == [0, 1, 2, 3]
    assert all(heard[heard[number]] == number for number in range(4))
    assert all((number < 2) != (heard[number] < 2) for number in range(4))
    for end in ends:
        end.disconnect()
    _nobody_waits(a, b)


@scenario()
@clause("QB-RDV-8")
def a_port_is_used_twice_in_a_row(run: Run) -> None:
    """A matched pair leaves no trace: the port serves the next pair at once."""
    a, b = _brokers()

    def accept_twice() -> list[MessageQueue]:
        return [a.accept(1), a.accept(1)]

    accepts = run.spawn(accept_twice)
    connects = [b.connect("a", 1, required=True) for _ in range(2)]

    accepts.join()
    for left, right in zip(accepts.result, connects, strict=True):
        _talk(left, right)
    _nobody_waits(a, b)


@scenario()
@clause("QB-RDV-4", "QB-RDV-7")
def kinds_and_ports_do_not_meet(run: Run) -> None:
    """A channel's accept and a queue's on one port each meet their own kind."""
    manager = BrokerManager()
    plain = Broker("a", manager=manager)
    face = QueueBroker(plain)
    queue = run.spawn(face.accept, 1)
    channel = run.spawn(plain.accept, 1)

    near = plain.connect("a", 1, required=True)
    left = face.connect("a", 1, required=True)

    _talk(left, _queue(queue))
    far = outcome(channel)
    near.write(b"x")
    assert getattr(far, "read_exactly", lambda _: None)(1) == b"x"
    near.disconnect()
    getattr(far, "disconnect", lambda: None)()


@scenario()
@clause("QB-RDV-10")
def a_broker_meets_itself(run: Run) -> None:
    """A broker may connect to itself, from two threads."""
    (a,) = _brokers("a")
    accept = _accept(run, a)
    connect = _connect(run, a)

    _talk(_queue(accept), _queue(connect))
    _nobody_waits(a)


@scenario()
@clause("QB-RDV-9")
def an_exclusive_accept_and_another_refuse_one_another(run: Run) -> None:
    """Whoever of the two comes second is refused, unless the first has met somebody."""
    a, b = _brokers()
    exclusive = _accept(run, a, exclusive=True)
    other = _accept(run, a)
    connect = _connect(run, b)

    peer = _queue(connect)
    run.settle()
    a.close()
    ends = [
        outcome(call, PortInUseError, BrokerClosedError) for call in (exclusive, other)
    ]
    (met,) = [end for end in ends if isinstance(end, MessageQueue)]
    _talk(met, peer)
    _nobody_waits(a, b)


@scenario()
@clause("QB-RDV-11", "QB-TIME-4", "QB-TIME-5")
def both_expire_or_neither(run: Run) -> None:
    """Accept and connect with one deadline: both have an end, or both expired."""
    a, b = _brokers()
    accept = _accept(run, a, timeout=1)
    connect = _connect(run, b, timeout=1)

    ends = [outcome(call, RendezvousTimeoutError) for call in (accept, connect)]
    if RendezvousTimeoutError in ends:
        assert ends == [RendezvousTimeoutError] * 2
        assert run.now >= 1
    else:
        _talk(_queue(accept), _queue(connect))
    _nobody_waits(a, b)


@scenario()
@clause("QB-TIME-8", "QB-TIME-4")
def at_zero_both_meet_or_neither(run: Run) -> None:
    """With timeout=0 on both sides there is never one with an end and one without."""
    a, b = _brokers()
    accept = _accept(run, a, timeout=0)
    connect = _connect(run, b, timeout=0)

    finish(accept, connect)
    assert failed(accept) == failed(connect)
    if not failed(accept):
        _talk(_queue(accept), _queue(connect))
    assert run.now == 0
    _nobody_waits(a, b)


@scenario()
@clause("QB-RDV-11", "QB-RDV-5")
def a_connect_that_expires_is_not_met(run: Run) -> None:
    """One accept, two connects of which one gives up: no end without a peer."""
    a, b = _brokers()
    hasty = _connect(run, b, timeout=1)
    patient = _connect(run, b)
    accept = _accept(run, a)

    mine = _queue(accept)
    hasty.join()
    a.close()  # who has met nobody by now, never will
    theirs = [
        outcome(hasty, RendezvousTimeoutError),
        outcome(patient, BrokerClosedError, UnknownBrokerError),
    ]
    (peer,) = [end for end in theirs if isinstance(end, MessageQueue)]
    _talk(mine, peer)
    _nobody_waits(a, b)


CLOSED = {"the target": (0,), "the source": (1,)}


@scenario(variants=CLOSED)
@clause("QB-NAME-6", "QB-RDV-11")
def closing_releases_both_or_neither(run: Run, which: int) -> None:
    """Close against match: both have an end, or both raise."""
    brokers = _brokers()
    a, b = brokers
    accept = _accept(run, a)
    connect = _connect(run, b)
    close = run.spawn(brokers[which].close)

    refused = outcome(connect, BrokerClosedError, UnknownBrokerError)
    close.join()
    if isinstance(refused, MessageQueue):
        _talk(_queue(accept), refused)
    else:
        a.close()
        assert outcome(accept, BrokerClosedError) is BrokerClosedError
    _nobody_waits(a, b)


@scenario()
@clause("QB-TIME-5", "QB-NAME-6")
def an_accept_that_expires_while_its_broker_closes(run: Run) -> None:
    """It raises the one or the other; a close that had returned beats the deadline."""
    (a,) = _brokers("a")
    closed_at: list[float] = []

    def close() -> None:
        a.close()
        closed_at.append(run.now)

    accept = _accept(run, a, timeout=1)
    closing = run.spawn(close)

    end = outcome(accept, RendezvousTimeoutError, BrokerClosedError)
    closing.join()
    assert end is BrokerClosedError or closed_at[0] >= 1
    _nobody_waits(a)


@scenario()
@clause("QB-RDV-16", "QB-RDV-11")
def the_lists_keep_their_invariants(run: Run) -> None:
    """Nobody is listed who is matched or withdrawn; accepts and connects never both."""
    a, b = _brokers()

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
        _accept(run, a, timeout=1),
        _connect(run, b, timeout=1),
    ]

    ends = [outcome(call, RendezvousTimeoutError) for call in calls]
    assert outcome(watcher) is None
    for end in ends:
        if isinstance(end, MessageQueue):
            end.disconnect()
    _nobody_waits(a, b)


@scenario(variants={"accept": (0,), "connect": (1,)})
@clause("QB-RDV-11", "QB-RDV-12")
def an_interrupted_caller_leaves_nobody_behind(run: Run, which: int) -> None:
    """Struck before its match it is no ghost; struck after it, its peer sees the end."""
    a, b = _brokers()
    calls = (
        _accept(run, a),
        _connect(run, b),
    )
    victim, other = calls[which], calls[1 - which]

    run.interrupt(victim, KeyboardInterrupt)
    struck = outcome(victim, KeyboardInterrupt)
    run.settle()

    if isinstance(struck, MessageQueue):
        _talk(struck, _queue(other))
    elif other.done:
        with pytest.raises(DisconnectedQueueError):
            _queue(other).receive()
    else:
        a.close()
        assert outcome(other, BrokerClosedError) is BrokerClosedError
    _nobody_waits(a, b)


@scenario()
@clause("QB-RDV-11", "QB-CONC-4")
def an_interrupted_accept_does_not_take_anothers_turn(run: Run) -> None:
    """Two accepts, one of them struck, one connect: it meets whoever is left."""
    a, b = _brokers()
    struck = _accept(run, a)
    other = _accept(run, a)
    connect = _connect(run, b)

    run.interrupt(struck, KeyboardInterrupt)
    end = outcome(struck, KeyboardInterrupt)
    peer = _queue(connect)
    run.settle()
    if other.done:
        _talk(_queue(other), peer)
        assert end is KeyboardInterrupt
    else:
        a.close()
        assert outcome(other, BrokerClosedError) is BrokerClosedError
        if isinstance(end, MessageQueue):
            _talk(end, peer)
        else:
            with pytest.raises(DisconnectedQueueError):
                peer.receive()
    _nobody_waits(a, b)


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """Every schedule with one preemption, and others at random, keeps to the clauses."""
    check(scenario)
