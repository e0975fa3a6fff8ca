"""`Report`: the coverage of an exploration."""

from __future__ import annotations

import attrs

__all__ = ["Mode", "Report", "Round"]


@attrs.frozen
class Round:
    """The exhaustive search at one number of preemptions.

    schedules: number of schedules run with exactly ``bound`` preemptions.
    exhausted: True if these are all such schedules.
    """

    bound: int
    schedules: int
    exhausted: bool


@attrs.frozen
class Mode:
    """The results of one search mode by itself.

    name: "exhaustive", "random", "pct" or "replay".
    classes: number of classes it found; ``last_new`` is the number of its schedule,
      counted from 1, that found the last of them.
    """

    name: str
    schedules: int
    classes: int
    last_new: int

    @property
    def saturated(self) -> bool:
        """True if the second half of its schedules found no new class."""
        return self.last_new <= self.schedules // 2

    def __str__(self) -> str:
        state = "saturated" if self.saturated else "not saturated"
        return (
            f"{self.name}: {self.schedules:,} schedules, {self.classes:,} classes, the"
            f" last new one at {self.last_new:,} ({state})"
        )


@attrs.frozen
class Report:
    """The extent of an exploration without a failure.

    A class is a set of schedules in which every lock was taken by the same tasks in the
    same order: code that guards its shared data with locks cannot distinguish them.

    schedules: number of all schedules run; ``random``: number of random ones;
      ``pct``: number of those by random priorities.
    classes: number of classes found; ``last_new`` is the number of the schedule,
      counted from 1, that found the last new one.
    modes: the same for each search mode by itself, in order.
    saturated: True if the second half of the random schedules found no class that no
      earlier schedule of any mode had found; None without random schedules.
    seed: the seed that repeats the random parts.
    steps: switch points passed. preemptions: maximum in one schedule.
    seconds: real time.
    """

    schedules: int
    rounds: tuple[Round, ...]
    random: int
    pct: int
    classes: int
    last_new: int
    modes: tuple[Mode, ...]
    saturated: bool | None
    seed: str
    steps: int
    preemptions: int
    seconds: float

    @property
    def exhausted(self) -> bool:
        """True if every schedule up to the bound was run."""
        return bool(self.rounds) and all(round_.exhausted for round_ in self.rounds)

    def __str__(self) -> str:
        rate = self.schedules / self.seconds if self.seconds else 0
        lines = [
            f"{self.schedules:,} schedules in {self.seconds:.2f} s ({rate:,.0f}/s),"
            f" {self.steps:,} steps, at most {self.preemptions} preemptions"
        ]
        for round_ in self.rounds:
            state = "all" if round_.exhausted else "not all: the limit was reached"
            lines.append(
                f"  with {round_.bound} preemptions: {round_.schedules:,} ({state})"
            )
        if self.random:
            state = "saturated" if self.saturated else "not saturated"
            lines.append(f"  at random: {self.random:,} (seed {self.seed}; {state})")
        if self.pct:
            lines.append(f"  by random priorities: {self.pct:,} (seed {self.seed})")
        last = f"the last new one at schedule {self.last_new:,}"
        lines.append(f"  {self.classes:,} classes, {last}")
        if len(self.modes) > 1:
            lines += [f"    {mode}" for mode in self.modes]
        return "\n".join(lines)
