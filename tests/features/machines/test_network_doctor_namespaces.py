"""``bus doctor --network`` in namespaces: missing hosts and missing routes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from bus.features.machines.probe import Fault
from specs.clauses import clause
from tests.cli.verbs import MACHINE
from tests.features.machines.findings import failure, file_of, is_fault
from tests.network.conditions import Conditions
from tests.network.ethernet import Ethernet, ip, refusal_reason
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.features.machines.findings import Finding
    from tests.kit.site import Site

REFUSED = refusal_reason()
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)


@pytest.fixture
def ethernet() -> Iterator[Ethernet]:
    with Ethernet(["a", "b"], "10.83", seed=1) as made:
        yield made


def inside(ethernet: Ethernet, site: Site, **given: Any) -> list[Finding]:
    """Return the findings of the first machine of a network of namespaces."""
    path = file_of(site, listen=ethernet.address(0), **given)
    words = ("bus", "doctor", "--network", str(path), "--json", *MACHINE)
    done = subprocess.run(
        ["ip", "netns", "exec", ethernet.names[0], sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env=dict(os.environ),
    )
    assert (done.returncode, done.stderr) == (1, "")
    found: list[Finding] = json.loads(done.stdout)
    return found


@pytest.mark.deep
@clause("BUS-DISC-14")
def test_an_address_that_no_host_has_is_named(ethernet: Ethernet, site: Site) -> None:
    failed = failure(inside(ethernet, site, peers=["10.83.0.9"]))

    assert (failed["what"], failed["fact"]) == (
        "tcp 10.83.0.9:7400",
        "no route to host",
    )
    assert is_fault(failed, Fault.NO_HOST)


@pytest.mark.deep
@clause("BUS-DISC-14")
def test_a_network_that_drops_all_packets_is_named(
    ethernet: Ethernet, site: Site
) -> None:
    """As a firewall does. The hardware address is known, so the kernel can send."""
    to, device = ethernet.address(1), ethernet.device(0)
    place = ("neigh", "add", to, "lladdr", "02:00:00:00:00:09", "dev", device)
    ip("-n", ethernet.names[0], *place)
    ethernet.impose(Conditions(cut=True))

    failed = failure(inside(ethernet, site, peers=[to]))

    assert (failed["what"], failed["fact"]) == (
        f"tcp {to}:7400",
        "no answer within 4 s",
    )
    assert is_fault(failed, Fault.DROPPED)


@pytest.mark.deep
@clause("BUS-DISC-14", "BUS-DISC-2")
@pytest.mark.parametrize("scope", ["lan", "wan"])
def test_a_missing_route_for_announcements_is_named(
    ethernet: Ethernet, site: Site, scope: str
) -> None:
    ip("-n", ethernet.names[0], "link", "set", ethernet.device(0), "down")

    found = inside(ethernet, site, discovery=scope)

    [failed] = [
        each
        for each in found
        if each["what"] == "announcements" and each["state"] == "fail"
    ]
    assert failed["fact"].startswith("no route for broadcasts or multicasts: ")
