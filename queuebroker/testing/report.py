"""What an exploration has covered: `Report`."""

from __future__ import annotations

import attrs

__all__ = ["Mode", "Report", "Round"]


@attrs.frozen
class Round:
    """The exhaustive search at one number of preemptions.

    schedules: how many with exactly ``bound`` preemptions were run.
    exhausted: whether these are all there are.
    """

    bound: int
    schedules: int
    exhausted: bool


@attrs.frozen
class Mode:
    """What one way of searching has shown, by itself.

    name: "exhaustive", "random", "pct" or "replay".
    classes: how many it saw; ``last_new`` is the number of its schedule, counted from
      1, that showed the last of them.
    """

    name: str
    schedules: int
    classes: int
    last_new: int

    @property
    def saturated(self) -> bool:
        """Whether the second half of its schedules showed it no new class."""
        return self.last_new <= self.schedules // 2

    def __str__(self) -> str:
        state = "saturated" if self.saturated else "not saturated"
        return (
            f"{self.name}: {self.schedules:,} schedules, {self.classes:,} classes, the"
            f" last new one at {self.last_new:,} ({state})"
        )


@attrs.frozen
class Report:
    """How far a program was explored, without a failure.

    A class is a set of schedules in which every lock was taken by the same tasks in
    the same order: to code that guards with locks what it shares, they are one.

    schedules: how many were run in all; ``random``: how many of them at random;
      ``pct``: how many by random priorities.
    classes: how many classes were seen; ``last_new`` is the number of the schedule,
      counted from 1, that showed the last new one.
    modes: the same for each way of searching by itself, in order.
    saturated: whether the second half of the random schedules showed no class that
      was new to all of them; None without random schedules.
    seed: what repeats the random parts.
    steps: switch points passed. preemptions: the most in one schedule.
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
        """Whether every schedule up to the bound was run."""
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
