"""`shortened`: simplify the schedule of a failing run, with a limited number of tries.

Fewer preemptions make a shorter story. Two methods alternate. The first leaves out
choices, so that the first option is taken there. The second joins two segments of a
stopped task: it runs the later one early, or the earlier one late.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from queuebroker.testing.search import Followed, Forced

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queuebroker.testing.experiment import Experiment
    from queuebroker.testing.failure import FailureKind
    from queuebroker.testing.search import Turn

__all__ = ["shortened", "trimmed"]

TRIES_MAX: Final = 400  # runs spent on one schedule

Segments = list[tuple["Turn", int]]


def shortened(
    experiment: Experiment, kind: FailureKind, schedule: Sequence[int]
) -> list[int]:
    """Return a schedule with trouble of the same kind, simpler if possible."""
    search = _Descent(experiment, kind, schedule)
    while search.improved:
        search.improved = False
        search.leave_out()
        search.join_segments()
    return search.best


class _Descent:
    """A descent from a failing schedule to simpler ones.

    best: the simplest so far. turns: the task that ran at each of its choices.
    """

    def __init__(
        self, experiment: Experiment, kind: FailureKind, schedule: Sequence[int]
    ) -> None:
        self._experiment = experiment
        self._kind = kind
        self._tries = TRIES_MAX
        self._cost: tuple[int, ...] | None = None
        self.improved = False
        self.best = trimmed(schedule)
        self.turns: list[Turn] = []
        self._try(Forced(schedule))

    def leave_out(self) -> None:
        """Replace choices by the first option, at first many at once."""
        size = sum(map(bool, self.best))
        while size:
            first = 0
            while first < len(taken := [n for n, c in enumerate(self.best) if c]):
                gone = set(taken[first : first + size])
                left = [0 if n in gone else c for n, c in enumerate(self.best)]
                if not self._try(Forced(left, lenient=True)):
                    first += size
            size //= 2

    def join_segments(self) -> None:
        """Join segments, so that tasks run longer without a switch."""
        at = 0
        while at < len(segments := _segments(self.turns)):
            if not any(self._try(Followed(_turns(s))) for s in _joined(segments, at)):
                at += 1

    def _try(self, strategy: Forced) -> bool:
        """Run a strategy; keep it if it fails in the same way and is simpler."""
        if not self._tries:
            return False
        self._tries -= 1
        outcome = self._experiment.run(strategy)
        if outcome.trouble is None or outcome.trouble.kind is not self._kind:
            return False
        choices = trimmed(strategy.choices)
        switches = len(_segments(strategy.turns))
        cost = (outcome.preemptions, switches, sum(map(bool, choices)), len(choices))
        if self._cost is not None and cost >= self._cost:
            return False
        self.best, self.turns, self._cost = choices, strategy.turns, cost
        self.improved = True
        return True


def trimmed(schedule: Sequence[int]) -> list[int]:
    """Return a schedule without the first options at its end, which are the default."""
    end = len(schedule)
    while end and not schedule[end - 1]:
        end -= 1
    return list(schedule[:end])


def _segments(turns: Sequence[Turn]) -> Segments:
    return [(turn, len(list(same))) for turn, same in itertools.groupby(turns)]


def _turns(segments: Segments) -> list[Turn]:
    return [turn for turn, count in segments for _ in range(count)]


def _joined(segments: Segments, at: int) -> Iterator[Segments]:
    """Yield the segments with one joined to the task's next one, then without it."""
    turn, count = segments[at]
    before, after = segments[:at], segments[at + 1 :]
    for gap, (other, more) in enumerate(after):
        if other == turn:
            between, rest = after[:gap], after[gap + 1 :]
            yield [*before, (turn, count + more), *between, *rest]
            yield [*before, *between, (turn, count + more), *rest]
            break
    yield [*before, *after]
