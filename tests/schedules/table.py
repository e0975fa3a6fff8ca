"""The table of a survey: one line a scenario, as it ends, and the sum of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queuebroker.testing import Report
    from tests.schedules.survey import Finding

__all__ = ["head", "line", "summary"]

_COLUMNS: Final = "{:>9} {:>8} {:>9} {:>17} {:>6}  {}"


def head() -> str:
    """Give the names of the columns."""
    names = ("schedules", "classes", "exhausted", "saturated", "s", "scenario: clauses")
    return _COLUMNS.format(*names)


def line(finding: Finding) -> str:
    """Give the line of one scenario."""
    told = f"{finding.scenario.name}: {' '.join(finding.scenario.clauses)}"
    report = finding.last
    if report is None:
        return _COLUMNS.format("-", "-", "-", "FAILED", "-", told)
    return _COLUMNS.format(
        f"{finding.schedules:,}",
        f"{report.classes:,}",
        _exhausted(report),
        _saturated(finding),
        f"{finding.seconds:.1f}",
        told,
    )


def summary(findings: Sequence[Finding]) -> str:
    """Give the sums, and for each group of clauses how many scenarios serve it."""
    reports = [one.last for one in findings if one.last is not None]
    schedules = sum(one.schedules for one in findings)
    seconds = sum(one.seconds for one in findings)
    exhausted = sum(report.exhausted for report in reports)
    saturated = sum(report.saturated is not False for report in reports)
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
    """Name the bounds that were exhausted: "0-2", or "0-1" and how far 2 came."""
    complete = [one.bound for one in report.rounds if one.exhausted]
    if not complete:
        return "none"
    last = complete[-1]
    return f"0-{last}" if report.exhausted else f"0-{last} of {report.rounds[-1].bound}"


def _saturated(finding: Finding) -> str:
    """Tell whether the second half of the random runs showed nothing new."""
    report = finding.last
    assert report is not None
    told = "yes" if report.saturated is not False else "no"
    first = finding.report
    if finding.doubled is None or first is None:
        return told
    return f"{told} ({first.classes:,} at half)"


def _groups(findings: Iterable[Finding]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for finding in findings:
        for group in {clause.rpartition("-")[0] for clause in finding.scenario.clauses}:
            counts[group] = counts.get(group, 0) + 1
    return sorted(counts.items())
