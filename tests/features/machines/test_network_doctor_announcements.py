"""``bus doctor --network``: the announcements received, and their machines."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bus.features.machines.announcement import encode_announcement
from bus.features.machines.machine_keys import MachineKeys
from bus.features.machines.probe import Fault
from bus.process.socket_network import machine_id
from queuebroker._net import unused_port
from specs.clauses import clause
from tests.features.machines.findings import failure, findings, is_fault, states
from tests.kit.discovery import announcement
from tests.kit.site import HERE, THERE, Site

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def announced(site: Site, port: int, **given: Any) -> Iterator[None]:
    """Announce a machine repeatedly; the arguments make others reject it."""
    keys = site.network(THERE).keys
    assert keys is not None
    group_keys = given.pop("keys", MachineKeys(keys).group_keys())
    machine = given.pop("machine", THERE)
    fields = {"port": site.ports[THERE]} | given
    ends = threading.Event()

    def run() -> None:
        counter = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.bind(("127.0.0.1", 0))
            while not ends.wait(0.05):
                counter += 1
                made = announcement(machine, counter=counter, **fields)
                data = encode_announcement(made, group_keys)
                sender.sendto(data, ("127.255.255.255", port))

    helper = threading.Thread(target=run)
    helper.start()
    try:
        yield
    finally:
        ends.set()
        helper.join()


@pytest.mark.deep
@clause("BUS-DISC-14", "BUS-DISC-11")
@pytest.mark.parametrize(
    ("given", "state", "words", "fault"),
    [
        ({"bus": "bus2"}, "warn", "ignored: of another bus", Fault.OTHER_BUS),
        (
            {"versions": (8, 9)},
            "warn",
            "ignored: of another protocol version",
            Fault.VERSION,
        ),
        (
            {"keys": [b"k" * 32]},
            "warn",
            "ignored: not signed with the group key",
            Fault.UNTRUSTED,
        ),
        (
            {"machine": HERE},
            "fail",
            f"another machine is named {HERE}: the one at tls://127.0.0.1:",
            Fault.CONFLICT,
        ),
    ],
    ids=["other bus", "other version", "other keys", "same name"],
)
def test_ignored_announcements_are_reported_with_their_reason(
    site: Site, given: dict[str, Any], state: str, words: str, fault: Fault
) -> None:
    port = unused_port(datagrams=True)
    with announced(site, port, **given):
        found = findings(site, discovery="host", discovery_port=port)

    [one] = [
        each
        for each in found
        if each["what"] == "announcements" and words in each["fact"]
    ]
    assert one["state"] == state
    assert is_fault(one, fault)
    last = failure([each for each in found if each["what"] == "other machines"])
    assert "no machine was found" in last["fact"]
    reason = words.removeprefix("ignored: ")
    if state == "fail":
        reason = "of a machine whose name is in use"
    assert re.search(rf"; ignored announcements: \d+ {reason}$", last["fact"])
    assert last["do"].startswith(f"{one['do']}; or give one machine the address ")
    received = next(each for each in found if each["what"] == "announcements")
    assert received["state"] == "warn"
    assert received["fact"].endswith(" s: no other machine of the bus")


@pytest.mark.deep
@clause("BUS-DISC-14", "BUS-DISC-8")
def test_a_clock_that_was_set_back_is_no_machine_of_the_same_name(site: Site) -> None:
    """The master of this host announces an instance that is later than now."""
    port = unused_port(datagrams=True)
    later = {"machine": HERE, "machine_id": machine_id(), "instance": 2**62}
    with announced(site, port, **later):
        found = findings(site, discovery="host", discovery_port=port)

    [one] = [each for each in found if each["what"] == "announcements"][1:]
    assert (one["state"], "clock" in one["do"]) == ("fail", True)
    assert "named" not in one["fact"]


@pytest.mark.deep
@clause("BUS-DISC-14")
def test_without_ignored_announcements_none_is_mentioned(site: Site) -> None:
    port = unused_port(datagrams=True)

    found = findings(site, discovery="host", discovery_port=port)

    last = failure(found)
    assert last["what"] == "other machines"
    assert "ignored" not in last["fact"]
    [received] = [each for each in found if each["what"] == "announcements"]
    assert (received["state"], "firewalls" in received["do"]) == ("warn", True)


@pytest.mark.deep
@clause("BUS-DISC-14", "BUS-SEC-6")
def test_a_found_machine_is_tried_and_must_be_the_announced_one(site: Site) -> None:
    port = unused_port(datagrams=True)
    address = f"127.0.0.1:{site.ports[THERE]}"
    with (
        site.there("far", network=site.network(THERE, peers=[])),
        announced(site, port, machine="attic"),
    ):
        found = findings(site, discovery="host", discovery_port=port)

    assert states(found, address) == {"tcp": "ok", "tls": "fail"}
    failed = failure(found)
    assert failed["fact"] == f"machine attic is announced, {THERE} is certified there"
    assert is_fault(failed, Fault.MACHINE_NAME)
