"""Short campaigns on a real network with faults; the long ones run by command."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from specs.clauses import clause
from tests.kills.ledger import Fate
from tests.network.campaign import Campaign
from tests.network.ethernet import is_permitted

REFUSED = is_permitted()
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)


@clause("OPEN-10")
def test_a_faulty_network_breaks_no_promise() -> None:
    """One campaign for all profiles: the machines take seconds to start."""
    # Short: the path of a socket is limited.
    folder = Path(tempfile.mkdtemp(prefix="net"))
    with Campaign(folder / "c", 3, seed=1) as campaign:
        for profile in ("loss-30", "partition", "vanished", "mtu"):
            story = campaign.run(profile, 3.0)
            assert not story.faults, story
            assert story.fates[Fate.DELIVERED] > 100
            losses = story.frames.items() - {("passed", story.frames["passed"])}
            assert sum(count for _, count in losses) > 10
    shutil.rmtree(folder)


@clause("BUS-DISC-2", "BUS-DISC-12")
@pytest.mark.parametrize(("discovery", "version"), [("lan", 6), ("wan", 4)])
def test_machines_find_each_other_by_multicast_too(
    discovery: str, version: int
) -> None:
    """IPv6 has no broadcast, and a broadcast goes no further than its subnet."""
    folder = Path(tempfile.mkdtemp(prefix="net"))
    with Campaign(
        folder / "c", 2, seed=1, discovery=discovery, version=version
    ) as campaign:
        story = campaign.run("vanished", 1.0)
        assert not story.faults, story
        assert story.fates[Fate.DELIVERED] > 50
    shutil.rmtree(folder)
