"""`run`: one run of a world from its seed, first with faults, then without."""

from __future__ import annotations

import traceback
from random import Random
from typing import Any, Final

import attrs

from bus.errors import BusFullError
from bus.kernel import constants
from bus.model.registration import Visibility
from tests.kit.constants import set_constants
from tests.simulate.counters import BrokenPromiseError
from tests.simulate.fast_paths import FastPathRate
from tests.simulate.plan import PROFILES, Plan
from tests.simulate.process import CONFIG, STREAM_WINDOW
from tests.simulate.world import World

__all__ = ["Failure", "run"]

STEPS: Final = 20
_EAGER: Final = 0.2  # fraction of all runs
_TIGHT: Final = 0.2
_RECORDED: Final = 0.2
_WATCHED: Final = 0.4
_FAST_PATHS: Final = (0.0, 0.5, 1.0)
_ANNOUNCED: Final = (None, 0.0, 0.3)
_INTERRUPTED: Final = 0.05
# Limits so low that runs reach them.
TIGHT: Final[dict[str, Any]] = {
    "SEARCHES_PER_PROCESS": 2,
    "SEARCHES_IN_ALL": 3,
    "ENDED_STREAM_S": 0.5,
    "ENDED_STREAMS_MAX": 1,
}
_USUAL: Final[dict[str, Any]] = {each: getattr(constants, each) for each in TIGHT}
REST_S: Final = 40.0  # more than all deadlines, one after another


@attrs.frozen
class Failure:
    """A run that broke a promise. story: its events; empty unless requested."""

    seed: int
    error: str
    story: tuple[str, ...]


def run(
    seed: int,
    *,
    machines: int = 1,
    processes: int = 3,
    steps: int = STEPS,
    verbose: bool = False,
    recorded: bool | None = None,
    fast_paths: float | None = None,
    watched: bool | None = None,
    announced: float | None = None,
) -> Failure | None:
    """Run one world; return the failure, or None.

    processes: the number of processes on each machine.
    recorded: True if processes keep journals, which must not affect the run; None to
      draw it from the seed.
    fast_paths: the fraction of messages sent by the fast path; None to draw it.
    watched: True if tasks watch, and processes shut down in order; None to draw it.
    announced: the share of announcements that are lost, if the machines find each
        other; None to draw it, and whether they do.
    """
    if announced is None and machines > 1:
        announced = Random(f"announced {seed}").choice(_ANNOUNCED)
    if recorded is None:
        # From a generator of its own, so that the rest of the run stays the same.
        recorded = Random(f"recorded {seed}").random() < _RECORDED
    if fast_paths is None:
        fast_paths = Random(f"fast_paths {seed}").choice(_FAST_PATHS)
    if watched is None:
        watched = Random(f"watched {seed}").random() < _WATCHED
    draw = Random(seed)
    profile = draw.choice(sorted(PROFILES))
    config = attrs.evolve(CONFIG, eager_relays=draw.random() < _EAGER)
    tight = draw.random() < _TIGHT
    set_constants(STREAM_WINDOW=STREAM_WINDOW, **(TIGHT if tight else _USUAL))
    ordered = profile == "calm"
    interrupted = 0.0 if profile == "calm" else _INTERRUPTED
    world = World(
        seed,
        verbose=verbose,
        ordered=ordered,
        config=config,
        recorded=recorded,
        fast_paths=FastPathRate(fast_paths, interrupted),
        watched=watched,
        announced=announced,
    )
    try:
        _live(world, profile, machines, processes, steps)
    except (BrokenPromiseError, AssertionError, Exception) as error:  # noqa: BLE001
        text = f"{profile}: {type(error).__name__}: {error}"
        if verbose and not isinstance(error, BrokenPromiseError):
            text += "\n" + traceback.format_exc()
        return Failure(seed, text, tuple(world.story.lines))
    return None


def _live(
    world: World, profile: str, machines: int, processes: int, steps: int
) -> None:
    for machine in [f"m{number}" for number in range(1, machines + 1)]:
        for number in range(1, processes + 1):
            world.start(machine, f"s{number}", master=number == 1)
    plan = Plan(world, profile)
    world.run(world.random.choice((0.0, 0.05)))
    for _ in range(6):
        plan._register()
    for _ in range(steps):
        plan.act()
        world.run(world.random.choice((0.0, 0.002, 0.02, 0.1)))
    world.run(2.0)
    plan.heal()
    if world.announcements is not None:
        world.announcements.loss = 0.0
    world.run(REST_S)
    world.checks.rest()
    _probe(world)
    world.run(REST_S)
    world.checks.rest()
    if world.recorded is not None:
        world.recorded.rest()


def _probe(world: World) -> None:
    """Check that each process reaches each public task, and subscribers receive."""
    tasks = [
        task
        for process in world.living()
        for task in process.tasks.values()
        if task.entry.visibility is Visibility.PUBLIC
    ]
    commands = []
    for process in world.living():
        sender = process.register("probe", private=True)
        assert sender is not None
        for task in tasks:
            machine = task.process.key[0]
            own = machine == process.key[0]
            to = task.name if own else f"ism://{machine}/{task.name}"
            commands.append((process.command(sender, to), task))
    received = {}
    for task in tasks:
        received[task.process.notify(task)] = task
    world.run(4.0)
    tight = TIGHT["SEARCHES_IN_ALL"] == constants.SEARCHES_IN_ALL
    for command, task in commands:
        if tight and isinstance(command.reported, BusFullError):
            continue  # the search was refused: too many at once
        if command.taken_by != task.id:
            raise BrokenPromiseError(f"{task.name} is not reached: {command}")
    for number, task in received.items():
        _check_heard(world, number, task.process.key[0], task.name)


def _check_heard(world: World, number: int, machine: str, name: str) -> None:
    for process in world.living():
        for hearer in process.tasks.values():
            wants = any(
                (each.specification.machine or process.key[0]) == machine
                and each.specification.matches(name)
                for each in hearer.subscriptions
            )
            received = (number, hearer.id) in world.counters.received
            if wants != received:
                raise BrokenPromiseError(
                    f"{hearer.name} of {process.name} "
                    f"{'does not hear' if wants else 'hears'} {name} of {machine}"
                )
