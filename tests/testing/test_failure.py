"""Failures: an AssertionError with all data needed to repeat it."""

from __future__ import annotations

import copy
import pickle

import pytest

from queuebroker.testing import Failure, FailureKind, UncontrolledError

FAILURES = [
    Failure(FailureKind.DEADLOCK, "a story", [0, 2], "7:1"),
    UncontrolledError(FailureKind.UNCONTROLLED, "another", [1], "7"),
]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_an_assertion_with_its_story_as_text(failure: Failure) -> None:
    assert isinstance(failure, AssertionError)
    assert str(failure) == failure.story


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_survives_copying_and_pickling(failure: Failure) -> None:
    for again in (copy.copy(failure), pickle.loads(pickle.dumps(failure))):
        assert type(again) is type(failure)
        assert (again.kind, again.story) == (failure.kind, failure.story)
        assert (again.schedule, again.seed) == (failure.schedule, failure.seed)


def test_kinds_are_their_text() -> None:
    assert [str(kind) for kind in FailureKind] == [
        "deadlock",
        "lost wake-up",
        "exception",
        "livelock",
        "uncontrolled",
        "nondeterministic",
    ]
