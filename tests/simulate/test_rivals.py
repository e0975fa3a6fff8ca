"""AMO-18: two live processes with one name, on two hosts that are both named m2."""

from __future__ import annotations

import pytest

from bus.config import BusConfig
from bus.core.peer.limits import Limits
from specs.clauses import clause
from tests.simulate.mesh import Mesh

READER = "ism://m1/reader"
STEP_S = 0.5


@clause("AMO-18", "AMO-16")
@pytest.mark.parametrize("seed", range(10))
def test_a_peer_receives_from_one_of_two_processes_with_one_name(seed: int) -> None:
    """From the earlier one until the later one has a link, then from the later one."""
    world = Mesh(seed, limits=Limits.of(BusConfig()))
    receiver = world.start("m1", "s1", master=True)
    reader = receiver.register("reader")
    earlier = world.start("m2", "s1", master=True)
    world.run(2 * STEP_S)
    rejections: list[str] = []
    receiver.remote.topology.complain = rejections.append  # type: ignore[misc]
    later = world.start("m2", "s1", master=True)
    senders = [earlier.register("earlier"), later.register("later")]
    assert reader is not None
    took = []
    for _ in range(60):
        letters = [
            sender.process.command(sender, READER) for sender in senders if sender
        ]
        world.run(STEP_S)
        took.append(tuple(each.taken_by is not None for each in letters))
        assert {each.taken_by for each in letters} <= {None, reader.entry.id}

    change = took.index((False, True))
    assert set(took[: change - 1]) <= {(True, False)}
    assert set(took[change:]) == {(False, True)}
    [peer] = receiver.remote.topology.peers.values()
    assert peer.session.incarnation == later.life
    assert set(rejections) == {"m2/s1 is rejected: duplicate"}
