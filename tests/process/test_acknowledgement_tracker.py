"""`AcknowledgementTracker`: acknowledges before the comm thread wakes by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from bus.process.acknowledgement_tracker import AcknowledgementTracker
from specs.clauses import clause

if TYPE_CHECKING:
    from bus.kernel.tasks.runs import InboundRun
    from bus.model.message import Incoming

MESSAGES = 4
LENGTH = 100


class Reading:
    """A run of ten messages of one byte, of which a task has read some."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.reported = 0
        self.number = 1
        self.receipt = object()
        self.lengths = self

    def __bool__(self) -> bool:
        return self.at < 10

    def part(self, start: int, stop: int) -> SimpleNamespace:
        return SimpleNamespace(total=stop - start)


def run(at: int = 0) -> InboundRun:
    return as_run(Reading(at))


def as_run(reading: Reading) -> InboundRun:
    return cast("InboundRun", reading)


def is_due(acknowledgement_tracker: AcknowledgementTracker) -> bool:
    return acknowledgement_tracker.due


_RECEIPT = SimpleNamespace(
    peer=SimpleNamespace(acks=SimpleNamespace(in_exchange=False))
)


def message(size: int, number: int = 1) -> Incoming:
    about = SimpleNamespace(_receipt=_RECEIPT, _number=number, _size=size)
    return cast("Incoming", about)


@pytest.fixture
def acknowledgement_tracker() -> AcknowledgementTracker:
    made = AcknowledgementTracker(MESSAGES, LENGTH)
    made.wakes_soon = True  # the comm thread wakes soon
    return made


def read(
    acknowledgement_tracker: AcknowledgementTracker, now: float
) -> list[tuple[int, int]]:
    """Return the reads that are due, each as its first number and count."""
    return [
        (number, count) for _, number, count, _ in acknowledgement_tracker.take(now)
    ]


@clause("BUS-RELAY-9")
def test_few_long_messages_are_not_to_wait(
    acknowledgement_tracker: AcknowledgementTracker,
) -> None:
    """Half a window of bytes is unacknowledged: the sender may wait for that."""
    acknowledgement_tracker.note(message(LENGTH - 1))
    assert not is_due(acknowledgement_tracker)
    acknowledgement_tracker.note(message(1))
    assert is_due(acknowledgement_tracker)
    acknowledgement_tracker.take(0.0)
    acknowledgement_tracker.note(message(LENGTH - 1))
    assert not is_due(acknowledgement_tracker)


@clause("BUS-RELAY-9")
def test_many_messages_of_a_run_are_not_to_wait(
    acknowledgement_tracker: AcknowledgementTracker,
) -> None:
    assert not acknowledgement_tracker.note_run(run(MESSAGES - 1))
    assert not is_due(acknowledgement_tracker)
    acknowledgement_tracker.take(0.0)
    assert acknowledgement_tracker.note_run(run(MESSAGES))
    assert is_due(acknowledgement_tracker)


@clause("BUS-RELAY-9")
def test_without_a_wake_up_soon_nothing_waits(
    acknowledgement_tracker: AcknowledgementTracker,
) -> None:
    assert not is_due(acknowledgement_tracker)
    acknowledgement_tracker.wakes_soon = False
    assert not is_due(acknowledgement_tracker)
    assert acknowledgement_tracker.note_run(run())
    assert is_due(acknowledgement_tracker)
    acknowledgement_tracker.take(0.0)
    acknowledgement_tracker.note(message(1))
    assert is_due(acknowledgement_tracker)


@clause("BUS-RELAY-9")
def test_a_run_that_is_read_on_is_reported_whole(
    acknowledgement_tracker: AcknowledgementTracker,
) -> None:
    """The task notes the end, and may hang in a callback before that."""
    reading = Reading(2)
    acknowledgement_tracker.note_run(as_run(reading))
    assert read(acknowledgement_tracker, 0.0) == [(1, 2)]
    reading.at = 5
    assert read(acknowledgement_tracker, 1.0) == [(3, 3)]
    assert read(acknowledgement_tracker, 2.0) == []
    reading.at = 10
    assert read(acknowledgement_tracker, 3.0) == [(6, 5)]
    assert read(acknowledgement_tracker, 4.0) == []


@clause("BUS-RELAY-9")
def test_a_run_being_read_is_checked_once_more(
    acknowledgement_tracker: AcknowledgementTracker,
) -> None:
    """A task that hangs does not report its last reads."""
    acknowledgement_tracker.note_run(run(1))
    acknowledgement_tracker.take(0.0)
    at = acknowledgement_tracker.check_at
    assert at is not None
    assert 0.0 < at <= 0.01
    acknowledgement_tracker.take(at / 2)
    assert acknowledgement_tracker.check_at == at
    acknowledgement_tracker.take(at)
    assert acknowledgement_tracker.check_at is None


@clause("BUS-RELAY-9", "BUS-FLOW-1")
def test_the_note_of_an_answered_question_is_taken_out_alone(
    acknowledgement_tracker: AcknowledgementTracker,
) -> None:
    """The bytes of the other notes still count."""
    first, second = message(LENGTH - 1, 1), message(LENGTH - 1, 2)
    assert not acknowledgement_tracker.is_first(first)
    acknowledgement_tracker.note(first)
    acknowledgement_tracker.note(second)
    assert not acknowledgement_tracker.is_first(second)
    assert acknowledgement_tracker.is_first(first)

    acknowledgement_tracker.take_first()

    assert not is_due(acknowledgement_tracker)
    assert acknowledgement_tracker.note(message(1, 3))
    assert read(acknowledgement_tracker, 0.0) == [(2, 1), (3, 1)]
