"""A slow implementation is not a wrong one: polling breaks only its own clause."""

from __future__ import annotations

import pytest

from specs.conformance.level import Level
from specs.conformance.performance import perform
from specs.conformance.scenario import Style
from specs.conformance.scenarios import SCENARIOS
from specs.conformance.subject import Subject, load

QUICK = Level("polling", 1, 5, limit=20, rounds=1, seconds=0.1, volume=1)


@pytest.fixture(scope="module")
def polling() -> Subject:
    """Return the reference whose waits poll."""
    return load("tests.conformance.polling:factory", SCENARIOS)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.deep
def test_polling_breaks_the_clause_against_polling_only(polling: Subject) -> None:
    """Only QB-CONC-5 fails: the other clauses allow half a second."""
    outcomes = {
        scenario: perform(polling, scenario, QUICK)
        for scenario in SCENARIOS
        if scenario.style is not Style.CROWD  # polls of 30 ms make that minutes
    }

    failed = {s.name: o.trouble for s, o in outcomes.items() if not o.passed}
    broken = {
        clause for s, o in outcomes.items() if not o.passed for clause in s.clauses
    }
    assert broken == {"QB-CONC-5"}, failed
