"""The suite as pytest sees it: one test a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specs.conformance.level import run_level
from specs.conformance.performance import perform
from specs.conformance.scenarios import SCENARIOS

if TYPE_CHECKING:
    from specs.conformance.scenario import Scenario
    from specs.conformance.subject import Subject
    from specs.conformance.verdict import Verdict


def _name(scenario: Scenario) -> str:
    """So that -k can choose by clause, by group and by name."""
    return f"{'+'.join(scenario.clauses)}-{scenario.name}"


# A program that fails leaves ends behind, which some implementations warn about.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=_name)
def test_clause(scenario: Scenario, subject: Subject, verdict: Verdict) -> None:
    """The implementation does what the clauses of the scenario say."""
    outcome = perform(subject, scenario, run_level())

    verdict.note_run(scenario, outcome.driver, passed=outcome.passed)
    if not outcome.passed:
        clauses = " ".join(scenario.clauses)
        text = f"{clauses}: {scenario.text}\n{outcome.trouble}"
        pytest.fail(text, pytrace=False)
