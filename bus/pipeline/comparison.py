"""Two runs compared: the verdicts that changed, and the figures of each route.

The figures of this run are in the other parts of its report. So a comparison has those
of the other run, and the ratio: this run divided by the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.pipeline.results import ROUTE, read_routes, read_verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bus.pipeline.folder import OutFolder

__all__ = ["Comparison", "RouteChange"]

# Of fewer messages, a quantile is chance: it does not count as a change.
TIMED_MIN: Final = 100
# The compared columns of a route, as `read_routes` returns them.
FIGURES: Final = ("messages_sent", "rate", "p50", "p99")

_QUANTILES: Final = ("p50", "p99")

Row = dict[str, Any]


@attrs.frozen
class RouteChange:
    """One route in two runs.

    before: its row in the other run, None if it has none.
    messages: sent in this run, 0 if it has no such route.
    ratios: for each of `FIGURES`, this run divided by the other; None if one of the two
      lacks the figure, or the other has zero. Empty if only one run has the route.
    """

    source: str
    target: str
    via: str
    before: Row | None
    messages: int
    ratios: Mapping[str, float | None]

    @property
    def change(self) -> float:
        """The largest absolute logarithm of a ratio; infinite if one is 0."""
        if not self.ratios:
            return math.inf
        assert self.before is not None
        few = min(self.messages, self.before["messages_sent"]) < TIMED_MIN
        changes = (
            abs(math.log(ratio)) if ratio else math.inf
            for name, ratio in self.ratios.items()
            if ratio is not None and not (few and name in _QUANTILES)
        )
        return max(changes, default=0)


@attrs.frozen
class Comparison:
    """The differences of a run from another.

    other: the folder of the results of the other.
    verdicts: (rule, verdict of the other, verdict of this), of the rules that differ.
    routes: every route of either run, the one with the largest change first.
    """

    other: Path
    verdicts: tuple[tuple[str, str, str], ...]
    routes: tuple[RouteChange, ...]

    @classmethod
    def of(cls, folder: OutFolder, other: OutFolder) -> Comparison:
        """Return the differences of the results in two folders."""
        now, before = (
            {one["rule"]: one["verdict"] for one in read_verdicts(each)["verdicts"]}
            for each in (folder, other)
        )
        verdicts = (
            (rule, before[rule], verdict)
            for rule, verdict in now.items()
            if before[rule] != verdict
        )
        return cls(other.path, tuple(verdicts), _routes(folder, other))


def _routes(folder: OutFolder, other: OutFolder) -> tuple[RouteChange, ...]:
    now, before = (
        {tuple(row[name] for name in ROUTE): row for row in read_routes(each)}
        for each in (folder, other)
    )
    found = []
    # In the order of this run, which the sort keeps among equal changes.
    for route in now | before:
        here, there = now.get(route), before.get(route)
        ratios = (
            {name: _ratio(here[name], there[name]) for name in FIGURES}
            if here and there
            else {}
        )
        messages = here["messages_sent"] if here else 0
        source, target, via = route
        found.append(RouteChange(source, target, via, there, messages, ratios))
    return tuple(sorted(found, key=lambda one: -one.change))


def _ratio(here: float | None, there: float | None) -> float | None:
    return None if here is None or not there else here / there
