"""A checker with the model of brokers accepts all right histories, and only those."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker.errors import (
    BrokerClosedError,
    BrokerNameInUseError,
    PortInUseError,
    RendezvousTimeoutError,
    UnknownBrokerError,
)
from specs.models.meetings import BrokerModel, meetings
from specs.models.rendezvous import Medium
from tests.specs.models.recorded import Call, explained, one_by_one
from tests.specs.models.simulated import BrokerWorld, simulate

LABELS = st.sampled_from(["a1", "b1"])
NAMES = st.sampled_from(["a", "b"])
TURNS = st.lists(st.integers(0, 5), min_size=20, max_size=80)

NEVER = math.inf
CLOSED = BrokerClosedError("closed")
LATE = RendezvousTimeoutError("late")


def accepted(*history: Call) -> bool:
    return explained(BrokerModel(), meetings(history))


def in_turn(*calls: Call) -> bool:
    return accepted(*one_by_one(*calls))


A = Call("create", ("a1", "a"), result="a1")
B = Call("create", ("b1", "b"), result="b1")

PROGRAMS = st.lists(
    st.lists(
        st.one_of(
            st.just(Call("create", ("a1", "a"))),
            st.just(Call("create", ("b1", "b"))),
            st.builds(lambda label: Call("close", (label,)), LABELS),
            st.builds(lambda name: Call("get", (name,)), NAMES),
            st.builds(
                lambda label, gives_up: Call("accept", (label, 7), gives_up=gives_up),
                LABELS,
                st.booleans(),
            ),
            st.builds(
                lambda label, name, gives_up: Call(
                    "connect", (label, name, 7), gives_up=gives_up
                ),
                LABELS,
                NAMES,
                st.booleans(),
            ),
        ),
        max_size=3,
    ),
    min_size=1,
    max_size=3,
)


@given(PROGRAMS, TURNS)
def test_the_checker_accepts_every_history_of_the_model(
    callers: list[list[Call]], turns: list[int]
) -> None:
    first = [[A, B, *callers[0]], *callers[1:]]

    assert accepted(*simulate(BrokerWorld(), first, turns))


def accept(result: object, start: int, end: float, label: str = "b1") -> Call:
    return Call("accept", (label, 7), result, None, start, end)


def connect(result: object, start: int, end: float, name: str = "b") -> Call:
    return Call("connect", ("a1", name, 7), result, None, start, end)


def refused(start: int, end: int) -> Call:
    """Return an exclusive accept that finds another one waiting."""
    error = PortInUseError("in use")
    return Call("accept_exclusive", ("b1", 7), None, error, start, end)


START = one_by_one(A, B)


@pytest.mark.parametrize(("first", "second"), [(4, 5), (5, 4)])
def test_a_rendez_vous_in_either_order(first: int, second: int) -> None:
    assert accepted(*START, accept(1, first, 6), connect(1, second, 7))


def test_two_sides_that_never_overlapped_did_not_meet() -> None:
    assert not accepted(*START, accept(1, 4, 5), connect(1, 6, 7))


def test_two_of_one_role_do_not_meet() -> None:
    assert not accepted(*START, accept(1, 4, 6), accept(1, 5, 7))


def test_the_two_sides_return_one_connection() -> None:
    assert not accepted(*START, accept(1, 4, 6), connect(2, 5, 7))


def test_a_side_that_met_somebody_returns_a_connection() -> None:
    assert not accepted(*START, accept(None, 4, 6), connect(None, 5, 7))


def test_a_connection_has_two_sides_only() -> None:
    pair = accept(1, 4, 8), connect(1, 5, 9)
    other = accept(1, 6, 10), connect(1, 7, 11)

    assert not accepted(*START, *pair, *other)


def test_the_oldest_accept_is_served_first() -> None:
    # The exclusive accept that fails in between proves that the first accept was listed
    # before the second was called.
    witness = refused(5, 6)
    met = connect(1, 8, 9), connect(2, 10, 11)

    assert accepted(*START, accept(1, 4, 20), witness, accept(2, 7, 21), *met)
    assert not accepted(*START, accept(2, 4, 20), witness, accept(1, 7, 21), *met)


def test_a_lone_side_does_not_return() -> None:
    assert not accepted(*START, accept(1, 4, 5))
    assert accepted(*START, accept(None, 4, NEVER))


def test_a_side_may_return_while_its_opposite_is_pending() -> None:
    assert accepted(*START, accept(1, 4, 6), connect(None, 5, NEVER))


def test_a_caller_that_timed_out_has_no_match() -> None:
    late = attrs.evolve(accept(None, 4, 6), error=LATE)

    assert accepted(*START, late)
    assert not accepted(*START, late, connect(1, 5, 7))


def test_no_caller_times_out_while_its_opposite_waits() -> None:
    # The connect waits all the time and is never matched: the accept should have been.
    waiting = connect(None, 4, NEVER)
    reported = Call("close", ("b1",), began=20, ended=21)
    late = attrs.evolve(accept(None, 6, 7), error=LATE)
    ended = attrs.evolve(connect(None, 4, 22), error=CLOSED)

    assert accepted(*START, waiting, late)  # it may have been listed later
    assert accepted(*START, ended, late, reported)


def test_an_interrupted_side_leaves_its_opposite_an_end_or_nothing() -> None:
    interrupted = attrs.evolve(accept(None, 4, 6), error=KeyboardInterrupt())

    assert accepted(*START, interrupted)
    assert accepted(*START, interrupted, connect(1, 5, 7))


def test_close_ends_the_accepts_at_a_broker_and_the_connects_from_it() -> None:
    calls = [
        attrs.evolve(accept(None, 4, 10, "a1"), error=CLOSED),
        attrs.evolve(connect(None, 5, 11), error=CLOSED),
        Call("close", ("a1",), began=6, ended=7),
    ]

    assert accepted(*START, *calls)
    assert not accepted(*START, *calls[:2])


def test_close_has_no_middle() -> None:
    closing = Call("close", ("b1",), began=6, ended=7)
    raised = attrs.evolve(connect(None, 5, 9), error=CLOSED)

    assert not accepted(*START, accept(1, 4, 8), raised, closing)
    assert accepted(*START, accept(1, 4, 8), connect(1, 5, 9), closing)


UNKNOWN = Call("connect", ("a1", "x", 7))
STRICT = attrs.evolve(UNKNOWN, error=UnknownBrokerError("x"))
LABELLED = Call("get", ("a",), result="a1")
CLOSE_A = Call("close", ("a1",))
TAKEN = Call("create", ("a2", "a"), error=BrokerNameInUseError("a"))
AGAIN = Call("create", ("a2", "a"))
PLAIN = Call("create_plain", ("p1", "p"))


@pytest.mark.parametrize(
    ("calls", "right"),
    [
        ((A, UNKNOWN), True),
        ((A, STRICT), True),
        ((A, attrs.evolve(UNKNOWN, args=("a1", "a", 7))), False),
        ((A, PLAIN, attrs.evolve(UNKNOWN, args=("a1", "p", 7))), True),
        ((A, CLOSE_A, attrs.evolve(UNKNOWN, error=CLOSED)), True),
        ((A, CLOSE_A, Call("accept", ("a1", 7), error=CLOSED)), True),
        ((A, Call("accept", ("a1", 7), error=CLOSED)), False),
        ((A, LABELLED), True),
        ((LABELLED, A), False),
        ((A, CLOSE_A, LABELLED), False),
        ((A, CLOSE_A, attrs.evolve(LABELLED, result=None)), True),
        ((A, TAKEN), True),
        ((TAKEN,), False),
        ((A, AGAIN), False),
        ((A, CLOSE_A, AGAIN, CLOSE_A, attrs.evolve(LABELLED, result="a2")), True),
        ((A, Call("accept", ("a1", -1), error=ValueError())), True),
        ((A, Call("create", ("b1", ""), error=ValueError()), B), True),
        ((Call("create", ("a1", "a"), error=KeyboardInterrupt()), LABELLED), True),
        ((Call("accept", ("a1", 7), error=PortInUseError("7")),), False),
    ],
)
def test_names_and_refusals(calls: tuple[Call, ...], right: bool) -> None:
    assert in_turn(*calls) == right


def test_an_exclusive_accept_is_refused_while_another_waits() -> None:
    waiting = accept(None, 4, NEVER)

    assert accepted(*START, waiting, refused(5, 6))
    assert not accepted(*START, refused(5, 6))


def test_a_plain_broker_meets_for_bytes_only() -> None:
    start = one_by_one(A, PLAIN)
    accepting = Call("accept", ("p1", 7, Medium.CHANNEL), 1, None, 4, 6)
    connecting = Call("connect", ("a1", "p", 7, Medium.CHANNEL), 1, None, 5, 7)
    other = attrs.evolve(connecting, args=("a1", "p", 7))

    assert accepted(*start, accepting, connecting)
    assert not accepted(*start, accepting, other)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="no operation of the model: 'shout'"):
        in_turn(Call("shout", ("a1",)))
