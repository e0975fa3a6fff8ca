"""The rendezvous without waiting: the table of `RdV`, and the lists of `RdVMap`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import Broker, BrokerManager
from queuebroker.meeting.rendezvous import Kind, RdV, RdVEvent, RdVMap, RdVState, Terms
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCEPT, CONNECT = RdVState.WAITING_ACCEPT, RdVState.WAITING_CONNECT
MATCHED, WITHDRAWN = RdVState.MATCHED, RdVState.WITHDRAWN


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Return a broker of a new manager."""
    with BrokerManager() as manager:
        yield Broker("b", manager=manager)


def call(
    broker: Broker,
    state: RdVState,
    port: int = 1,
    kind: Kind = Kind.QUEUE,
    *,
    exclusive: bool = False,
) -> RdV:
    """Return a caller at a broker that has not begun."""
    return RdV(state, broker, broker.name, kind, port, Terms(1, exclusive=exclusive))


# The table.


@clause("QB-RDV-16")
@pytest.mark.parametrize("event", RdVEvent)
@pytest.mark.parametrize("state", RdVState)
def test_step_follows_the_table(
    broker: Broker, state: RdVState, event: RdVEvent
) -> None:
    """From waiting to the event's final state, which accepts no further event."""
    rdv = call(broker, state)

    if state in (ACCEPT, CONNECT):
        rdv.step(event)
        assert rdv.state is (MATCHED if event is RdVEvent.MATCH else WITHDRAWN)
    else:
        text = f"^cannot {event.value}: rendezvous is {state.value}$"
        with pytest.raises(ValueError, match=text):
            rdv.step(event)
        assert rdv.state is state


@pytest.mark.parametrize("state", RdVState)
def test_waiting_is_true_before_the_end_only(broker: Broker, state: RdVState) -> None:
    """A caller that is matched or withdrawn does not wait."""
    assert call(broker, state).waiting is (state in (ACCEPT, CONNECT))


def test_a_caller_waits_with_its_parker_taken_and_a_ticket_of_its_own(
    broker: Broker,
) -> None:
    """It can sleep at once, and its ticket identifies its records."""
    first, second = call(broker, ACCEPT), call(broker, ACCEPT)
    broker.waiting.add(first)

    assert first.asleep()
    assert first.ticket < second.ticket
    assert repr(first) == "<RdV queue port 1 waiting-accept>"


# The map.


@pytest.mark.parametrize(("mine", "other"), [(ACCEPT, CONNECT), (CONNECT, ACCEPT)])
def test_opposite_is_the_first_that_came_of_the_other_role(
    broker: Broker, mine: RdVState, other: RdVState
) -> None:
    """The same role, another port, or another kind does not match."""
    waiting = RdVMap()
    first, second = call(broker, other), call(broker, other)
    for rdv in (call(broker, other, 2), call(broker, other, 1, Kind.CHANNEL)):
        waiting.add(rdv)

    assert waiting.opposite_of(call(broker, mine)) is None
    waiting.add(first)
    waiting.add(second)

    assert waiting.opposite_of(call(broker, mine)) is first
    assert waiting.opposite_of(call(broker, other)) is None
    waiting.remove(first)
    assert waiting.opposite_of(call(broker, mine)) is second


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (False, False, False),
        (False, True, True),
        (True, False, True),
        (True, True, True),
    ],
)
def test_an_exclusive_accept_stands_in_the_way_of_accepts(
    broker: Broker, first: bool, second: bool, refused: bool
) -> None:
    """Either accept may be the exclusive one; connects never block it."""
    waiting = RdVMap()
    later = call(broker, ACCEPT, exclusive=second)

    assert not waiting.refuses(later)
    waiting.add(call(broker, ACCEPT, exclusive=first))

    assert waiting.refuses(later) is refused
    assert not waiting.refuses(call(broker, ACCEPT, 2, exclusive=True))
    assert not waiting.refuses(call(broker, ACCEPT, 1, Kind.CHANNEL, exclusive=True))
    assert not waiting.refuses(call(broker, CONNECT))


def test_an_exclusive_accept_does_not_mind_connects_that_wait(broker: Broker) -> None:
    """It came to match them."""
    waiting = RdVMap()
    waiting.add(call(broker, CONNECT))

    assert not waiting.refuses(call(broker, ACCEPT, exclusive=True))


def test_a_port_without_waiters_is_forgotten(broker: Broker) -> None:
    """Removing the last one leaves nothing; removing an unlisted one has no effect."""
    waiting = RdVMap()
    rdv = call(broker, ACCEPT)
    waiting.add(rdv)

    waiting.remove(call(broker, ACCEPT))
    waiting.remove(call(broker, ACCEPT, 2))
    assert list(waiting) == [rdv]
    waiting.remove(rdv)
    waiting.remove(rdv)

    assert (list(waiting), len(waiting), waiting._waiting) == ([], 0, {})


def test_count_tells_one_role_and_kind_by_port(broker: Broker) -> None:
    """Callers of the other role or kind do not count."""
    waiting = RdVMap()
    for rdv in (
        call(broker, ACCEPT, 1),
        call(broker, ACCEPT, 1),
        call(broker, ACCEPT, 2),
        call(broker, CONNECT, 3),
        call(broker, ACCEPT, 1, Kind.CHANNEL),
    ):
        waiting.add(rdv)

    assert waiting.count(ACCEPT, Kind.QUEUE) == {1: 2, 2: 1}
    assert waiting.count(CONNECT, Kind.QUEUE) == {3: 1}
    assert waiting.count(ACCEPT, Kind.CHANNEL) == {1: 1}
    assert waiting.count(CONNECT, Kind.CHANNEL) == {}
    assert len(waiting) == 5


@pytest.mark.parametrize("event", RdVEvent)
def test_mend_wakes_and_removes_callers_that_an_interrupt_left_listed(
    broker: Broker, event: RdVEvent
) -> None:
    """It wakes and removes callers that an interrupt left matched or withdrawn."""
    waiting = RdVMap()
    left, woken, waits = (call(broker, ACCEPT) for _ in range(3))
    for rdv in (left, woken, waits):
        waiting.add(rdv)
    left.step(event)
    woken.step(event)
    woken.wake()

    waiting.mend()

    assert list(waiting) == [waits]
    assert (left.asleep(), woken.asleep()) == (False, False)
    assert waits.asleep()
