"""The report: which clauses hold, fail, or were not offered, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specs.conformance.scenario import Scenario
from specs.conformance.verdict import Verdict

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


def scenario(name: str, *clauses: str) -> Scenario:
    """Return a scenario that is never run."""

    def program(stage: Stage) -> None:
        raise AssertionError

    return Scenario(name, clauses, program)


def test_one_failure_fails_the_clause() -> None:
    """However many other scenarios of it passed."""
    verdict = Verdict("x:y")
    verdict.note_run(scenario("a.one", "QB-DISC-2"), "explorer", passed=True)
    verdict.note_run(scenario("a.two", "QB-DISC-2"), "explorer", passed=False)

    assert verdict.held == []
    assert verdict.failed == ["QB-DISC-2"]


def test_one_that_could_be_asked_is_enough() -> None:
    """A clause is not offered only if none of its scenarios was."""
    verdict = Verdict("x:y")
    verdict.note_missing(scenario("a.one", "QB-DISC-2"), "no queue.pending")
    verdict.note_run(scenario("a.two", "QB-DISC-2"), "explorer", passed=True)
    verdict.note_missing(scenario("a.three", "QB-DISC-3"), "no queue.pending")

    assert verdict.held == ["QB-DISC-2"]
    assert verdict.not_offered == ["QB-DISC-3"]


def test_the_report_is_sorted_and_grouped() -> None:
    """By group, then by number; clauses with the same lack are listed together."""
    verdict = Verdict("mine.py:factory")
    for number in (10, 9, 2):
        verdict.note_run(
            scenario(f"a.{number}", f"QB-RDV-{number}"), "explorer", passed=True
        )
    verdict.note_run(scenario("b.one", "QB-DISC-1"), "explorer", passed=True)
    verdict.note_run(scenario("c.one", "QB-SEND-1"), "real threads", passed=False)
    verdict.note_run(scenario("c.two", "QB-SEND-1"), "explorer", passed=False)
    verdict.note_missing(scenario("d.one", "QB-TIME-2"), "TIME not in offers")
    verdict.note_missing(scenario("d.two", "QB-TIME-1"), "TIME not in offers")
    verdict.note_missing(scenario("d.three", "QB-RDV-14"), "no broker.close")

    assert list(verdict.lines()) == [
        "conformance of mine.py:factory",
        "scenarios: 5 under the explorer, 1 on real threads",
        "held: 4",
        "  QB-DISC-1",
        "  QB-RDV-2 QB-RDV-9 QB-RDV-10",
        "failed: 1",
        "  QB-SEND-1    c.one, c.two",
        "not offered: 3",
        "  QB-RDV-14 (no broker.close)",
        "  QB-TIME-1 QB-TIME-2 (TIME not in offers)",
    ]


def test_long_rows_are_wrapped() -> None:
    """No line is wider than a screen, and no line break is inside a clause."""
    verdict = Verdict("x:y")
    for number in range(1, 40):
        verdict.note_run(
            scenario(f"a.{number}", f"QB-DISC-{number}"), "explorer", passed=True
        )

    lines = list(verdict.lines())

    assert max(map(len, lines)) <= 88
    assert " ".join(lines).count("QB-DISC-") == 39


def test_an_empty_verdict_states_that_no_scenario_was_run() -> None:
    """An empty report must not look like a good one."""
    assert list(Verdict("x:y").lines())[1] == "scenarios: none was run"
