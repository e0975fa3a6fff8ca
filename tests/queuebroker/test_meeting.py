"""Brokers compared with the model: many waiting callers, one thread.

The test enlists callers with the step that every accept and connect begins with, so no
thread sleeps; other callers use timeout 0.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    BrokerNameInUseError,
    Channel,
    MessageQueue,
    PortInUseError,
    QueueBroker,
    QueueBrokerError,
    RendezvousTimeoutError,
    UnknownBrokerError,
)
from queuebroker.meeting.meet import begin, expire, outcome
from queuebroker.meeting.rendezvous import Kind, RdV, RdVState, Terms
from specs.clauses import clause
from specs.models.answers import Answer, Ending
from specs.models.rendezvous import Brokers, Medium
from tests.depth import among

if TYPE_CHECKING:
    from collections.abc import Callable

    End = MessageQueue | Channel

ACCEPT, CONNECT = RdVState.WAITING_ACCEPT, RdVState.WAITING_CONNECT
KINDS = {Medium.MESSAGE: Kind.QUEUE, Medium.CHANNEL: Kind.CHANNEL}
NAMES = st.sampled_from("ab")
PORTS = st.integers(1, 2)
MEDIA = st.sampled_from(Medium)
SIZE = Terms(1)


class Meeting(RuleBasedStateMachine):
    """Calls that keep waiting, calls with timeout 0, and closes, in one thread."""

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.manager = BrokerManager()
        self.model = Brokers()
        self.labels: dict[int, Broker] = {}
        self.waiters: dict[int, RdV] = {}
        self.ends: dict[int, End] = {}
        self.tickets = iter(range(10**6))

    def teardown(self) -> None:
        """Leave no end to be collected while connected."""
        for end in self.ends.values():
            end.disconnect()
        self.manager.close(disconnect=True)

    @rule(target=made, name=NAMES, queue=st.booleans())
    def create(self, name: str, queue: bool) -> object:
        """Create a broker, with the face for queues or without."""
        label = next(self.tickets)
        answer = self.model.create(label, name, queue=queue)
        try:
            broker = Broker(name, manager=self.manager)
        except BrokerNameInUseError:
            assert answer.kind is Ending.NAME_IN_USE
            return multiple()
        assert answer.kind is Ending.DONE
        if queue:
            QueueBroker(broker)
        self.labels[label] = broker
        return label

    @rule(label=made)
    def close(self, label: int) -> None:
        """Close a broker, perhaps again."""
        self.model.close(label)
        self.labels[label].close()

    @rule(label=made, port=PORTS, medium=MEDIA, exclusive=st.booleans())
    def accept(self, label: int, port: int, medium: Medium, exclusive: bool) -> None:
        """Accept; if there is no connect, stay listed."""
        ticket, broker = next(self.tickets), self.labels[label]
        answer = self.model.accept(
            ticket, label, port, medium=medium, exclusive=exclusive
        )
        if broker.closed:
            assert answer.kind is Ending.BROKER_CLOSED
            return
        terms = SIZE._replace(exclusive=exclusive)
        rdv = RdV(ACCEPT, broker, broker.name, KINDS[medium], port, terms)
        rdv.target = broker
        self._begin(ticket, rdv, answer)

    @rule(source=made, name=NAMES, port=PORTS, medium=MEDIA)
    def connect(self, source: int, name: str, port: int, medium: Medium) -> None:
        """Connect to a name; if there is no accept, stay listed."""
        ticket, broker = next(self.tickets), self.labels[source]
        answer = self.model.connect(ticket, source, name, port, medium=medium)
        target = self.manager.get(name)
        if answer.kind in (Ending.BROKER_CLOSED, Ending.UNKNOWN_BROKER):
            unknown = target is None or KINDS[medium] not in target.kinds
            assert broker.closed or unknown
            return
        rdv = RdV(CONNECT, broker, name, KINDS[medium], port, SIZE)
        self._begin(ticket, rdv, answer)

    @rule(label=made, port=PORTS, medium=MEDIA, exclusive=st.booleans())
    def accept_once(
        self, label: int, port: int, medium: Medium, exclusive: bool
    ) -> None:
        """Accept with timeout 0: it matches a waiting connect, or leaves no trace."""
        ticket, broker = next(self.tickets), self.labels[label]
        answer = self.model.accept(
            ticket, label, port, medium=medium, exclusive=exclusive
        )
        terms = SIZE._replace(exclusive=exclusive)
        self._once(
            ticket, answer, lambda: broker.meet_accept(KINDS[medium], port, terms, 0)
        )

    @rule(source=made, name=NAMES, port=PORTS, medium=MEDIA)
    def connect_once(self, source: int, name: str, port: int, medium: Medium) -> None:
        """Connect with timeout 0: it matches a waiting accept, or leaves no trace."""
        ticket, broker = next(self.tickets), self.labels[source]
        answer = self.model.connect(ticket, source, name, port, medium=medium)
        self._once(
            ticket,
            answer,
            lambda: broker.meet_connect(KINDS[medium], name, port, SIZE, 0),
        )

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        """Withdraw a caller that is not matched."""
        waiting = [ticket for ticket, rdv in self.waiters.items() if rdv.waiting]
        if not waiting:
            return
        ticket = data.draw(st.sampled_from(waiting))
        assert self.model.withdraw(ticket).kind is Ending.DONE
        rdv = self.waiters.pop(ticket)
        expire(rdv)
        with pytest.raises(RendezvousTimeoutError):
            outcome(rdv)

    @invariant()
    def waiters_ended_as_the_model_says(self) -> None:
        """Each waiting call has an end or an error exactly where the model has it."""
        for ticket, rdv in list(self.waiters.items()):
            ended = self.model.end_of(ticket)
            assert rdv.waiting is (ended is None)
            if ended is not None:
                assert rdv.asleep() is False
                del self.waiters[ticket]
                self._ended(ticket, ended, functools.partial(outcome, rdv))

    @invariant()
    def counters_agree(self) -> None:
        """Names, counts by port and outgoing connects are those of the model."""
        assert set(self.manager.names()) == self.model.names()
        for label, broker in self.labels.items():
            outgoing = self.model.outgoing(label)
            for medium, kind in KINDS.items():
                accepts = self.model.waiting_accepts(label, medium)
                connects = self.model.waiting_connects(label, medium)
                assert broker.count_waiting(ACCEPT, kind) == accepts
                assert broker.count_waiting(CONNECT, kind) == connects
                mine = sum(each.medium is medium for each in outgoing)
                assert sum(broker.count_departing(kind).values()) == mine

    @invariant()
    def maps_are_sound(self) -> None:
        """No port lists both roles, an ended call, or no call at all."""
        for broker in self.labels.values():
            for waiting in broker.waiting._waiting.values():
                assert len({rdv.state for rdv in waiting}) == 1
                assert all(rdv.waiting for rdv in waiting)
            assert all(rdv.waiting for rdv in broker.departing)

    def _begin(self, ticket: int, rdv: RdV, answer: Answer) -> None:
        begin(rdv)
        if answer.kind is Ending.WAITS:
            assert rdv.waiting
            self.waiters[ticket] = rdv
            return
        self._ended(ticket, answer, lambda: outcome(rdv))

    def _once(self, ticket: int, answer: Answer, act: Callable[[], End]) -> None:
        if answer.kind is Ending.WAITS:
            assert self.model.withdraw(ticket).kind is Ending.DONE
            answer = Answer(Ending.TIMED_OUT)
        self._ended(ticket, answer, act)

    def _ended(self, ticket: int, answer: Answer, act: Callable[[], End]) -> None:
        """Compare the end of a call with the model; a pair must be a pair."""
        if answer.kind is not Ending.DONE:
            with pytest.raises(ERRORS[answer.kind]):
                act()
            return
        end = act()
        self.ends[ticket] = end
        peer = self.ends.get(answer.value)  # type: ignore[call-overload]  # a ticket
        if peer is not None:
            assert peer._connection is end._connection
            assert {peer._side, end._side} == {0, 1}
            assert peer.local_name == end.remote_name


ERRORS: dict[Ending, type[QueueBrokerError]] = {
    Ending.BROKER_CLOSED: BrokerClosedError,
    Ending.UNKNOWN_BROKER: UnknownBrokerError,
    Ending.PORT_IN_USE: PortInUseError,
    Ending.TIMED_OUT: RendezvousTimeoutError,
}


@pytest.mark.parametrize("face", [Broker, QueueBroker])
@pytest.mark.parametrize(("timeout", "limit"), [(0, "0"), (0.001, "0.001")])
def test_a_timeout_says_the_seconds(
    face: type[Broker | QueueBroker], timeout: float, limit: str
) -> None:
    """As those of a send and a receive do."""
    with BrokerManager() as manager:
        b = face("b", manager=manager)

        with pytest.raises(RendezvousTimeoutError) as accepting:
            b.accept(80, timeout=timeout)
        with pytest.raises(RendezvousTimeoutError) as connecting:
            b.connect("b", 80, timeout=timeout)

    place = f"'b' port 80 within {limit} s"
    assert str(accepting.value) == f"cannot accept: no broker connected to {place}"
    assert str(connecting.value) == f"cannot connect: no broker accepted at {place}"


@pytest.mark.deep
@clause("QB-RDV-4", "QB-RDV-16", "QB-BOOK-2")
def test_brokers_behave_like_the_model() -> None:
    """Matches, waiting callers and rejections are those of the model."""
    run_state_machine_as_test(
        Meeting, settings=settings(max_examples=among(15, 60), stateful_step_count=40)
    )
