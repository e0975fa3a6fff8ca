"""The control: a correct implementation in plain threading passes the whole suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specs.conformance.level import Level
from specs.conformance.performance import perform
from specs.conformance.scenarios import SCENARIOS
from specs.conformance.subject import Subject, load

if TYPE_CHECKING:
    from specs.conformance.scenario import Scenario

# The reference has one lock a connection and wakes every waiter, so an error shows in
# few schedules.
CONTROL = Level("control", 1, 10, limit=40, rounds=3, seconds=0.5, volume=1)


@pytest.fixture(scope="module")
def reference() -> Subject:
    """Return the reference as the suite sees it."""
    return load("tests.conformance.reference:factory", SCENARIOS)


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_reference(reference: Subject, scenario: Scenario) -> None:
    """The scenario is offered, and its clauses hold."""
    assert reference.lacks(scenario) is None

    outcome = perform(reference, scenario, CONTROL)

    assert outcome.passed, outcome.trouble


def test_reference_is_driven_by_the_explorer(reference: Subject) -> None:
    """It is pure Python threading, which the explorer controls."""
    assert reference.trial.explored
