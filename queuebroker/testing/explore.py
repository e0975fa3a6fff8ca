"""`explore` a program's schedules, or `replay` one of them.

A program is a function that is called afresh for every schedule, as the main task of a
run. It makes all it needs itself: what it kept from one call to the next would make the
next another program.
"""

from __future__ import annotations

import _thread
import os
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from queuebroker.testing.bytecode import Bytecode
from queuebroker.testing.diagnosis import diagnose, failure_of, translate
from queuebroker.testing.experiment import Experiment, Outcome
from queuebroker.testing.housekeeping import housekeeping
from queuebroker.testing.recorder import Recorder
from queuebroker.testing.report import Report, Round
from queuebroker.testing.search import Exhaustive, Forced, RandomWalk
from queuebroker.testing.substitute import substituted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import ModuleType

    from queuebroker.testing.run import Run

__all__ = ["explore", "replay"]

_real_clock = time.perf_counter

# Stand-ins are one set for the whole process.
_exploring = _thread.allocate_lock()


def explore(
    program: Callable[[Run], object],
    *,
    bound: int = 2,
    random: int = 300,
    seed: int | str | None = None,
    limit: int = 20_000,
    spurious: int = 0,
    modules: Iterable[ModuleType] = (),
    bytecode: Iterable[object] = (),
) -> Report:
    """Run ``program(run)`` under many schedules, and raise what is wrong with one.

    First all schedules with no preemption, then all with one, and so on to ``bound``,
    ``limit`` of them at most; then ``random`` ones, which also switch where a lock was
    just released. A run lasts until ``program`` has returned and every task that is no
    daemon has ended.

    bound: preemptions, that is switches away from a task that could have gone on. An
      early deadline (a slow machine) and a spurious wake-up count as one.
    seed: makes the random part repeatable; "seed:index" runs just that one schedule.
    spurious: how often in a run, at most, a sleeper wakes though nobody woke it.
    modules: where names of the standard library are held on to, as by ``from threading
      import Lock``: they are exchanged there, too. Locks, conditions and queues that
      such a module made when it was imported are new in every run.
    bytecode: functions, classes and modules in whose code each instruction is a switch
      point that others could notice. What they call is not, unless it is named too: a
      base class by itself, a module with all that it defines.

    Raises:
        Failure: a schedule goes wrong; its text tells how.
        UncontrolledError: the program uses what cannot be controlled.
        TypeError: what ``bytecode`` names has no code in Python.
        ValueError: a number is negative, or the seed is none.
        RuntimeError: another exploration is under way in this process; or, with
          ``bytecode``, threads are traced already, as by a debugger.
    """
    for name, number in (
        ("bound", bound),
        ("random", random),
        ("limit", limit),
        ("spurious", spurious),
    ):
        if number < 0:
            msg = f"{name} must be >= 0, got {number}"
            raise ValueError(msg)
    base, index = _parsed(seed)
    with _laboratory(program, spurious, modules, bytecode) as experiment:
        survey = _Survey(experiment)
        if index is not None:
            survey.walk(base, range(index, index + 1))
        else:
            survey.exhaust(bound, limit)
            survey.walk(base, range(random))
        return survey.report(str(base) if seed is None else str(seed))


def replay(
    program: Callable[[Run], object],
    schedule: Sequence[int],
    *,
    spurious: int = 0,
    modules: Iterable[ModuleType] = (),
    bytecode: Iterable[object] = (),
) -> Report:
    """Run ``program(run)`` once, under a schedule that a `Failure` has told.

    Raises:
        Failure: what it raised then; or, if the program has other choices by now, that
          it is not deterministic.
        RuntimeError: another exploration is under way in this process.
    """
    with _laboratory(program, spurious, modules, bytecode) as experiment:
        survey = _Survey(experiment)
        recorder = Recorder()
        outcome = experiment.run(Forced(list(schedule)), recorder=recorder)
        if outcome.trouble is not None:
            raise failure_of(experiment, outcome.trouble, recorder, schedule, "")
        survey.add(outcome)
        return survey.report("")


@contextmanager
def _laboratory(
    program: Callable[[Run], object],
    spurious: int,
    modules: Iterable[ModuleType],
    bytecode: Iterable[object],
) -> Iterator[Experiment]:
    """Prepare the process for runs, and put all back afterwards."""
    if not _exploring.acquire(blocking=False):
        msg = "cannot explore: an exploration is under way in this process"
        raise RuntimeError(msg)
    try:
        named = tuple(modules)
        small = Bytecode(bytecode) if (bytecode := tuple(bytecode)) else None
        with (
            substituted(modules=named),
            small.installed() if small else nullcontext(),
            housekeeping() as keeper,
        ):
            yield Experiment(
                program,
                keeper,
                spurious=spurious,
                modules=named,
                bytecode=small,
            )
    finally:
        _exploring.release()


class _Survey:
    """Runs schedules and keeps count, until one fails."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._began = _real_clock()
        self._rounds: list[Round] = []
        self._random = 0
        self._saturated: bool | None = None
        self._classes: set[int] = set()
        self._runs = 0
        self._last_new = 0
        self._steps = 0
        self._preemptions = 0

    def exhaust(self, bound: int, limit: int) -> None:
        """Run all schedules up to a bound, or up to a limit."""
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
            self.add(outcome)
        counts += [0] * (len(search.complete) - len(counts))
        self._rounds = [
            Round(number, count, number in search.complete)
            for number, count in enumerate(counts)
        ]

    def walk(self, seed: int, indices: range) -> None:
        """Run random schedules."""
        for index in indices:
            walk = RandomWalk(seed, index)
            outcome = self._experiment.run(walk)
            if outcome.trouble is not None:
                raise diagnose(
                    self._experiment, outcome.trouble, walk.choices, f"{seed}:{index}"
                )
            new = self.add(outcome)
            if index >= len(indices) // 2:
                self._saturated = self._saturated is not False and not new
            self._random += 1

    def add(self, outcome: Outcome) -> bool:
        """Count a run; return whether its class is new."""
        self._runs += 1
        self._steps += outcome.steps
        self._preemptions = max(self._preemptions, outcome.preemptions)
        if outcome.fingerprint in self._classes:
            return False
        self._classes.add(outcome.fingerprint)
        self._last_new = self._runs
        return True

    def report(self, seed: str) -> Report:
        """Say how far it went."""
        return Report(
            schedules=self._runs,
            rounds=tuple(self._rounds),
            random=self._random,
            classes=len(self._classes),
            last_new=self._last_new,
            saturated=self._saturated,
            seed=seed,
            steps=self._steps,
            preemptions=self._preemptions,
            seconds=_real_clock() - self._began,
        )


def _parsed(seed: int | str | None) -> tuple[int, int | None]:
    """Take "seed:index" apart; draw a seed if there is none."""
    if seed is None:
        return int.from_bytes(os.urandom(4), "big"), None
    base, _, index = str(seed).partition(":")
    try:
        return int(base), int(index) if index else None
    except ValueError:
        msg = f"seed must be a number or number:number, got {seed!r}"
        raise ValueError(msg) from None
