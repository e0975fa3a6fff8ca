"""The result of one contest: medians, the ratios of its rounds, and its verdict.

Programs read the files of `Figure.as_json`: add no key to it and rename none. A
requirement is judged by the median of the per-round ratios, never by the ratio of the
medians: the contestants of one round ran under the same load.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["OURS", "Better", "Figure"]

Better = Literal["higher", "lower"]

OURS = "ours"


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
    better: Better
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
        better: Better,
        *,
        must: Mapping[str, float],
        rounds: Sequence[Mapping[str, float]],
    ) -> Figure:
        """Summarise ``rounds``: in each, the value of every contestant by its name."""
        rivals = [name for name in rounds[0] if name != OURS]
        ratios = {
            name: statistics.median(one[OURS] / one[name] for one in rounds)
            for name in rivals
        }
        ours = [one[OURS] for one in rounds]
        return cls(
            figure,
            case,
            unit,
            better,
            ours=statistics.median(ours),
            spread=_spread(ours),
            rivals={
                name: statistics.median(one[name] for one in rounds) for name in rivals
            },
            ratios=ratios,
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
