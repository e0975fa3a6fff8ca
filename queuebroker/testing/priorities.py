"""`PriorityWalk`: a schedule by random priorities, changed a few times.

Probabilistic concurrency testing, after S. Burckhardt, P. Kothari, M. Musuvathi and
S. Nagarakatte, "A randomized scheduler with probabilistic guarantees of finding bugs",
ASPLOS 2010. A random walk stops every task again and again. This walk lets the task of
highest priority run as long as it can, and preempts it only a few times, at any point.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queuebroker.testing.search import Turn
    from queuebroker.testing.task import Task

__all__ = ["PriorityWalk"]


class PriorityWalk:
    """One schedule; the same seed and index always give the same schedule.

    Each task has a priority, drawn when the task is first an option; the highest runs.
    At ``depth - 1`` of the first ``length`` choices, also drawn, the selected task gets
    a priority below all of these. Among the tasks lowered in this way the order is
    drawn, too. A deadline that can pass early and a sleeper that can wake spuriously
    have priorities like a task.
    """

    __slots__ = ("_changes", "_draw", "_lowest", "_priorities", "choices")

    def __init__(self, seed: int, index: int, *, depth: int, length: int) -> None:
        rng = random.Random(f"{seed}:pct:{index}")  # noqa: S311 # repeatable, not secret
        self._draw = rng.random
        self._changes = {
            rng.randrange(max(length, 1)): -float(n) for n in range(1, depth)
        }
        self._priorities: dict[Turn, float] = {}
        self._lowest = -float(depth)
        self.choices: list[int] = []

    def choose(
        self, options: Sequence[Task], _preempts_from: int, odd_from: int
    ) -> int:
        """Take the option with the highest priority."""
        turns = [(task.key, at >= odd_from) for at, task in enumerate(options)]
        for turn, task in zip(turns, options, strict=True):
            if turn not in self._priorities:
                self._priorities[turn] = self._draw()
            if task.yields:  # else a task that polls in a loop would run forever
                self._lowest -= 1
                self._priorities[turn] = self._lowest
        first = self._first(turns)
        change = self._changes.get(len(self.choices))
        if change is not None:
            self._priorities[turns[first]] = change
            first = self._first(turns)
        self.choices.append(first)
        return first

    choose_after_release = choose

    def _first(self, turns: Sequence[Turn]) -> int:
        return max(range(len(turns)), key=lambda at: self._priorities[turns[at]])
