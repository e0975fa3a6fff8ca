"""Shared by the tests of the checker: its result over a history, and its content."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bus.journal.checker import CheckResult, check
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from tests.journal.histories import Condition, History, Key, store

__all__ = ["checked", "found", "held", "verdicts"]


def checked(history: History, **condition: object) -> CheckResult:
    """Check a history whose journals are all in one condition."""
    given = Condition(**condition)  # type: ignore[arg-type] # as the class says
    with tempfile.TemporaryDirectory() as folder:
        conditions = dict.fromkeys(range(history.journals), given)
        store(history, Path(folder), conditions=conditions)
        return check(open_journals(folder))


def verdicts(result: CheckResult) -> dict[str, Verdict]:
    return {each.rule: each.verdict for each in result.verdicts}


def held(result: CheckResult) -> dict[str, Verdict]:
    """Return the verdicts of correct traffic, given the items of each rule."""
    return {
        each.rule: Verdict.PASS if each.checked else Verdict.NOTHING
        for each in result.verdicts
    }


def found(result: CheckResult) -> set[tuple[Key, Verdict]]:
    return {(each.key, each.verdict) for each in result.violations}
