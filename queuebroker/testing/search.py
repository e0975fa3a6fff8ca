"""How schedules are searched: all of them up to a bound, at random, or one again.

A schedule is the list of choices made where there was one; what is not in the list is
0, the first option: the task that runs goes on. A search never sees the program, only
how many options there are.

`Exhaustive` keeps no states and visits no schedule twice. A schedule with n preemptions
is found while those with n - 1 are tried, and kept for the next round.
"""

from __future__ import annotations

import random
from array import array
from typing import TYPE_CHECKING, Final

from queuebroker.testing.strategy import DivergenceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queuebroker.testing.task import Task

    # The key of the task that runs; whether its deadline came early, or it woke for no
    # reason.
    Turn = tuple[int, bool]

__all__ = ["Branch", "Exhaustive", "Followed", "Forced", "RandomWalk", "Reduced"]


class Forced:
    """Follows given choices, then always takes the first option.

    choices: those made, one for each point that had options. turns: who ran then.
    lenient: a choice that is not there any more becomes the first option; else the
      program is not what it was when the choices were made, an error.
    """

    __slots__ = ("_given", "_lenient", "choices", "turns")

    def __init__(self, given: Sequence[int], *, lenient: bool = False) -> None:
        self._given = given
        self._lenient = lenient
        self.choices: list[int] = []
        self.turns: list[Turn] = []

    def choose(self, options: Sequence[Task], _free: int, calm: int) -> int:
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
        return self._made(options, calm, choice)

    choose_after_release = choose

    def _made(self, options: Sequence[Task], calm: int, choice: int) -> int:
        self.choices.append(choice)
        self.turns.append((options[choice].key, choice >= calm))
        return choice


class Followed(Forced):
    """Lets given tasks run in turn, whatever the options' numbers are by then."""

    __slots__ = ("_next", "_wanted")

    def __init__(self, wanted: Sequence[Turn]) -> None:
        super().__init__(())
        self._wanted = wanted
        self._next = 0

    def choose(self, options: Sequence[Task], _free: int, calm: int) -> int:
        """Take the option that was wanted next; pass over what cannot be."""
        there = [(task.key, at >= calm) for at, task in enumerate(options)]
        while self._next < len(self._wanted):
            turn = self._wanted[self._next]
            self._next += 1
            if turn in there:
                return self._made(options, calm, there.index(turn))
        return self._made(options, calm, 0)

    choose_after_release = choose


class Reduced(Forced):
    """Follows choices that were made without switch points after releases."""

    __slots__ = ("_used",)

    def __init__(self, given: Sequence[int]) -> None:
        super().__init__(given)
        self._used = 0

    def choose(self, options: Sequence[Task], _free: int, calm: int) -> int:
        """Take the next of the given choices."""
        used = self._used
        choice = self._given[used] if used < len(self._given) else 0
        self._used += 1
        if choice >= len(options):
            raise DivergenceError(
                f"at choice {used} there were more options the time before: the program"
                " does not do the same each time"
            )
        return self._made(options, calm, choice)

    def choose_after_release(
        self, options: Sequence[Task], _free: int, calm: int
    ) -> int:
        """Go on."""
        return self._made(options, calm, 0)


class Branch:
    """One schedule of an exhaustive search; also the way to its neighbours.

    Follows the choices of ``parent`` up to ``point``, there takes ``turn``, then always
    the first option. After the run ``choices``, ``options`` and ``free`` tell of each
    point what was done and what else could have been.
    """

    __slots__ = ("_given", "_known", "choices", "free", "given", "options")

    def __init__(self, parent: Branch | None, point: int, turn: int) -> None:
        self.choices: Sequence[int] = []
        self.options: Sequence[int] = []
        self.free: Sequence[int] = []
        self._known: Sequence[int] = []
        self._given: list[int] = []
        self.given: int = 0
        if parent is not None:
            self._given = [*parent.choices[:point], turn]
            self._known = parent.options
            self.given = point + 1

    def choose(self, options: Sequence[Task], free: int, _calm: int) -> int:
        """Take the next choice of the way here, then the first option."""
        count = len(options)
        choices: list[int] = self.choices  # type: ignore[assignment] # a list until done
        at = len(choices)
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
        choices.append(choice)
        self.options.append(count)  # type: ignore[attr-defined] # a list until done
        self.free.append(free)  # type: ignore[attr-defined] # a list until done
        return choice

    choose_after_release = choose

    def pack(self) -> None:
        """Make it small: many wait for their neighbours' turn."""
        self._given = []
        self._known = []
        self.choices = array("H", self.choices)
        self.options = array("H", self.options)
        self.free = array("H", self.free)


class Exhaustive:
    """All schedules with at most ``bound`` preemptions, fewest first.

    Call `take` for a schedule to run, then `done` with it; the bound that is being
    searched is ``round``. ``complete`` lists the bounds that have been exhausted.
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
        """Note the neighbours of a schedule that was run."""
        branch.pack()
        wanted = self.round < self._bound and len(self._next) < self._limit
        for point in range(branch.given, len(branch.choices)):
            free, options = branch.free[point], branch.options[point]
            self._now += [(branch, point, turn) for turn in range(1, free)]
            if wanted:
                self._next += [
                    (branch, point, turn) for turn in range(max(free, 1), options)
                ]


# How often a random run lets a deadline pass early, where it could; one is drawn for
# each run. Were it always often, no operation with a timeout would ever be waited for.
_HASTE: Final = (0.0, 0.1, 0.5, 1.0)


class RandomWalk:
    """One random schedule: the one with that seed and index, always the same."""

    __slots__ = ("_draw", "_haste", "choices")

    def __init__(self, seed: int, index: int) -> None:
        rng = random.Random(f"{seed}:{index}")  # noqa: S311 # repeatable, not secret
        self._draw = rng.random
        self._haste = rng.choice(_HASTE)
        self.choices: list[int] = []

    def choose(self, options: Sequence[Task], _free: int, calm: int) -> int:
        """Draw one of the options."""
        count = len(options)
        if calm < count and self._draw() >= self._haste:
            count = calm
        choice = int(self._draw() * count)
        self.choices.append(choice)
        return choice

    choose_after_release = choose
