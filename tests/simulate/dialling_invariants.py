"""The safety properties of ``dialling.pml``, on the masters of a simulated world.

Each function has the name of its property, and raises an `AssertionError`. They hold
when no frame is in transit.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["both_use_the_same_link", "one_link_is_open", "one_of_two_links_stays"]


def both_use_the_same_link(world: World) -> None:
    """Of each pair of masters, both use one link, or neither uses any."""
    for one, two in _pairs(world):
        used = [_used(one, two), _used(two, one)]
        wires = {id(world.network.wires[each][0]) for each in used if each is not None}
        assert (None in used) is (used == [None, None]), (one.name, two.name, used)
        assert len(wires) <= 1, (one.name, two.name, used)


def one_link_is_open(world: World) -> None:
    """Between each pair of masters at most one link is open."""
    for one, two in _pairs(world):
        ends = [
            {end[0] for end in wire.ends if end is not None}
            for wire in world.network.whole()
        ]
        assert ends.count({one, two}) <= 1, (one.name, two.name)


def one_of_two_links_stays(world: World) -> None:
    """Masters that have found each other have a link, also if both have dialled."""
    for one, two in _pairs(world):
        assert _used(one, two) is not None, (one.name, two.name)


def _pairs(world: World) -> Iterator[tuple[SimProcess, SimProcess]]:
    yield from combinations([each for each in world.masters.values() if each.alive], 2)


def _used(one: SimProcess, two: SimProcess) -> int | None:
    """Return the link that a process uses for another one; None for none."""
    peer = one.remote.topology.peers.get(two.key)
    return None if peer is None else peer.session.link
