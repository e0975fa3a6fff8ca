"""The contestants of some figures, and the rounds in which they are compared.

Contestants take turns within each round, and each round begins with another one. So a
slow minute of the machine affects all of them alike. The first turn of each warms up,
and does not count.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from benchmarks.figure import OURS, Figure

__all__ = [
    "Contest",
    "Effort",
    "Measure",
    "Row",
    "Suite",
    "Values",
    "steady_rate",
]

# Does one turn and returns its values by name, each in the unit of its row.
Values = Mapping[str, float]
Measure = Callable[[], Values]

# Does that many operations and returns their duration in seconds.
Work = Callable[[int], float]

_FIRST_COUNT: Final = 500


@attrs.frozen
class Effort:
    """The amount of work of a run.

    rounds: the number of turns of each contestant.
    round_s: the target duration of one turn, in seconds, without the start of
      processes.
    limit_s: the target duration of the whole suite, in seconds. If it is finite, each
      figure has one rival, and all are measured on two processors alone.
    """

    rounds: int = 9
    round_s: float = 0.5
    limit_s: float = math.inf

    @classmethod
    def of(cls, *, quick: bool) -> Effort:
        """Return the effort of a quick look, or of figures worth keeping."""
        return cls(3, 0.2, 35.0) if quick else cls()

    @property
    def is_quick(self) -> bool:
        """True for a quick look."""
        return self.limit_s < math.inf

    def amount(self, full: int) -> int:
        """Scale the amount of a full run to this effort."""
        return full // 10 if self.is_quick else full


@attrs.frozen
class Row:
    """One figure and case.

    must: the required ratio ours/rival, by rival; see `Figure`.
    value: the name of its value in each turn.
    own: further rivals, each a function of our values of the same turn.
    """

    figure: str
    case: str
    unit: str
    must: Mapping[str, float] = attrs.field(factory=dict)
    value: str = "value"
    own: Mapping[str, Callable[[Values], float]] = attrs.field(factory=dict)


@attrs.frozen
class Contest:
    """One job, the figures that each turn of it yields, and its contestants.

    contestants: the measure of each by its name; `OURS` is one of them.
    once: True for a long job: its first turn counts, and is the only one.
    """

    rows: Sequence[Row]
    contestants: Mapping[str, Measure]
    once: bool = False

    @property
    def label(self) -> str:
        """The first figure and case, and how many others there are."""
        first, *others = self.rows
        more = f" and {len(others)} more" if others else ""
        return f"{first.figure} {first.case}{more}"

    def rounds(
        self, count: int, until: float = math.inf
    ) -> Iterator[Mapping[str, Values]]:
        """Measure every contestant in turn; yield the values of each round.

        A rival whose job fails is left out, with a line on stderr: the figures of the
        others would be lost with it.

        Args:
            count: the number of rounds, after the one that warms up.
            until: the time of `time.monotonic` from which no further round begins. If
              there was none, the values of the warm-up count.

        Raises:
            RuntimeError: our own job failed.
        """
        contestants = dict(self.contestants)
        warm_up = self._turn(contestants, 0)
        if self.once:
            yield warm_up
            return
        for first in range(count):
            if time.monotonic() >= until:
                if not first:
                    yield warm_up
                return
            yield self._turn(contestants, first)

    def figures_of(self, rounds: Sequence[Mapping[str, Values]]) -> list[Figure]:
        """Summarise rounds; a rival that the last one lacks is left out."""
        return [
            Figure.of_rounds(
                *(row.figure, row.case, row.unit),
                must=row.must,
                rounds=[
                    {name: values[row.value] for name, values in one.items()}
                    | {name: own(one[OURS]) for name, own in row.own.items()}
                    for one in rounds
                ],
            )
            for row in self.rows
        ]

    def nearest(self) -> Contest:
        """Return the same contest with one rival: that of the first requirement.

        Without a requirement, the first rival remains.
        """
        owed = [name for row in self.rows for name in row.must]
        rivals = [name for name in self.contestants if name != OURS]
        kept = [OURS, *[name for name in (*owed, *rivals) if name in rivals][:1]]
        return attrs.evolve(
            self, contestants={name: self.contestants[name] for name in kept}
        )

    def _turn(self, contestants: dict[str, Measure], first: int) -> dict[str, Values]:
        """Measure each contestant once; remove those that fail."""
        names = list(contestants)
        first %= len(names)
        values: dict[str, Values] = {}
        for name in names[first:] + names[:first]:
            # Otherwise one contestant pays for the garbage of its predecessor.
            gc.collect()
            try:
                values[name] = contestants[name]()
            except RuntimeError as error:
                if name == OURS:
                    raise
                print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
                del contestants[name]
        return {name: values[name] for name in contestants}


# Returns the contests, and a sentence for each rival that is not installed.
Suite = Callable[[Effort], tuple[list[Contest], list[str]]]


def steady_rate(work: Work, target_s: float) -> Measure:
    """Make a measure of operations per second whose turns last about ``target_s``.

    The first call finds the number of operations for that: it does four times as many
    until they take a quarter of the target. The number is then fixed for all turns.
    """
    count = 0

    def measure() -> Values:
        nonlocal count
        if not count:
            tried = _FIRST_COUNT
            while (taken_s := work(tried)) < target_s / 4:
                tried *= 4
            count = max(_FIRST_COUNT, int(tried * target_s / taken_s))
        return {"value": count / work(count)}

    return measure
