"""Shared by the tests of the checker: its result over a history, and its content."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bus.journal.checker import CheckResult, check
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from tests.journal.histories import Condition, History, Key, store
from tests.journal.predicates import would_be_violations

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["checked", "found", "held", "judged", "verdicts"]


def checked(history: History, **condition: object) -> CheckResult:
    """Check a history whose journals are all in one condition."""
    given = Condition(**condition)  # type: ignore[arg-type] # as the class says
    with tempfile.TemporaryDirectory() as folder:
        conditions = dict.fromkeys(range(history.journals), given)
        store(history, Path(folder), conditions=conditions)
        return check(open_journals(folder))


def judged(history: History, conditions: Mapping[int, Condition]) -> CheckResult:
    """Check a history, also against the predicates word for word."""
    with tempfile.TemporaryDirectory() as folder:
        store(history, Path(folder), conditions=conditions)
        result = check(open_journals(folder))
        assert found(result) == would_be_violations(open_journals(folder))
    return result


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
