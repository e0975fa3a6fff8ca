"""``bus doctor --network``: a machine that can be linked, and this machine itself.

The faults of other machines are in ``test_network_doctor_faults.py``, announcements in
``test_network_doctor_announcements.py``, missing hosts and routes in
``test_network_doctor_namespaces.py``.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from queuebroker import _net
from specs.clauses import clause
from tests.features.machines.findings import failure, findings, states
from tests.kit.site import HERE, THERE, Site
from tests.process.real import Far

if TYPE_CHECKING:
    from pathlib import Path


# A machine that can be linked.


@clause("BUS-DISC-14")
def test_a_good_peer_passes_each_step_and_is_not_disturbed(site: Site) -> None:
    address = f"127.0.0.1:{site.ports[THERE]}"
    with site.there("far", network=site.network(THERE, peers=[])) as far:
        found = findings(site, peers=[address])
        # The doctor dials as a process, not as a master: the peer lists no machine.
        peers = far("[each.key[0] for each in bus._node.comm.remote.topology.joined()]")

    assert states(found, address) == dict.fromkeys(("tcp", "tls", "bus"), "ok")
    assert found[-1]["fact"] == f"machine {THERE} accepts this one"
    assert peers == []


@clause("BUS-DISC-14")
@pytest.mark.parametrize("machine", [THERE, HERE])
def test_without_keys_the_machine_is_the_one_that_the_peer_states(
    site: Site, machine: str
) -> None:
    """It may be another machine with the same name."""
    address = f"127.0.0.1:{site.ports[THERE]}"
    network = site.network(THERE, peers=[], keys=None)
    with Far("far", role="master", machine=machine, network=network) as far:
        far.started()
        found = findings(site, peers=[address], keys=None)

    last = found[-1]
    expected = "ok" if machine == THERE else "fail"
    assert states(found, address) == {"tcp": "ok", "tls": "ok", "bus": expected}
    assert last["fact"] == (
        f"machine {THERE} accepts this one"
        if machine == THERE
        else f"the machine there has the name of this one, {HERE}"
    )


@clause("BUS-DISC-14")
def test_the_address_of_this_machine_itself_is_not_tried(site: Site) -> None:
    own = f"127.0.0.1:{site.ports[HERE]}"

    found = findings(site, peers=[own])

    assert states(found, own) == {}
    assert failure(found)["what"] == "other machines"


# This machine.


@clause("BUS-DISC-14")
def test_a_running_bus_is_reported(site: Site) -> None:
    with Far("near", role="master", network=site.network(HERE)) as near:
        near.started()
        found = {each["what"]: each for each in findings(site)}

    bus, listen = found["bus bus1"], found[f"listen 127.0.0.1:{site.ports[HERE]}"]
    if _net.HAS_UNIX:
        assert "runs here" in bus["fact"]
        assert (listen["state"], listen["do"]) == ("ok", "")
    else:
        assert bus["fact"] == "not searched: this system has no UNIX sockets"
        assert (bus["state"], listen["state"]) == ("warn", "warn")


@clause("BUS-DISC-14")
def test_an_address_in_use_or_of_another_host_is_named(site: Site) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", site.ports[HERE]))
        other.listen()
        used = findings(site)[2]
    foreign = findings(site, listen="192.0.2.1")[2]

    # Without UNIX sockets the doctor cannot tell whether it is that of the bus.
    assert used["state"] == ("fail" if _net.HAS_UNIX else "warn")
    assert "process listens there" in used["fact"]
    assert foreign["state"] == "fail"
    assert "cannot listen" in foreign["fact"]


@clause("BUS-DISC-14")
def test_missing_keys_are_named(site: Site, tmp_path: Path) -> None:
    failed = failure(findings(site, keys=str(tmp_path / "none")))

    assert failed["what"] == "keys"
    assert "bus keys issue" in failed["do"]
