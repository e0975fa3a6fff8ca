"""Searches of schedules: all of them up to a bound, random ones, or one again.

A schedule is the list of choices made at the points that had several options. A choice
beyond the list is 0, the first option: the running task goes on. A search never uses
the program, only the options.

`Exhaustive` keeps no states and visits no schedule twice. It finds a schedule with n
preemptions while it tries those with n - 1, and keeps it for the next round.
"""

from __future__ import annotations

import random
from array import array
from typing import TYPE_CHECKING, Final

from queuebroker.testing.scheduling import DivergenceError

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableSequence, Sequence

    from queuebroker.testing.task import Task

    # The key of the task that runs; True if its deadline came early or it woke
    # spuriously.
    Turn = tuple[int, bool]

__all__ = [
    "Branch",
    "Exhaustive",
    "Followed",
    "Forced",
    "PriorityWalk",
    "RandomWalk",
    "Reduced",
    "Schedule",
]


class Schedule(list[int]):
    """Generated choices: one that is no option of the program counts as 0."""

    __slots__ = ()


class Forced:
    """A strategy that follows given choices, then always takes the first option.

    choices: those made, one for each point that had options. turns: the tasks that ran.
    lenient: if True, a choice that is no option any more becomes the first option.
      Otherwise it is an error: the program has changed since the choices were made.
    """

    __slots__ = ("_given", "_lenient", "choices", "turns")

    def __init__(self, given: Sequence[int], *, lenient: bool = False) -> None:
        self._given = given
        self._lenient = lenient
        self.choices: list[int] = []
        self.turns: list[Turn] = []

    def choose(
        self, options: Sequence[Task], _preempts_from: int, odd_from: int
    ) -> int:
        """Take the next of the given choices."""
        at = len(self.choices)
        choice = self._given[at] if at < len(self._given) else 0
        if choice >= len(options):
            if not self._lenient:
                raise DivergenceError(
                    f"choice {at} of the schedule is option {choice}, but there are"
                    f" {len(options)}: the schedule is of another program, or the"
                    " program does not do the same each time"
                )
            choice = 0
        return self._made(options, odd_from, choice)

    choose_after_release = choose

    def _made(self, options: Sequence[Task], odd_from: int, choice: int) -> int:
        self.choices.append(choice)
        self.turns.append((options[choice].key, choice >= odd_from))
        return choice


class Followed(Forced):
    """A strategy that runs given tasks in turn, at any option numbers they now have."""

    __slots__ = ("_next", "_wanted")

    def __init__(self, wanted: Sequence[Turn]) -> None:
        super().__init__(())
        self._wanted = wanted
        self._next = 0

    def choose(
        self, options: Sequence[Task], _preempts_from: int, odd_from: int
    ) -> int:
        """Take the next wanted turn that is an option; skip those that are not."""
        there = [(task.key, at >= odd_from) for at, task in enumerate(options)]
        while self._next < len(self._wanted):
            turn = self._wanted[self._next]
            self._next += 1
            if turn in there:
                return self._made(options, odd_from, there.index(turn))
        return self._made(options, odd_from, 0)

    choose_after_release = choose


class Reduced(Forced):
    """A strategy for choices that were made without switch points after releases."""

    __slots__ = ("_used",)

    def __init__(self, given: Sequence[int]) -> None:
        super().__init__(given)
        self._used = 0

    def choose(
        self, options: Sequence[Task], _preempts_from: int, odd_from: int
    ) -> int:
        """Take the next of the given choices."""
        used = self._used
        choice = self._given[used] if used < len(self._given) else 0
        self._used += 1
        if choice >= len(options):
            raise DivergenceError(
                f"at choice {used} there were more options the time before: the program"
                " does not do the same each time"
            )
        return self._made(options, odd_from, choice)

    def choose_after_release(
        self, options: Sequence[Task], _preempts_from: int, odd_from: int
    ) -> int:
        """Take the first option: the running task goes on."""
        return self._made(options, odd_from, 0)


class Branch:
    """One schedule of an exhaustive search, and the source of its neighbours.

    It follows the choices of ``parent`` up to ``point``, takes ``turn`` there, then
    always the first option. After the run ``choices``, ``options`` and
    ``preempts_from`` hold, for each point, the choice made and the alternatives.
    """

    __slots__ = ("_given", "_known", "choices", "given", "options", "preempts_from")

    def __init__(self, parent: Branch | None, point: int, turn: int) -> None:
        self.choices: MutableSequence[int] = []
        self.options: MutableSequence[int] = []
        self.preempts_from: MutableSequence[int] = []
        self._known: Sequence[int] = []
        self._given: list[int] = []
        self.given: int = 0
        if parent is not None:
            self._given = [*parent.choices[:point], turn]
            self._known = parent.options
            self.given = point + 1

    def choose(
        self, options: Sequence[Task], preempts_from: int, _odd_from: int
    ) -> int:
        """Take the next choice of the prefix, and the first option after it."""
        count = len(options)
        at = len(self.choices)
        choice = 0
        if at < self.given:
            choice = self._given[at]
            if self._known[at] != count:
                raise DivergenceError(
                    f"after the same {at} choices there are {count} options, the time"
                    f" before there were {self._known[at]}: the program does not do the"
                    " same each time (it may keep something from one run to the next,"
                    " or depend on a set's order, the date, a random number)"
                )
        self.choices.append(choice)
        self.options.append(count)
        self.preempts_from.append(preempts_from)
        return choice

    choose_after_release = choose

    def pack(self) -> None:
        """Reduce its memory: many branches wait until their neighbours are run."""
        self._given = []
        self._known = []
        self.choices = array("H", self.choices)
        self.options = array("H", self.options)
        self.preempts_from = array("H", self.preempts_from)


class Exhaustive:
    """All schedules with at most ``bound`` preemptions, fewest first.

    Iterate to get the schedules to run; call `done` with each before the next. The
    bound that is being searched is ``round``; ``complete`` lists those exhausted.
    """

    def __init__(self, bound: int, limit: int) -> None:
        self.round: int = 0
        self.complete: list[int] = []
        self._bound = bound
        self._limit = limit
        self._now: list[tuple[Branch | None, int, int]] = [(None, 0, 0)]
        self._next: list[tuple[Branch | None, int, int]] = []

    def __iter__(self) -> Iterator[Branch]:
        taken = 0
        while taken < self._limit:
            while not self._now:
                self.complete.append(self.round)
                if self.round == self._bound:
                    return
                self.round += 1
                self._now, self._next = self._next[::-1], []
                if not self._now:
                    self.complete += range(self.round, self._bound + 1)
                    return
            yield Branch(*self._now.pop())
            taken += 1

    def done(self, branch: Branch) -> None:
        """Add the neighbours of a schedule that was run."""
        branch.pack()
        wanted = self.round < self._bound and len(self._next) < self._limit
        for point in range(branch.given, len(branch.choices)):
            preempts_from = branch.preempts_from[point]
            self._now += [(branch, point, turn) for turn in range(1, preempts_from)]
            if wanted:
                self._next += [
                    (branch, point, turn)
                    for turn in range(max(preempts_from, 1), branch.options[point])
                ]


# The probabilities that a random run passes a deadline early, if it can; one is drawn
# per run. If it were always high, every operation with a timeout would time out.
_HASTE: Final = (0.0, 0.1, 0.5, 1.0)


class RandomWalk:
    """One random schedule; the same seed and index always give the same schedule."""

    __slots__ = ("_draw", "_haste", "choices")

    def __init__(self, seed: int, index: int) -> None:
        rng = random.Random(f"{seed}:{index}")  # noqa: S311 # repeatable, not secret
        self._draw = rng.random
        self._haste = rng.choice(_HASTE)
        self.choices: list[int] = []

    def choose(
        self, options: Sequence[Task], _preempts_from: int, odd_from: int
    ) -> int:
        """Draw one of the options."""
        count = len(options)
        if odd_from < count and self._draw() >= self._haste:
            count = odd_from
        choice = int(self._draw() * count)
        self.choices.append(choice)
        return choice

    choose_after_release = choose


class PriorityWalk:
    """A schedule by random priorities; the same seed and index always give the same.

    Probabilistic concurrency testing, after S. Burckhardt, P. Kothari, M. Musuvathi and
    S. Nagarakatte, "A randomized scheduler with probabilistic guarantees of finding
    bugs", ASPLOS 2010. A random walk stops every task again and again. This walk lets
    the task of highest priority run as long as it can, and preempts it only a few
    times, at any point.

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
