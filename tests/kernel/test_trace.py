"""`Trace`: the records that a journal receives of one message, step by step."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, get_args

import pytest

from bus.errors import (
    AddresseeGoneError,
    BusError,
    BusFullError,
    ExpiredError,
    InDoubtError,
    PeerLostError,
    UnreachableError,
    UnresolvedError,
)
from bus.kernel.trace import Trace, Tracer, dropped_by
from bus.model.events import BusOperation as Op
from bus.model.events import BusReason as Why
from bus.model.message import Kind
from bus.model.registration import Overflow
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable

ORIGIN, SIZE, HERE, THERE, MID = 5, 64, 7, 8, 3

# The record of one step: operation, mid, destination, hop, reason.
Reported = tuple[Op, int, int, int, int]


class Notes:
    """A trace sink that keeps the records of messages, and no payload."""

    keeps_payloads = None

    def __init__(self) -> None:
        self.reported: list[Reported] = []
        self.common: set[tuple[int, int, Kind]] = set()  # fields equal in all steps

    def record(
        self,
        operation: Op,
        origin: int,
        mid: int,
        destination: int,
        hop: int = 0,
        size: int = 0,
        reason: Why | int = 0,
        kind: Kind = Kind.COMMAND,
        flags: int = 0,
        location: int = 0,
    ) -> None:
        assert not flags | location
        self.reported.append((operation, mid, destination, hop, reason))
        self.common.add((origin, size, kind))

    def write_payload(self, *_: object, failed: bool) -> tuple[int, int]:
        raise AssertionError(failed)

    def on_registered(self, registration: int, name: str) -> None:
        raise AssertionError

    def on_task_event(
        self, operation: Op, registration: int, number: int = 0, name: str = ""
    ) -> None:
        raise AssertionError

    def link_up(self, pid: int, machine: str, process: str) -> None:
        raise AssertionError

    def link_down(self, pid: int, machine: str, process: str, reason: Why) -> None:
        raise AssertionError


@pytest.fixture
def notes() -> Notes:
    """Return an empty trace sink."""
    return Notes()


@pytest.fixture
def tracer(notes: Notes) -> Tracer:
    """Return the tracer of a task whose next message has number `MID`."""
    return Tracer(notes, ORIGIN, itertools.count(MID))


Steps = tuple["Callable[[Trace], object]", ...]


def accepted(destination: int) -> Callable[[Trace], object]:
    return lambda trace: trace.record_accepted(destination)


def discarded(reason: Why) -> Callable[[Trace], object]:
    return lambda trace: trace.record_discarded(reason)


def failed(
    error: BusError, *, reported: bool, reason: Why | None = None
) -> Callable[[Trace], object]:
    return lambda trace: trace.record_failed(error, reason, told=reported)


COMMANDED: Reported = (Op.COMMAND, MID, HERE, 0, 0)
GONE: Reported = (Op.DISCARD, MID, HERE, 0, Why.ADDRESSEE_GONE)
ELSEWHERE: Reported = (Op.COMMAND, MID, THERE, 0, 0)

STEPS: dict[str, tuple[Steps, list[Reported]]] = {
    "delivered": (
        (accepted(HERE), Trace.record_extracted, Trace.record_delivered),
        [COMMANDED, (Op.EXTRACT, MID, HERE, 0, 0), (Op.DELIVER, MID, HERE, 0, 0)],
    ),
    "sent": (
        (accepted(HERE), Trace.record_sent),
        [COMMANDED, (Op.RELAY_OUT, MID, HERE, 1, 0)],
    ),
    "lost on its way": (
        (accepted(HERE), lambda trace: trace.record_lost(Why.PROCESS_LOST)),
        [COMMANDED, (Op.IN_DOUBT, MID, HERE, 0, Why.PROCESS_LOST)],
    ),
    "accepted again at one place": (
        (accepted(HERE), accepted(HERE)),
        [COMMANDED, COMMANDED],
    ),
    "accepted elsewhere": (
        (accepted(HERE), accepted(THERE)),
        [COMMANDED, GONE, ELSEWHERE],
    ),
    "accepted elsewhere once it came back": (
        (accepted(HERE), discarded(Why.ADDRESSEE_GONE), accepted(THERE)),
        [COMMANDED, GONE, ELSEWHERE],
    ),
    "accepted again once it came back": (
        (accepted(HERE), discarded(Why.ADDRESSEE_GONE), accepted(HERE)),
        [COMMANDED, GONE, COMMANDED],
    ),
    "discarded twice": (
        (accepted(HERE), discarded(Why.OLDEST), discarded(Why.UNWANTED)),
        [COMMANDED, (Op.DISCARD, MID, HERE, 0, Why.OLDEST)],
    ),
    "discarded at each of two places": (
        (
            *(accepted(HERE), discarded(Why.ADDRESSEE_GONE)),
            *(accepted(THERE), discarded(Why.UNWANTED)),
        ),
        [COMMANDED, GONE, ELSEWHERE, (Op.DISCARD, MID, THERE, 0, Why.UNWANTED)],
    ),
    "discarded before anybody had it": ((discarded(Why.OLDEST),), []),
    "failed before anybody had it": (
        (Trace.number, failed(UnresolvedError("t", 1.0), reported=True)),
        [],
    ),
}


@clause("B3")
@pytest.mark.parametrize("name", STEPS)
def test_each_step_is_recorded(name: str, notes: Notes, tracer: Tracer) -> None:
    steps, reported = STEPS[name]
    trace = tracer.command(SIZE)

    for step in steps:
        step(trace)

    assert notes.reported == reported
    assert notes.common <= {(ORIGIN, SIZE, Kind.COMMAND)}


# Each error with its operations, if the sender is informed and if not, and its reason.
FAILURES: dict[str, tuple[BusError, Op, Op, Why]] = {
    type(error).__name__: (error, reported, untold, why)
    for error, reported, untold, why in (
        (AddresseeGoneError("t"), Op.UNDELIVERED, Op.DISCARD, Why.ADDRESSEE_GONE),
        (BusFullError("t", 1), Op.UNDELIVERED, Op.DISCARD, Why.FULL),
        (ExpiredError("t"), Op.UNDELIVERED, Op.DISCARD, Why.EXPIRED),
        (InDoubtError("t"), Op.IN_DOUBT, Op.IN_DOUBT, Why.PROCESS_LOST),
        (UnreachableError("t", "x"), Op.UNDELIVERED, Op.DISCARD, Why.UNREACHABLE),
        (UnresolvedError("t", 1.0), Op.UNDELIVERED, Op.DISCARD, Why.UNRESOLVED),
    )
}


@clause("B3")
@pytest.mark.parametrize("reported", [True, False])
@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_recorded_according_to_its_error(
    name: str, reported: bool, notes: Notes, tracer: Tracer
) -> None:
    error, if_told, if_not, why = FAILURES[name]
    trace = tracer.command(SIZE)
    trace.record_accepted(HERE)

    trace.record_failed(error, told=reported)

    operation = if_told if reported else if_not
    assert notes.reported == [COMMANDED, (operation, MID, HERE, 0, why)]


@pytest.mark.parametrize("reported", [True, False])
def test_a_failure_is_recorded_with_a_more_specific_reason(
    reported: bool, notes: Notes, tracer: Tracer
) -> None:
    trace = tracer.command(SIZE)
    trace.record_accepted(HERE)

    trace.record_failed(BusFullError("t", 1), Why.OLDEST, told=reported)

    assert notes.reported[1:] == [
        (Op.UNDELIVERED if reported else Op.DISCARD, MID, HERE, 0, Why.OLDEST)
    ]


@clause("B3")
@pytest.mark.parametrize("reported", [True, False])
def test_a_lost_peer_adds_no_record(
    reported: bool, notes: Notes, tracer: Tracer
) -> None:
    """The peer had taken the message; the loss of the answer is no step of it."""
    trace = tracer.command(SIZE)
    trace.record_accepted(HERE)

    trace.record_failed(PeerLostError("t"), told=reported)

    assert notes.reported == [COMMANDED]


@clause("B3")
def test_an_unreported_failure_is_recorded_once(notes: Notes, tracer: Tracer) -> None:
    trace = tracer.command(SIZE)
    trace.record_accepted(HERE)

    trace.record_failed(BusFullError("t", 1), told=False)
    trace.record_failed(ExpiredError("t"), told=False)

    assert len(notes.reported) == 2


# Numbers.


@clause("B5")
def test_a_message_has_its_number_once_it_is_accepted(
    notes: Notes, tracer: Tracer
) -> None:
    first, second, refused, third = (tracer.command(SIZE) for _ in range(4))

    second.record_accepted(HERE)
    first.record_accepted(HERE)
    third.record_accepted(HERE)

    assert refused.mid == 0
    assert [mid for _, mid, *_ in notes.reported] == [MID, MID + 1, MID + 2]


@clause("B5")
def test_one_that_waits_for_a_name_keeps_its_turn(notes: Notes, tracer: Tracer) -> None:
    waits, other = tracer.command(SIZE), tracer.command(SIZE)

    waits.number()
    other.record_accepted(THERE)
    waits.number()
    waits.record_accepted(HERE)

    assert notes.reported == [(Op.COMMAND, MID + 1, THERE, 0, 0), COMMANDED]


# Other kinds.


def test_a_notification_is_recorded_once_per_subscriber(
    notes: Notes, tracer: Tracer
) -> None:
    for destination in (HERE, THERE):
        tracer.notification(SIZE).record_accepted(destination)

    assert notes.reported == [
        (Op.NOTIFY, MID, HERE, 0, 0),
        (Op.NOTIFY, MID + 1, THERE, 0, 0),
    ]
    assert notes.common == {(ORIGIN, SIZE, Kind.NOTIFICATION)}


@clause("B2")
def test_a_notification_to_other_processes_is_recorded_once_per_process(
    notes: Notes, tracer: Tracer
) -> None:
    abroad = tracer.remote_notification(SIZE)
    abroad.record_accepted(1)  # the destination is the audience, which is no task

    copies = [abroad.for_subscriber(), abroad.for_subscriber()]
    for copy, process in zip(copies, (HERE, THERE), strict=True):
        copy.record_accepted(process)
        copy.record_sent()

    assert notes.reported == [
        (Op.NOTIFY, MID, HERE, 0, 0),
        (Op.RELAY_OUT, MID, HERE, 1, 0),
        (Op.NOTIFY, MID, THERE, 0, 0),
        (Op.RELAY_OUT, MID, THERE, 1, 0),
    ]
    assert notes.common == {(ORIGIN, SIZE, Kind.NOTIFICATION)}


@clause("B2")
def test_a_message_from_a_link_is_recorded_with_its_hop(notes: Notes) -> None:
    """Its origin has recorded its acceptance."""
    trace = Trace(notes, Kind.COMMAND, ORIGIN, SIZE, mid=MID, hop=2)

    trace.destination = HERE
    trace.record_arrived()
    trace.record_accepted(HERE)
    trace.record_sent()

    assert notes.reported == [
        (Op.RELAY_IN, MID, HERE, 2, 0),
        (Op.RELAY_OUT, MID, HERE, 3, 0),
    ]


@clause("B2")
def test_a_copy_for_a_subscriber_keeps_the_hop_of_its_notification(
    notes: Notes,
) -> None:
    received = Trace(notes, Kind.NOTIFICATION, ORIGIN, SIZE, mid=MID, hop=1)

    received.for_subscriber().record_accepted(THERE)

    assert notes.reported == [(Op.NOTIFY, MID, THERE, 1, 0)]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (Kind.COMMAND, Kind.COMMAND_RESPONSE),
        (Kind.NOTIFICATION, Kind.NOTIFICATION_RESPONSE),
    ],
)
def test_an_answer_carries_the_number_of_its_question_and_its_responder(
    question: Kind, answer: Kind, notes: Notes
) -> None:
    asked = Trace(notes, question, ORIGIN, SIZE, mid=MID, hop=1)

    trace = asked.answer(HERE, 9)
    trace.record_accepted(ORIGIN)
    trace.record_sent()

    assert notes.reported == [
        (Op.RESPOND, MID, ORIGIN, 0, 0),
        (Op.RELAY_OUT, MID, ORIGIN, 1, 0),
    ]
    assert notes.common == {(HERE, 9, answer)}


DROPPED = {"drop-oldest": Why.OLDEST, "drop-newest": Why.NEWEST}


@pytest.mark.parametrize("overflow", get_args(Overflow))
def test_each_policy_has_its_reason(overflow: Overflow) -> None:
    assert dropped_by(overflow) is DROPPED.get(overflow, Why.FULL)
