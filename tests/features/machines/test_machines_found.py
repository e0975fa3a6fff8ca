"""Machines of one host that find each other, with real processes."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bus import BusConfig, MachineState, Network, Role, open_bus
from bus.features.machines.announcer import Announcer
from bus.features.machines.discovery import AnnouncementReader, Rejection
from bus.features.machines.machine_keys import GROUP_KEY
from specs.clauses import clause
from tests.kit.comm_threads import comm_of
from tests.kit.site import HERE, THERE, Site
from tests.process.processes import linked
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus

QUICK = BusConfig(announce_s=0.05)


def found(bus: Bus) -> dict[str, str]:
    """Return the address of each machine that a master has found."""
    machines = bus._node.network._outside._discovery.machines()  # type: ignore[union-attr]
    return {each.name: each.address for each in machines}


def instance(bus: Bus) -> int:
    """Return the instance of the other machine that a master has found."""
    machines = bus._node.network._outside._discovery.machines()  # type: ignore[union-attr]
    return max((each.instance for each in machines), default=0)


def announcer_of(bus: Bus) -> Announcer:
    announcer = bus._node.network._outside._discovery._announcer  # type: ignore[union-attr]
    assert isinstance(announcer, Announcer)
    return announcer


def reader_of(bus: Bus) -> AnnouncementReader:
    """Return the checks of the announcements that a master receives."""
    return announcer_of(bus)._discovery.reader


def await_announcements(reader: AnnouncementReader, count: int) -> None:
    """Wait until a master has accepted some more announcements."""
    enough = reader.read + count
    until(lambda: reader.read >= enough, "announcements are accepted")


def next_announcement(bus: Bus) -> float:
    """Return the time of a master's next announcement, in seconds."""
    return announcer_of(bus)._discovery.due_at


def options(port: int, **given: Any) -> dict[str, Any]:
    """Return the settings of a network in which machines find each other."""
    return {"peers": [], "discovery": "host", "discovery_port": port, **given}


@clause("BUS-DISC-2", "BUS-DISC-5", "BUS-DISC-7", "BUS-DISC-9", "BUS-DISC-13")
def test_two_machines_find_each_other_and_talk(site: Site, port: int) -> None:
    """Neither has the other's address; there is one link, and no other socket."""
    network = site.network(HERE, **options(port))
    there = site.network(THERE, **options(port))
    with (
        site.here(network=network, config=QUICK) as near,
        site.there("far", network=there) as far,
    ):
        far("counter('echo')")
        assert near.call(f"ism://{THERE}/echo", 1, timeout=LIMIT_S) == 1
        assert found(near) == {THERE: f"tls://127.0.0.1:{site.ports[THERE]}"}
        assert linked(near) == {"far"}
        [machine] = near.inspect().machines
        assert (machine.name, machine.state) == (THERE, MachineState.LINKED)


@pytest.mark.deep
@clause("BUS-SEC-6")
def test_running_masters_use_a_group_key_that_replaces_another(
    site: Site, port: int
) -> None:
    """No announcement is rejected, though one folder is replaced after the other."""
    networks = {each: site.network(each, **options(port)) for each in (HERE, THERE)}

    def issue_again(count: int) -> None:
        """Replace the folders of both machines, and await their use by this one."""
        for machine in (THERE, HERE):
            folder = networks[machine].keys
            assert folder is not None
            site.authority.issue(machine, folder, days=1)
            await_announcements(reader, 5)
        until(lambda: len(reader.keys) == count, "the new keys are in use")

    with (
        site.here(network=networks[HERE], config=QUICK) as near,
        site.there("far", network=networks[THERE], settings={"announce_s": 0.05}),
    ):
        reader = reader_of(near)
        until(lambda: bool(found(near)), "the machines have found each other")
        (first,) = reader.keys
        site.authority.rotate()
        issue_again(2)
        site.authority.retire()
        issue_again(1)

        assert first not in reader.keys
        assert Rejection.UNAUTHENTICATED not in reader.rejected


@clause("BUS-SEC-6")
def test_damaged_group_keys_leave_the_former_ones_in_use(
    site: Site, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    network = site.network(HERE, **options(port))
    assert network.keys is not None
    path = Path(network.keys) / GROUP_KEY
    with site.here(network=network, config=QUICK) as near:
        former, good = reader_of(near).keys, path.read_bytes()
        path.write_bytes(b"damaged")
        until(lambda: "stay in use" in caplog.text, "the damage is logged")
        since = next_announcement(near)
        until(lambda: next_announcement(near) > since + 0.2, "it announces itself")
        assert reader_of(near).keys == former
        assert caplog.text.count("must hold 64 hexadecimal digits") == 1

        path.write_bytes(bytes(reversed(good)))
        until(lambda: reader_of(near).keys != former, "the mended file is read")


@clause("BUS-DISC-1")
def test_without_discovery_nothing_is_announced(site: Site, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        with (
            site.here(config=QUICK) as near,
            site.there("far") as far,
        ):
            far("counter('echo')")
            assert near.call(f"ism://{THERE}/echo", 1, timeout=LIMIT_S) == 1
            assert found(near) == {}
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(1)


@clause("BUS-DISC-12")
def test_a_master_that_ends_in_order_is_forgotten_at_once(
    site: Site, port: int
) -> None:
    network = site.network(HERE, **options(port))
    there = site.network(THERE, **options(port))
    with site.here(network=network, config=QUICK) as near:
        with site.there("far", network=there) as far:
            until(lambda: THERE in found(near), "it is found")
            far("bus.close()")
            until(lambda: not found(near), "it has left", limit_s=5.0)
        until(lambda: not linked(near), "the link has ended")


@clause("BUS-DISC-8")
def test_the_next_master_of_a_machine_is_found(site: Site, port: int) -> None:
    """It was a slave before, and announces the machine in place of the former one."""
    network = site.network(HERE, **options(port))
    there = site.network(THERE, **options(port))
    with (
        site.here(network=network, config=QUICK) as near,
        site.there("m2", network=there) as m2,
        site.there("next", network=there) as heir,
    ):
        heir("counter('echo')")
        assert near.call(f"ism://{THERE}/echo", 1, timeout=LIMIT_S) == 1
        former = instance(near)
        m2.kill()
        until(lambda: instance(near) > former, "the next master is announced")
        until(
            lambda: (
                comm_of(near).remote.topology.master_of(THERE) is not None
                and "next" in linked(near)
            ),
            "there is a link with the next master",
        )
        assert near.call(f"ism://{THERE}/echo", 2, timeout=LIMIT_S) == 2


@clause("BUS-SEC-6", "BUS-DISC-11")
def test_a_forged_announcement_is_counted_and_dialled_by_nobody(
    site: Site, port: int
) -> None:
    network = site.network(HERE, **options(port))
    with (
        site.here(network=network, config=QUICK) as near,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger,
    ):
        forger.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for data in (b"", b"ISMA\1" + bytes(99), os.urandom(400)):
            forger.sendto(data, ("127.255.255.255", port))
        discovery = near._node.network._outside._discovery  # type: ignore[union-attr]
        until(lambda: discovery.rejected() == {"malformed": 3}, "all are counted")
        assert found(near) == {}


@pytest.fixture
def taken(port: int) -> Iterator[int]:
    """Return a UDP port whose broadcast address is taken by another program."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", port))
        yield port


def test_a_port_that_another_program_has_is_named(
    taken: int, own_run_directory: Path
) -> None:
    del own_run_directory
    network = Network(listen="127.0.0.1:0", discovery="host", discovery_port=taken)
    text = f"127.0.0.1 to 127.255.255.255, UDP port {taken}: Address already in use"
    with pytest.raises(OSError, match=text), open_bus(machine="m", network=network):
        raise AssertionError
    with open_bus(machine="m", role=Role.MASTER) as bus:  # the place is free again
        assert bus.machine == "m"
