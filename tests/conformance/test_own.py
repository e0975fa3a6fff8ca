"""The conformance suite over `queuebroker` itself: everything is offered and holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specs.conformance.performance import perform
from specs.conformance.scenarios import SCENARIOS
from specs.conformance.subject import Subject, load
from tests.conformance.effort import effort

if TYPE_CHECKING:
    from specs.conformance.scenario import Scenario


@pytest.fixture(scope="module")
def own() -> Subject:
    """Return the library as the suite sees it."""
    return load("tests.conformance.own:factory", SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_own(own: Subject, scenario: Scenario) -> None:
    """The scenario is offered, and its clauses hold."""
    assert own.lacks(scenario) is None

    outcome = perform(own, scenario, effort())

    assert outcome.passed, outcome.trouble


def test_own_is_driven_by_the_explorer(own: Subject) -> None:
    """Real threads would sample only random schedules."""
    assert own.trial.explored
