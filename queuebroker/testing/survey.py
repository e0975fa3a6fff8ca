"""`Survey`: runs and counts schedules in several search modes, until one fails."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queuebroker.testing.diagnosis import diagnose, failure_of, translate
from queuebroker.testing.recorder import Recorder
from queuebroker.testing.report import Mode, Report, Round
from queuebroker.testing.search import (
    Exhaustive,
    Forced,
    PriorityWalk,
    RandomWalk,
    Schedule,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queuebroker.testing.experiment import Experiment, Outcome

__all__ = ["Survey"]

_real_clock = time.perf_counter


class _Tally:
    """The number of schedules that one search mode has run, and their new classes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.schedules = 0
        self.last_new = 0
        self._classes: set[int] = set()

    def add(self, fingerprint: int) -> bool:
        """Count a run; return True if its class is new."""
        self.schedules += 1
        if fingerprint in self._classes:
            return False
        self._classes.add(fingerprint)
        self.last_new = self.schedules
        return True

    def mode(self) -> Mode:
        return Mode(self.name, self.schedules, len(self._classes), self.last_new)


class Survey:
    """The schedules of one exploration, with their counts.

    Every method that runs schedules raises `Failure` for a schedule that fails.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._began = _real_clock()
        self._rounds: list[Round] = []
        self._all = _Tally("all")
        self._modes: list[_Tally] = []
        self._saturated: bool | None = None
        self._steps = 0
        self._preemptions = 0

    def exhaust(self, bound: int, limit: int) -> None:
        """Run all schedules up to a bound, or up to a limit."""
        self._begin("exhaustive")
        search = Exhaustive(bound, limit)
        counts = [0]
        for branch in search:
            counts += [0] * (search.round + 1 - len(counts))
            counts[search.round] += 1
            outcome = self._experiment.run(branch, release_points=False)
            if (trouble := outcome.trouble) is not None:
                schedule: Sequence[int] = []
                if not trouble.hung:
                    schedule = translate(self._experiment, branch.choices)
                raise diagnose(self._experiment, trouble, schedule, "")
            search.done(branch)
            self._add(outcome)
        counts += [0] * (len(search.complete) - len(counts))
        self._rounds = [
            Round(number, count, number in search.complete)
            for number, count in enumerate(counts)
        ]

    def walk(self, seed: int, indices: range) -> None:
        """Run random schedules."""
        self._begin("random")
        for index in indices:
            new = self._try(RandomWalk(seed, index), f"{seed}:{index}")
            if index >= len(indices) // 2:
                self._saturated = self._saturated is not False and not new

    def walk_by_priority(self, seed: int, indices: range, depth: int) -> None:
        """Run schedules by random priorities."""
        self._begin("pct")
        if not indices:
            return
        # An estimate of the number of choices. In the simplest schedule most steps are
        # no choices, because no other task is left.
        length = self._experiment.run(Forced(())).steps
        for index in indices:
            walk = PriorityWalk(seed, index, depth=depth, length=length)
            self._try(walk, f"{seed}:pct:{index}")

    def replay(self, schedule: Sequence[int]) -> None:
        """Run one schedule; if it fails, raise a `Failure` with its story."""
        self._begin("replay")
        recorder = Recorder()
        forced = Forced(list(schedule), lenient=isinstance(schedule, Schedule))
        outcome = self._experiment.run(forced, recorder=recorder)
        if (trouble := outcome.trouble) is not None:
            if isinstance(schedule, Schedule):
                schedule = forced.choices
            raise failure_of(self._experiment, trouble, recorder, schedule, "")
        self._add(outcome)

    def report(self, seed: str) -> Report:
        """Return the report of the exploration."""
        modes = tuple(each.mode() for each in self._modes if each.schedules)
        everything = self._all.mode()
        return Report(
            schedules=everything.schedules,
            rounds=tuple(self._rounds),
            random=sum(each.schedules for each in modes if each.name == "random"),
            pct=sum(each.schedules for each in modes if each.name == "pct"),
            classes=everything.classes,
            last_new=everything.last_new,
            modes=modes,
            saturated=self._saturated,
            seed=seed,
            steps=self._steps,
            preemptions=self._preemptions,
            seconds=_real_clock() - self._began,
        )

    def _begin(self, name: str) -> None:
        self._modes.append(_Tally(name))

    def _try(self, walk: RandomWalk | PriorityWalk, seed: str) -> bool:
        outcome = self._experiment.run(walk)
        if outcome.trouble is not None:
            raise diagnose(self._experiment, outcome.trouble, walk.choices, seed)
        return self._add(outcome)

    def _add(self, outcome: Outcome) -> bool:
        """Count a run; return True if no mode has seen its class before."""
        self._steps += outcome.steps
        self._preemptions = max(self._preemptions, outcome.preemptions)
        self._modes[-1].add(outcome.fingerprint)
        return self._all.add(outcome.fingerprint)
