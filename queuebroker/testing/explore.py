"""`explore` a program's schedules, or `replay` one of them.

A program is a function that is called anew for every schedule, as the main task of a
run. It must create all its objects itself: with state kept from an earlier call, the
next call would be a different program.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import ModuleType

from queuebroker.testing.bytecode import Bytecode
from queuebroker.testing.experiment import Experiment
from queuebroker.testing.housekeeping import housekeeping
from queuebroker.testing.program import check_program
from queuebroker.testing.report import Report
from queuebroker.testing.run import Run
from queuebroker.testing.substitute import substituted
from queuebroker.testing.survey import Survey

__all__ = ["explore", "replay"]

# The whole process shares one set of stand-ins.
_exploring = _thread.allocate_lock()


def explore(
    program: Callable[[Run], object],
    *,
    bound: int = 2,
    random: int = 300,
    seed: int | str | None = None,
    limit: int = 20_000,
    pct: int = 0,
    depth: int = 3,
    spurious: int = 0,
    modules: Iterable[ModuleType] = (),
    bytecode: Iterable[object] = (),
) -> Report:
    """Run ``program(run)`` under many schedules, and raise the first failure.

    First run all schedules with no preemption, then all with one, and so on to
    ``bound``, at most ``limit`` of them. Then run ``random`` schedules, which also
    switch after the release of a lock. Then run ``pct`` schedules by random priorities.
    A run lasts until ``program`` has returned and every non-daemon task has ended.

    bound: maximum preemptions, that is switches away from a task that could have gone
      on. An early deadline (a slow machine) and a spurious wake-up count as one.
    seed: makes the random parts repeatable; "seed:index", or with the same ``depth``
      "seed:pct:index", runs just that one schedule.
    pct: schedules by random priorities (probabilistic concurrency testing). Suppose a
      fault needs ``depth`` steps in a certain order, and a run has n tasks and k steps.
      Then each schedule finds it with a probability of at least
      1 / (n * k**(depth - 1)), however rare it is among all schedules. k is that of one
      run, and a deadline that can pass early counts as a task. Most faults need 1 to 3
      steps. Use it for faults that need one task not to run for a long time: a random
      walk switches at every step.
    spurious: maximum spurious wake-ups in a run.
    modules: modules that hold names of the standard library, as by ``from threading
      import Lock``: they are replaced there, too. Locks, conditions and queues that
      such a module created on import are new in every run.
    bytecode: functions, classes and modules. In their code each instruction that other
      threads could notice is a switch point. Code that they call must be named itself:
      a base class separately; a module stands for everything it defines.

    Raises:
        Failure: a schedule fails; the text is its story.
        UncontrolledError: the program uses an object that cannot be controlled.
        TypeError: ``program`` does not take the run, or is a coroutine function or a
          generator, so that a call runs none of its code; ``modules`` contains
          something else; or an object in ``bytecode`` has no code in Python.
        ValueError: a number is negative, the seed is invalid, or no schedule is
          requested.
        RuntimeError: another exploration is under way in this process; or, with
          ``bytecode``, threads are already traced, as by a debugger.
    """
    for name, number in (
        ("bound", bound),
        ("random", random),
        ("limit", limit),
        ("pct", pct),
        ("spurious", spurious),
    ):
        if number < 0:
            msg = f"{name} must be >= 0, got {number}"
            raise ValueError(msg)
    if depth < 1:
        msg = f"depth must be >= 1, got {depth}"
        raise ValueError(msg)
    base, mode, index = _parsed(seed)
    if index is None and not (limit or random or pct):
        msg = "limit + random + pct must be >= 1, got 0"
        raise ValueError(msg)
    with _laboratory(program, spurious, modules, bytecode) as experiment:
        survey = Survey(experiment)
        if index is None:
            survey.exhaust(bound, limit)
            survey.walk(base, range(random))
            survey.walk_by_priority(base, range(pct), depth)
        elif mode:
            survey.walk_by_priority(base, range(index, index + 1), depth)
        else:
            survey.walk(base, range(index, index + 1))
        return survey.report(str(base) if seed is None else str(seed))


def replay(
    program: Callable[[Run], object],
    schedule: Sequence[int],
    *,
    spurious: int = 0,
    modules: Iterable[ModuleType] = (),
    bytecode: Iterable[object] = (),
) -> Report:
    """Run ``program(run)`` once, under the schedule of a `Failure`.

    The schedule may also be one that a property test has drawn: see
    `strategies.schedules`.

    Raises:
        Failure: the run fails again; or the program now has other choices and is
          reported as not deterministic.
        TypeError: as from `explore`.
        RuntimeError: another exploration is under way in this process.
    """
    with _laboratory(program, spurious, modules, bytecode) as experiment:
        survey = Survey(experiment)
        survey.replay(schedule)
        return survey.report("")


@contextmanager
def _laboratory(
    program: Callable[[Run], object],
    spurious: int,
    modules: Iterable[ModuleType],
    bytecode: Iterable[object],
) -> Iterator[Experiment]:
    """Prepare the process for runs, and restore it afterwards."""
    check_program(program)
    named = _modules(modules)
    _check_iterable("bytecode", bytecode, "functions, classes and modules")
    if not _exploring.acquire(blocking=False):
        msg = "cannot explore: an exploration is under way in this process"
        raise RuntimeError(msg)
    try:
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


def _modules(modules: Iterable[object]) -> list[ModuleType]:
    _check_iterable("modules", modules, "modules")
    named: list[ModuleType] = []
    for at, module in enumerate(modules):
        if not isinstance(module, ModuleType):
            msg = f"modules[{at}] must be a module, got {type(module).__name__}"
            raise TypeError(msg)
        named.append(module)
    return named


def _check_iterable(name: str, value: object, items: str) -> None:
    """Raise TypeError, with the argument's name, for an object instead of a list."""
    if not isinstance(value, Iterable):
        msg = f"{name} must be an iterable of {items}, got {type(value).__name__}"
        raise TypeError(msg)


def _parsed(seed: int | str | None) -> tuple[int, str, int | None]:
    """Parse "seed:index" or "seed:pct:index"; draw a seed if there is none."""
    if seed is None:
        return int.from_bytes(os.urandom(4), "big"), "", None
    base, _, rest = str(seed).partition(":")
    mode, _, index = rest.rpartition(":")
    try:
        if mode not in {"", "pct"}:
            raise ValueError
        return int(base), mode, int(index) if rest else None
    except ValueError:
        msg = f"seed must be a number or number:number, got {seed!r}"
        raise ValueError(msg) from None
