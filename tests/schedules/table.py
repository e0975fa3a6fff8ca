"""The table of a survey: one line for each scenario as it ends, and the totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queuebroker.testing import Report
    from tests.schedules.survey import Finding

__all__ = ["head", "line", "summary"]

_COLUMNS: Final = "{:>9} {:>8} {:>9} {:>18} {:>6}  {}"


def head() -> str:
    """Return the names of the columns."""
    names = ("schedules", "classes", "exhausted", "saturated", "s", "scenario: clauses")
    return _COLUMNS.format(*names)


def line(finding: Finding) -> str:
    """Return the line of one scenario."""
    text = f"{finding.scenario.name}: {' '.join(finding.scenario.clauses)}"
    report = finding.report
    if report is None:
        return _COLUMNS.format("-", "-", "-", "FAILED", "-", text)
    doubled = finding.doubled
    return _COLUMNS.format(
        f"{finding.schedules:,}",
        f"{max(report.classes, doubled.classes if doubled else 0):,}",
        _exhausted(report),
        _saturated(finding),
        f"{finding.seconds:.1f}",
        text,
    )


def summary(findings: Sequence[Finding]) -> str:
    """Return the totals, and for each group of clauses its number of scenarios."""
    reports = [one.report for one in findings if one.report is not None]
    schedules = sum(one.schedules for one in findings)
    seconds = sum(one.seconds for one in findings)
    exhausted = sum(report.exhausted for report in reports)
    saturated = sum(one.saturated for one in findings)
    failed = len(findings) - len(reports)
    rate = schedules / seconds if seconds else 0
    return "\n".join(
        (
            f"{len(findings)} scenarios: {exhausted} exhausted to their bound,"
            f" {saturated} saturated, {failed} failed",
            f"{schedules:,} schedules in {seconds:.0f} s ({rate:,.0f}/s)",
            ", ".join(f"{name}: {count}" for name, count in _groups(findings)),
        )
    )


def _exhausted(report: Report) -> str:
    """Name the bounds that were exhausted: "0-2", or "0-1 of 2" if 2 was not."""
    complete = [one.bound for one in report.rounds if one.exhausted]
    if not complete:
        return "none"
    last = complete[-1]
    return f"0-{last}" if report.exhausted else f"0-{last} of {report.rounds[-1].bound}"


def _saturated(finding: Finding) -> str:
    """Return the cell that says if the second half of the random runs saw nothing new.

    If they were doubled, it has the numbers of classes before and after that.
    """
    text = "yes" if finding.saturated else "no"
    if finding.doubled is None or finding.report is None:
        return text
    return f"{text} ({finding.report.classes:,}, {finding.doubled.classes:,})"


def _groups(findings: Iterable[Finding]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for finding in findings:
        for group in {clause.rpartition("-")[0] for clause in finding.scenario.clauses}:
            counts[group] = counts.get(group, 0) + 1
    return sorted(counts.items())
