"""`explore` a program's schedules, or `replay` one of them.

A program is a function that is called afresh for every schedule, as the main task of a
run. It makes all it needs itself: what it kept from one call to the next would make the
next another program.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Iterable
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING

from queuebroker.testing.bytecode import Bytecode
from queuebroker.testing.experiment import Experiment
from queuebroker.testing.housekeeping import housekeeping
from queuebroker.testing.program import check_program
from queuebroker.testing.substitute import substituted
from queuebroker.testing.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queuebroker.testing.report import Report
    from queuebroker.testing.run import Run

__all__ = ["explore", "replay"]

# Stand-ins are one set for the whole process.
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
    """Run ``program(run)`` under many schedules, and raise what is wrong with one.

    First all schedules with no preemption, then all with one, and so on to ``bound``,
    ``limit`` of them at most; then ``random`` ones, which also switch where a lock was
    just released; then ``pct`` ones by random priorities. A run lasts until ``program``
    has returned and every task that is no daemon has ended.

    bound: preemptions, that is switches away from a task that could have gone on. An
      early deadline (a slow machine) and a spurious wake-up count as one.
    seed: makes the random parts repeatable; "seed:index", or with the same ``depth``
      "seed:pct:index", runs just that one schedule.
    pct: schedules by random priorities (probabilistic concurrency testing). With n
      tasks and k steps in a run, each finds a fault that takes ``depth`` steps in a
      certain order with a probability of at least 1 / (n * k**(depth - 1)), however
      rare it is among all schedules; k is that of one run, and a deadline that can
      pass early counts as a task. Most faults take 1 to 3. Good where a random walk,
      which switches all the time, would have to leave one task alone for long.
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
        TypeError: ``program`` does not take the run, or is a coroutine function or a
          generator, so that calling it runs nothing of it; ``modules`` has something
          else in it; or what ``bytecode`` names has no code in Python.
        ValueError: a number is negative, the seed is none, or no schedule is asked for.
        RuntimeError: another exploration is under way in this process; or, with
          ``bytecode``, threads are traced already, as by a debugger.
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
    """Run ``program(run)`` once, under a schedule that a `Failure` has told.

    Or under one that a property test has drawn: see `strategies.schedules`.

    Raises:
        Failure: what it raised then; or, if the program has other choices by now, that
          it is not deterministic.
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
    """Prepare the process for runs, and put all back afterwards."""
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
    """Name the argument, where one thing was given for a list of one."""
    if not isinstance(value, Iterable):
        msg = f"{name} must be an iterable of {items}, got {type(value).__name__}"
        raise TypeError(msg)


def _parsed(seed: int | str | None) -> tuple[int, str, int | None]:
    """Take "seed:index" or "seed:pct:index" apart; draw a seed if there is none."""
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
