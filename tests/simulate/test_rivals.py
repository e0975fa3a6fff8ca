"""BUS-DISC-8, AMO-18: a machine and its clone, with one name and one id, and a third.

Their masters may even have one process name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.model.config import BusConfig
from bus.model.snapshot import MachineState
from specs.clauses import clause
from tests.simulate.mesh import Mesh

if TYPE_CHECKING:
    from tests.simulate.process import SimProcess, SimTask

READER = "ism://m1/reader"
STEP_S = 0.5


def log_of(process: SimProcess) -> list[str]:
    """Return a list that receives the log of a process from now on."""
    lines: list[str] = []
    process.remote.topology.complain = lines.append  # type: ignore[misc]
    return lines


def states(process: SimProcess) -> list[tuple[str | None, MachineState]]:
    """Return the machines that a master reports, with the state of each."""
    known = process.machines.known(process.world.now)
    return [(each.name, each.state) for each in known]


def sender(process: SimProcess) -> SimTask:
    """Register a task that sends."""
    task = process.register("sender")
    assert task is not None
    return task


def taken(world: Mesh, *senders: SimTask, steps: int) -> set[tuple[bool, ...]]:
    """Let tasks send commands; return which of them were taken, at each step."""
    found = set()
    for _ in range(steps):
        commands = [each.process.command(each, READER) for each in senders]
        world.run(STEP_S)
        found.add(tuple(each.taken_by is not None for each in commands))
    return found


@pytest.mark.deep
@clause("BUS-DISC-8", "AMO-18", "AMO-16")
@pytest.mark.parametrize("clone_name", ["s1", "s2"], ids=["one process name", "two"])
@pytest.mark.parametrize("seed", range(5))
def test_a_clone_gets_no_link_while_the_original_has_one(
    seed: int, clone_name: str
) -> None:
    """All three report the conflict, each in one line of its log."""
    world = Mesh(seed, config=BusConfig())
    third = world.start("m1", "s1", master=True)
    assert third.register("reader") is not None
    original = world.start("m2", "s1", master=True)
    world.run(2 * STEP_S)
    clone = world.start("m2", clone_name, master=True)
    logs = [log_of(each) for each in (third, original, clone)]

    two = [sender(original), sender(clone)]
    found = taken(world, *two, steps=60)

    assert found == {(True, False)}
    for log in logs:
        [line] = log
        assert line.startswith("two machines are named 'm2'")
        assert "open_bus(machine=...)" in line
    linked, conflict = MachineState.LINKED, MachineState.CONFLICT
    assert states(third) == [("m2", linked), ("m2", conflict)]
    assert states(original) == [("m1", linked), ("m2", conflict)]
    assert states(clone) == [("m1", MachineState.REFUSED), ("m2", conflict)]

    original.die()

    world.run(10 * STEP_S)
    assert taken(world, two[1], steps=10) == {(True,)}
    world.run(60.0)
    assert states(third) == [("m2", linked)]


@clause("BUS-DISC-8", "AMO-18")
@pytest.mark.parametrize("seed", range(5))
def test_a_machine_that_is_started_again_after_a_power_cut_is_linked_soon(
    seed: int,
) -> None:
    """Its former link does not end by itself, and no conflict is reported."""
    world = Mesh(seed, config=BusConfig())
    third = world.start("m1", "s1", master=True)
    assert third.register("reader") is not None
    former = world.start("m2", "s1", master=True)
    world.run(2 * STEP_S)
    log = log_of(third)
    former.frozen = True  # it answers nothing, and closes nothing

    later = world.start("m2", "s1", master=True)
    world.run(6.0)  # after 3 s it dials (OPEN-20)

    assert taken(world, sender(later), steps=4) == {(True,)}
    assert log == []
