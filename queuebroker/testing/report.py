"""What an exploration has covered: `Report`."""

from __future__ import annotations

import attrs

__all__ = ["Report", "Round"]


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
class Report:
    """How far a program was explored, without a failure.

    A class is a set of schedules in which every lock was taken by the same tasks in
    the same order: to code that guards with locks what it shares, they are one.

    schedules: how many were run in all; ``random``: how many of them at random.
    classes: how many classes were seen; ``last_new`` is the number of the schedule,
      counted from 1, that showed the last new one.
    saturated: whether the second half of the random schedules showed no new class;
      None without random schedules.
    seed: what repeats the random part.
    steps: switch points passed. preemptions: the most in one schedule.
    seconds: real time.
    """

    schedules: int
    rounds: tuple[Round, ...]
    random: int
    classes: int
    last_new: int
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
        last = f"the last new one at schedule {self.last_new:,}"
        return "\n".join([*lines, f"  {self.classes:,} classes, {last}"])
