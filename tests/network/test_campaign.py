"""Short campaigns on a network with faults; the command runs the long ones."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from specs.clauses import clause
from tests.kills.ledger import Fate
from tests.network.campaign import Campaign
from tests.network.ethernet import refusal_reason

REFUSED = refusal_reason()
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)


@pytest.mark.deep
@clause("OPEN-10")
def test_a_faulty_network_breaks_no_promise() -> None:
    """One campaign for all profiles, since the machines take seconds to start."""
    # A short path, since the length of a socket path is limited.
    folder = Path(tempfile.mkdtemp(prefix="net"))
    with Campaign(folder / "c", 3, seed=1) as campaign:
        for profile in ("loss-30", "partition", "vanished", "mtu"):
            result = campaign.run(profile, 3.0)
            assert not result.violations, result
            assert result.fates[Fate.DELIVERED] > 100
            affected = result.frames.items() - {("passed", result.frames["passed"])}
            assert sum(count for _, count in affected) > 10
    shutil.rmtree(folder)


@pytest.mark.deep
@clause("BUS-DISC-2", "BUS-DISC-12")
@pytest.mark.parametrize(("discovery", "version"), [("lan", 6), ("wan", 4)])
def test_machines_also_find_each_other_by_multicast(
    discovery: str, version: int
) -> None:
    """IPv6 has no broadcast, and a router forwards none."""
    folder = Path(tempfile.mkdtemp(prefix="net"))
    with Campaign(
        folder / "c", 2, seed=1, discovery=discovery, version=version
    ) as campaign:
        result = campaign.run("vanished", 1.0)
        assert not result.violations, result
        assert result.fates[Fate.DELIVERED] > 50
    shutil.rmtree(folder)


@pytest.mark.deep
@clause("OPEN-10")
def test_a_partition_among_twelve_machines_heals() -> None:
    """Their 66 links are made anew at about the same time.

    The command measures how soon, and under load; here other tests use the processors.
    """
    folder = Path(tempfile.mkdtemp(prefix="net"))
    with Campaign(folder / "c", 12, seed=1) as campaign:
        result = campaign.run("partition", 3.0, loaded=False)
        broken = [each for each in result.violations if "only after" not in each]
        assert not broken, result
        assert result.fates[Fate.DELIVERED] > 100
    shutil.rmtree(folder)
