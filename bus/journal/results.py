"""`Result`: the summary of a check, and the files of results for other programs.

Both checkers write the same: ``verdicts.json`` with the result and the journals,
``violations.jsonl`` with one violation a line. In JSON, 64-bit numbers are hexadecimal
text, since JSON readers turn them into floats. Nothing here decides anything.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from bus.journal.rules import RULES, worst
from bus.journal.wording import hex64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from bus.journal.rules import RuleVerdict, Verdict
    from bus.journal.violation import Violation

__all__ = [
    "FIRST_PER_RULE",
    "Result",
    "first_of_each",
    "result_fields",
    "violation_fields",
    "write",
]

_T = TypeVar("_T")

FIRST_PER_RULE: Final = 10

_IDENTIFIERS: Final = ("journal", "flow", "origin")


@attrs.frozen
class Result:
    """The summary of a check.

    verdicts: one for each rule, in their order.
    violations: the number of would-be violations, FAIL and UNKNOWN.
    first: the first `FIRST_PER_RULE` of them of each rule.
    problems: the read errors, one line each.
    report: the HTML file, None if none was drawn.
    """

    verdicts: tuple[RuleVerdict, ...]
    violations: int
    first: tuple[Violation, ...]
    problems: tuple[str, ...]
    report: Path | None = None

    @property
    def verdict(self) -> Verdict:
        """FAIL if any rule's is; else UNKNOWN if any is; else PASS."""
        return worst(each.verdict for each in self.verdicts)


def first_of_each(
    per_rule: int,
    violations: Iterable[_T],
    rule_of: Callable[[_T], str] = attrgetter("rule"),
) -> Iterator[_T]:
    """Yield the first ``per_rule`` violations of each rule, in the given order.

    rule_of: returns the rule of a violation, for other forms of it than `Violation`.
    """
    left = dict.fromkeys(RULES, per_rule)
    for violation in violations:
        rule = rule_of(violation)
        if left[rule] > 0:
            left[rule] -= 1
            yield violation


def result_fields(
    result: Result, journals: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a result as JSON, with the number of its violations only.

    journals: a row for each, with any columns.
    """
    return {
        "verdict": result.verdict.value,
        "verdicts": [attrs.asdict(each) for each in result.verdicts],
        "violations": result.violations,
        "journals": [_in_hex(row) for row in journals],
        "problems": list(result.problems),
    }


def violation_fields(violation: Violation) -> dict[str, Any]:
    """Return a violation as JSON."""
    return _in_hex(attrs.asdict(violation))


def write(
    result: Result,
    violations: Iterable[Violation],
    journals: Iterable[Mapping[str, Any]],
    *,
    verdicts_path: Path,
    violations_path: Path,
) -> None:
    """Write both files.

    violations: the violations to list, all or the first of them; ``listed`` in the file
      of verdicts is their number.
    """
    listed = 0
    with violations_path.open("w", encoding="utf-8") as lines:
        for violation in violations:
            lines.write(json.dumps(violation_fields(violation)) + "\n")
            listed += 1
    fields = result_fields(result, journals) | {"listed": listed}
    verdicts_path.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")


def _in_hex(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: hex64(value) if name in _IDENTIFIERS and value is not None else value
        for name, value in row.items()
    }
