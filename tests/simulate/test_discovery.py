"""Discovery by the masters of simulated machines, with datagrams that are lost."""

from __future__ import annotations

import pytest

from specs.clauses import clause
from tests.depth import among
from tests.simulate.dialling_invariants import (
    both_use_the_same_link,
    one_link_is_open,
    one_of_two_links_stays,
)
from tests.simulate.mesh import Mesh
from tests.simulate.run import run
from tests.simulate.world import World

INTERVAL_S = 1.0


def world_of(count: int, *, loss: float = 0.0, seed: int = 1) -> World:
    """Start the masters of some machines at once."""
    world = World(seed, announced=loss)
    for number in range(count):
        world.start(f"m{number}", "s1", master=True)
    return world


def linked(world: World, machine: str) -> set[str]:
    """Return the machines with which a master has an open link."""
    peers = world.masters[machine].remote.topology.joined()
    return {each.machine for each in peers if each.session.ready}


def is_whole(world: World) -> bool:
    """Return True if each pair of machines has a link."""
    names = {name for name, each in world.masters.items() if each.alive}
    return all(linked(world, name) == names - {name} for name in names)


@pytest.mark.deep
@clause("BUS-DISC-10", "OPEN-20")
@pytest.mark.parametrize("seed", range(20))
def test_machines_that_start_at_once_have_one_link_a_pair(seed: int) -> None:
    world = world_of(5, seed=seed)
    world.run(2 * INTERVAL_S)
    assert is_whole(world)
    world.run(30.0)
    assert is_whole(world)
    assert len(world.network.whole()) == 10
    both_use_the_same_link(world)
    one_link_is_open(world)
    one_of_two_links_stays(world)


@clause("BUS-DISC-3")
def test_a_later_machine_finds_the_earlier_ones_within_three_intervals() -> None:
    world = world_of(2)
    world.run(5.0)
    world.start("m9", "s1", master=True)
    world.run(3 * INTERVAL_S)
    assert is_whole(world)
    assert world.announcements is not None
    assert world.announcements.known("m9") == {"m0", "m1"}
    assert world.announcements.known("m0") == {"m1", "m9"}


@clause("BUS-DISC-6")
def test_later_announcements_make_no_link() -> None:
    world = world_of(3)
    world.run(3.0)
    links = {id(each) for each in world.network.whole()}
    world.run(30.0)
    assert {id(each) for each in world.network.whole()} == links


@clause("BUS-DISC-8")
def test_a_restarted_machine_is_linked_again_before_its_lease_ends() -> None:
    """Also if the loss of its former link has not been noticed."""
    world = world_of(3)
    world.run(3.0)
    former = world.masters["m1"]
    former.alive = False  # the others are not told: its host lost power
    world.start("m1", "s2", master=True)
    world.run(3 * INTERVAL_S)
    assert is_whole(world)


@clause("BUS-DISC-12")
def test_a_machine_that_vanishes_is_forgotten_after_the_lease() -> None:
    world = world_of(3)
    world.run(3.0)
    world.masters["m1"].die()
    world.run(9.0)
    assert world.announcements is not None
    assert world.announcements.known("m0") == {"m1", "m2"}
    world.run(3.0)
    assert world.announcements.known("m0") == {"m2"}
    assert "m1" not in world.masters["m0"].machines.redial_at


@pytest.mark.deep
@clause("BUS-DISC-3", "BUS-DISC-10")
def test_most_machines_join_in_time_although_datagrams_are_lost() -> None:
    """With 30 % loss, at least 99 % of all pairs are linked within 5 s."""
    trials = among(200, 1_000)
    late = 0
    for seed in range(trials):
        world = world_of(2, loss=0.3, seed=seed)
        world.run(5.0)
        late += not is_whole(world)
    assert late <= trials / 100


@clause("BUS-DISC-10")
def test_many_machines_become_one_bus() -> None:
    world = Mesh(1, announced=0.1)
    for number in range(among(5, 60)):
        world.start(f"m{number}", "s1", master=True)
    world.run(10.0)
    assert is_whole(world)


@pytest.mark.deep
@clause("OPEN-10")
@pytest.mark.parametrize("seed", range(among(3, 100)))
def test_runs_with_discovery_keep_all_promises(seed: int) -> None:
    failure = run(seed, machines=3, announced=0.3)
    assert failure is None, failure
