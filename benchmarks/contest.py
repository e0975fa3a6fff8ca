"""The contestants of a figure, and the rounds in which they are compared.

Contestants take turns within each round, and each round begins with another one. So a
slow minute of the machine affects all of them alike. The first call of each is
discarded: it warms up, and finds the amount of work that fills a round.
"""

from __future__ import annotations

import gc
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from benchmarks.figure import OURS, Better, Figure

__all__ = ["ROUNDS_MIN", "Contest", "Measure", "Runs", "steady_rate"]

ROUNDS_MIN = 3

# Does one round's work and returns its value, in the unit of the contest.
Measure = Callable[[], float]

# Does that many operations and returns their duration in seconds.
Work = Callable[[int], float]

_FIRST_COUNT = 500


@attrs.frozen
class Contest:
    """One figure to be measured: ours, the installed rivals, the requirements.

    must: required ratio ours/rival, by rival; see `Figure`.
    """

    figure: str
    case: str
    unit: str
    better: Better
    ours: Measure
    rivals: Mapping[str, Measure]
    must: Mapping[str, float] = attrs.field(factory=dict)

    def rounds(
        self, count: int, until: float = math.inf
    ) -> Iterator[Mapping[str, float]]:
        """Measure every contestant in turn; yield the values of each round.

        A rival whose job fails is left out, with a line on stderr: the figures of the
        others would be lost with it.

        Args:
            count: the number of rounds, after the one that warms up.
            until: the time of `time.monotonic` from which no further round begins. If
              there was none, the values of the warm-up count.

        Raises:
            ValueError: if there are fewer rounds than `ROUNDS_MIN`.
            RuntimeError: our own job failed.
        """
        if count < ROUNDS_MIN:
            raise ValueError(f"rounds must be >= {ROUNDS_MIN}, got {count}")
        contestants = {OURS: self.ours, **self.rivals}
        warm_up = self._turn(contestants, 0)
        for first in range(count):
            if time.monotonic() >= until:
                if not first:
                    yield warm_up
                return
            yield self._turn(contestants, first)

    def figure_of(self, rounds: Sequence[Mapping[str, float]]) -> Figure:
        """Summarise rounds; a rival that a later round lacks is left out."""
        names = [name for name in (OURS, *self.rivals) if name in rounds[-1]]
        return Figure.of_rounds(
            self.figure,
            self.case,
            self.unit,
            self.better,
            must=self.must,
            rounds=[{name: one[name] for name in names} for one in rounds],
        )

    def nearest(self) -> Contest:
        """Return the same contest with one rival: that of the first requirement.

        Without a requirement, the first rival remains.
        """
        owed = [name for name in self.must if name in self.rivals]
        kept = (owed or list(self.rivals))[:1]
        return attrs.evolve(self, rivals={name: self.rivals[name] for name in kept})

    def _turn(self, contestants: dict[str, Measure], first: int) -> dict[str, float]:
        """Measure each contestant once; remove those that fail."""
        names = list(contestants)
        first %= len(names)
        values: dict[str, float] = {}
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
        return values


class Runs:
    """A job with several figures, run once for each turn and not for each figure.

    The n-th turn of every figure shows the same run.

    run: does the job once and returns its figures.
    """

    def __init__(self, run: Callable[[], Sequence[float]]) -> None:
        self._run = run
        self._done: list[Sequence[float]] = []
        self._failure: RuntimeError | None = None

    def measure(self, which: int) -> Measure:
        """Return the measure of one figure."""
        turns = itertools.count()

        def measured() -> float:
            turn = next(turns)
            while turn >= len(self._done):
                self._done.append(self._run_once())
            return self._done[turn][which]

        return measured

    def _run_once(self) -> Sequence[float]:
        """Run the job, unless it has failed before: it may have taken all its time."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._run()
        except RuntimeError as error:
            self._failure = error
            raise


def steady_rate(work: Work, target_s: float) -> Measure:
    """Make a measure of operations per second whose rounds last about ``target_s``.

    The first call finds the number of operations for that: it does four times as many
    until they take a quarter of the target. The number is then fixed for all rounds.
    """
    count = 0

    def measure() -> float:
        nonlocal count
        if not count:
            count = _count_for(work, target_s)
        return count / work(count)

    return measure


def _count_for(work: Work, target_s: float) -> int:
    count = _FIRST_COUNT
    while (taken_s := work(count)) < target_s / 4:
        count *= 4
    return max(_FIRST_COUNT, int(count * target_s / taken_s))
