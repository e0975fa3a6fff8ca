"""Figures for readers: the table on the terminal, and the one for Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.figure import Figure

__all__ = ["markdown_table", "terminal_table"]

_HEAD = ("figure", "unit", "ours", "spread", "rival", "value", "ratio", "must", "")
_RIGHT = {2, 3, 5, 6, 7}
_MARKS = {True: "met", False: "MISSED", None: "not judged"}


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
    return [row for figure in figures for row in _rows_of(figure)]


def _rows_of(figure: Figure) -> list[tuple[str, ...]]:
    """Return a line for each rival, also for a missing one with a requirement."""
    head: tuple[str, ...] = (
        f"{figure.figure} {figure.case}",
        figure.unit,
        _number(figure.ours),
        f"{figure.spread:.0%}",
    )
    rows = []
    for name in dict.fromkeys((*figure.rivals, *figure.must)):
        rows.append((*head, name, *_against(figure, name)))
        # Only the first line of a figure names it.
        head = ("",) * len(head)
    return rows or [(*head, "", "", "", "", "")]


def _against(figure: Figure, name: str) -> tuple[str, str, str, str]:
    """Return value, ratio, requirement and mark for one rival."""
    value, ratio = figure.rivals.get(name), figure.ratios.get(name)
    owed = figure.must.get(name)
    sign = ">=" if figure.better == "higher" else "<="
    return (
        "missing" if value is None else _number(value),
        "" if ratio is None else f"{ratio:.2f}",
        "" if owed is None else f"{sign} {owed:g}",
        _MARKS[figure.met(name)] if owed is not None else "",
    )


def _number(value: float) -> str:
    """Format to three significant digits; group thousands."""
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
