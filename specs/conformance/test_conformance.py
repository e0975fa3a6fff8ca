"""The suite for pytest: one test for each scenario."""

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
    """Return an id by which -k can select by clause, by group and by name."""
    return f"{'+'.join(scenario.clauses)}-{scenario.name}"


# A failed program leaves ends behind, for which some implementations emit a warning.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=_name)
def test_clause(scenario: Scenario, subject: Subject, verdict: Verdict) -> None:
    """The implementation obeys the clauses of the scenario."""
    outcome = perform(subject, scenario, run_level())

    verdict.note_run(scenario, outcome.driver, passed=outcome.passed)
    if not outcome.passed:
        clauses = " ".join(scenario.clauses)
        text = f"{clauses}: {scenario.text}\n{outcome.trouble}"
        pytest.fail(text, pytrace=False)
