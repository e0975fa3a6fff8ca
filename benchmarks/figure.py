"""The result of one contest: medians, the ratios of its rounds, and its verdict.

Programs read the files of `Figure.as_json`: add no key to it and rename none. A
requirement is judged by the median of the per-round ratios, never by the ratio of the
medians: the contestants of one round ran under the same load.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

__all__ = ["OURS", "Figure", "markdown_table", "terminal_table"]

OURS: Final = "ours"

_RATES: Final = {"messages/s", "meetings/s", "records/s"}
_HEAD: Final = (
    *("figure", "unit", "ours", "spread"),
    *("rival", "value", "ratio", "must", ""),
)
_RIGHT: Final = {2, 3, 5, 6, 7}
_MARKS: Final = {True: "met", False: "MISSED", None: "not judged"}


@attrs.frozen
class Figure:
    """One figure and case, as measured.

    figure, case: its names, such as "T1" and "64 B".
    unit: of `ours` and of every value in `rivals`.
    better: whether a higher or a lower value is better.
    ours: our median over the rounds.
    spread: the interquartile range of our rounds over their median.
    rivals: the median of each rival.
    ratios: for each rival, the median over the rounds of ours divided by its value.
    must: the required ratio, for some rivals.
    """

    figure: str
    case: str
    unit: str
    better: Literal["higher", "lower"]
    ours: float
    spread: float
    rivals: Mapping[str, float]
    ratios: Mapping[str, float]
    must: Mapping[str, float]

    @property
    def passed(self) -> bool | None:
        """True if every requirement is met.

        None if there is none, or if one of those rivals was missing and no other
        requirement is missed.
        """
        verdicts = {self.met(name) for name in self.must}
        if False in verdicts:
            return False
        return True if verdicts == {True} else None

    def met(self, rival: str) -> bool | None:
        """True if the requirement for ``rival`` is met; None if it was missing."""
        ratio, owed = self.ratios.get(rival), self.must[rival]
        if ratio is None:
            return None
        return ratio >= owed if self.better == "higher" else ratio <= owed

    @classmethod
    def of_rounds(
        cls,
        figure: str,
        case: str,
        unit: str,
        *,
        must: Mapping[str, float],
        rounds: Sequence[Mapping[str, float]],
    ) -> Figure:
        """Summarise ``rounds``: in each, the value of every contestant by its name.

        A contestant that the last round lacks is left out.
        """
        ours = [one[OURS] for one in rounds]
        rivals = [name for name in rounds[-1] if name != OURS]
        return cls(
            figure,
            case,
            unit,
            "higher" if unit in _RATES else "lower",
            ours=statistics.median(ours),
            spread=_spread(ours),
            rivals={
                name: statistics.median(one[name] for one in rounds) for name in rivals
            },
            ratios={
                name: statistics.median(one[OURS] / one[name] for one in rounds)
                for name in rivals
            },
            must=dict(must),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object for this figure in a JSON file."""
        return {**attrs.asdict(self), "pass": self.passed}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Figure:
        """Return the figure for the result of `as_json`.

        Raises:
            TypeError: if a field is missing or unknown.
        """
        return cls(**{key: fields[key] for key in fields if key != "pass"})


def _spread(values: Sequence[float]) -> float:
    """Return the interquartile range over the median: one stray round has no effect."""
    if len(values) == 1:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle


def terminal_table(figures: Iterable[Figure]) -> str:
    """Return one line for each figure and rival, columns aligned."""
    rows = [_HEAD, *_rows(figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in _RIGHT else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def markdown_table(figures: Iterable[Figure]) -> str:
    """Return the same as a Markdown table."""
    rule = tuple("---:" if column in _RIGHT else "---" for column in range(len(_HEAD)))
    rows: list[Sequence[str]] = [_HEAD, rule, *_rows(figures)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _rows(figures: Iterable[Figure]) -> list[tuple[str, ...]]:
    """Return a line for each rival, also for a missing one with a requirement."""
    rows: list[tuple[str, ...]] = []
    for figure in figures:
        head: tuple[str, ...] = (
            f"{figure.figure} {figure.case}",
            figure.unit,
            _number(figure.ours),
            f"{figure.spread:.0%}",
        )
        for name in dict.fromkeys((*figure.rivals, *figure.must)) or [""]:
            rows.append((*head, name, *_against(figure, name)))
            # Only the first line of a figure names it.
            head = ("",) * len(head)
    return rows


def _against(figure: Figure, name: str) -> tuple[str, str, str, str]:
    """Return value, ratio, requirement and mark for one rival."""
    if not name:
        return "", "", "", ""
    value, ratio = figure.rivals.get(name), figure.ratios.get(name)
    owed = figure.must.get(name)
    sign = ">=" if figure.better == "higher" else "<="
    return (
        "missing" if value is None else _number(value),
        "" if ratio is None else f"{ratio:.2f}",
        "" if owed is None else f"{sign} {owed:g}",
        "" if owed is None else _MARKS[figure.met(name)],
    )


def _number(value: float) -> str:
    """Format to three significant digits; group thousands."""
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
