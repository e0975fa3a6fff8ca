"""Two machines on one host, with real processes, TLS and two run directories."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from bus import BusConfig, Network, Role, UnreachableError, UnresolvedError
from bus.features.machines.authority import Authority
from bus.features.machines.machine_keys import MACHINE as KEYS
from queuebroker._net import unused_port
from specs.clauses import clause
from tests.kit.comm_threads import comm_of
from tests.kit.inspection import all_acknowledged
from tests.kit.site import HERE, THERE, Site
from tests.kit.tasks import Reader, unwanted
from tests.process.processes import linked
from tests.process.real import Far
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from bus import Presence


# Commands, notifications and presence.


@clause("BUS-ENT-10", "BUS-DISC-10")
def test_masters_call_each_other_over_one_link(site: Site) -> None:
    with site.here() as near, site.there("far", role="master") as far:
        near.register("echo", on_command=lambda message: message.payload)
        far("counter('echo')")

        assert near.call(f"ism://{THERE}/echo", 1, timeout=LIMIT_S) == 1
        assert far(f"bus.call('ism://{HERE}/echo', 2, timeout=20)") == 2
        assert linked(near) == {"far"}


@clause("BUS-ROUTE-14", "OPEN-15")
def test_end_processes_of_two_machines_talk_over_a_link_of_their_own(
    site: Site,
) -> None:
    """Case 5: the masters only negotiate."""
    with (
        Far("m1", role="master", machine=HERE, network=site.network(HERE)) as m1,
        site.there("m2", role="master"),
        site.there("far") as far,
    ):
        m1.started()
        far("counter('echo')")
        with site.here("near", role=Role.SLAVE) as near:
            assert near.call(f"ism://{THERE}/echo", 1, timeout=LIMIT_S) == 1
            assert linked(near) == {"m1", "far"}
            for number in range(200):
                near.command(f"ism://{THERE}/echo", number)
            assert near.call(f"ism://{THERE}/echo", "last", timeout=LIMIT_S) == "last"
            assert far("made['echo'].got") == [1, *range(200), "last"]


@clause("BUS-MSG-8")
def test_one_command_goes_to_tasks_of_both_machines(site: Site) -> None:
    with site.here() as near, site.there("far") as far:
        reader = Reader(near)
        far("counter('echo')")
        address = near.wait_for(f"ism://{THERE}/echo", timeout=LIMIT_S)
        sender = near.register("sender", on_undelivered=unwanted)

        sender.command(["reader", address], "to both")

        reader.has(1)
        far("made['echo'].has(1)")
        assert (reader.got, far("made['echo'].got")) == (["to both"], ["to both"])
        all_acknowledged(near)


@clause("BUS-RELAY-7")
def test_notifications_and_presence_cross_machines(site: Site) -> None:
    with site.here() as near, site.there("far") as far:
        events: list[Presence] = []
        readers = [Reader(near, name) for name in ("one", "two")]
        for reader in readers:
            reader.task.subscribe(f"ism://{THERE}/clock", reader._read, wait=True)
        watcher = near.register("watcher", on_command=unwanted)
        watcher.watch(f"ism://{THERE}/clock", events.append)

        far("counter('clock')")
        until(lambda: len(events) == 1, "its arrival is reported")
        for number in range(3):
            far(f"made['clock'].task.notify({number})")
        for reader in readers:
            reader.has(3)
        far("made['clock'].task.deregister()")
        until(lambda: len(events) == 2, "its departure is reported")

        assert [reader.got for reader in readers] == [[0, 1, 2]] * 2


@clause("BUS-NAME-2", "BUS-NAME-4")
def test_a_relative_name_never_leaves_its_machine(site: Site) -> None:
    with site.here() as near, site.there("far") as far:
        far("counter('echo')")
        assert near.call(f"ism://{THERE}/echo", 1, timeout=LIMIT_S) == 1

        with pytest.raises(UnresolvedError):
            near.call("echo", 2, timeout=0.2)


# Identity.


@pytest.mark.deep
@clause("BUS-SEC-5")
@pytest.mark.parametrize("dials", ["the impostor", "the other"])
def test_a_machine_speaks_only_for_the_name_in_its_certificate(
    site: Site, caplog: pytest.LogCaptureFixture, dials: str
) -> None:
    """Both sides compare it: the one that listens, and the one that dials."""
    keys = site.issue("cellar")
    own = keys / KEYS  # else its own process would notice first
    own.write_text(own.read_text().replace("machine cellar", f"machine {THERE}", 1))
    impostor = site.network(THERE, keys=keys)
    ours = site.network(HERE)
    if dials == "the other":
        impostor = attrs.evolve(impostor, peers=())
        ours = attrs.evolve(ours, peers=(f"127.0.0.1:{site.ports[THERE]}",))
    with site.there("far", network=impostor) as far, site.here(network=ours) as near:
        far("counter('echo')")
        words = f"machine cellar claims to be {THERE}"
        until(lambda: words in caplog.text, "its claim is refused")

        with pytest.raises(UnresolvedError):
            near.call(f"ism://{THERE}/echo", timeout=0.3)
        assert linked(near) == set()


@clause("BUS-SEC-5")
def test_the_keys_of_another_machine_are_named_at_once(site: Site) -> None:
    network = site.network(HERE, keys=site.issue("cellar"))

    words = (
        f"are those of machine 'cellar', this is '{HERE}': .*'bus keys issue {HERE}'"
    )
    with pytest.raises(ValueError, match=words), site.here(network=network):
        pass


@clause("BUS-SEC-5")
def test_a_machine_of_another_authority_gets_no_link(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Authority.create(tmp_path / "other")
    network = site.network(THERE, keys=site.issue(THERE, authority=other))
    with site.there("far", network=network) as far, site.here() as near:
        far("counter('echo')")

        until(lambda: "rejects 127.0.0.1:" in caplog.text, "the reason is logged")
        with pytest.raises(UnresolvedError):
            near.call(f"ism://{THERE}/echo", timeout=0.3)
        assert linked(near) == set()
        assert comm_of(near).rejected_peers > 0


@clause("BUS-SEC-5", "BUS-DISC-1")
def test_without_a_network_no_process_listens_on_one(site: Site) -> None:
    before = _own_sockets()  # such as one that PySpark listens at
    with site.here(network=None) as near:
        near.register("echo", on_command=unwanted)
        opened = _own_sockets() - before
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            listens, inode = fields[3] == "0A", f"socket:[{fields[9]}]"
            assert not (listens and inode in opened)


def _own_sockets() -> set[str]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(each.readlink()))
    return found


# Failures.


@clause("BUS-ENT-10", "OPEN-1", "OPEN-20")
def test_another_process_takes_over_the_links_with_other_machines(site: Site) -> None:
    """The new master dials them, or listens for them."""
    with site.here() as near, site.there("m2", role="master") as m2:
        near.register("echo", on_command=lambda message: message.payload)
        with site.there("far") as far:
            far("counter('echo')")
            assert near.call(f"ism://{THERE}/echo", 1, timeout=LIMIT_S) == 1
            m2.kill()

            # A search for it needs a link between the masters.
            far("counter('late')")
            assert near.call(f"ism://{THERE}/late", 2, timeout=LIMIT_S) == 2
            near.register("late", on_command=lambda message: message.payload)
            assert far(f"bus.call('ism://{HERE}/late', 3, timeout=20)") == 3


@pytest.mark.deep
@clause("BUS-DEREG-9")
def test_a_machine_that_ends_takes_its_tasks_with_it_and_may_come_back(
    site: Site,
) -> None:
    with site.here() as near:
        events: list[Presence] = []
        watcher = near.register("watcher", on_command=unwanted)
        watcher.watch(f"ism://{THERE}/echo", events.append)
        for life in range(2):
            with site.there("far") as far:
                far("counter('echo')")
                until(lambda: len(events) == 2 * life + 1, "it is seen")  # noqa: B023
                assert near.call(f"ism://{THERE}/echo", life, timeout=LIMIT_S) == life
                far.kill()
                until(lambda: len(events) == 2 * life + 2, "it is gone")  # noqa: B023

    assert [event.here for event in events] == [True, False] * 2


@pytest.mark.deep
@clause("BUS-DEREG-2", "BUS-DEREG-9")
@pytest.mark.parametrize("gateway", [False, True])
def test_watchers_in_every_process_get_the_departure_of_a_whole_machine(
    site: Site, gateway: bool
) -> None:
    """Its master and a slave are killed; the watchers are a master and a slave."""
    quick: dict[str, Any] = {"keep_alive_s": 0.5, "lease_s": 3.0}
    network = site.network(THERE, gateway=gateway)
    m1 = Far(
        "m1",
        role="master",
        machine=HERE,
        network=site.network(HERE),
        settings=quick,
    )
    names, seen = {"t/m2", "t/far"}, dict[str, bool]()
    with (
        m1,
        site.there("m2", role="master", network=network) as m2,
        site.there("far", network=network) as far,
    ):
        m1.started()
        m2("bus.register('t/m2')")
        far("bus.register('t/far')")
        m1(
            f"bus.register('w').watch('ism://{THERE}/t/*',"
            " lambda p: made.update({p.address.module: p.here}))"
        )
        with site.here("near", role=Role.SLAVE, config=BusConfig(**quick)) as near:
            near.register("watcher").watch(
                f"ism://{THERE}/t/*",
                lambda p: seen.update({p.address.module: p.here}),
            )
            here = dict.fromkeys(names, True)
            until(lambda: m1("made") == seen == here, "both watchers see both tasks")

            m2.kill()
            far.kill()

            gone = dict.fromkeys(names, False)
            until(lambda: m1("made") == seen == gone, "both see the departures")


@clause("BUS-ENT-10")
def test_an_address_that_is_taken_is_named(site: Site) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", site.ports[HERE]))
        other.listen()

        with (
            pytest.raises(OSError, match=f"{site.ports[HERE]}.*another port"),
            site.here(),
        ):
            pass


@clause("BUS-SEC-10")
def test_a_peer_that_is_this_machine_itself_is_not_dialled(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the setting to correct; it calls nobody a rejected process."""
    own = f"127.0.0.1:{site.ports[HERE]}"
    with site.here(network=site.network(HERE, peers=[own])):
        words = f"tls://{own} is this machine: it is not dialled"
        until(lambda: words in caplog.text, "that is logged")
    assert "is rejected" not in caplog.text


@clause("BUS-DISC-8", "BUS-DISC-13")
def test_a_machine_its_clone_and_a_third_one_report_the_conflict(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """All have the same `peers`, and the clone has the keys of the original."""
    third, keys = "cellar", [site.issue(each) for each in (THERE, THERE, "cellar")]
    ports = (site.ports[HERE], site.ports[THERE], unused_port())
    peers = [f"127.0.0.1:{port}" for port in ports]
    networks = [
        Network(listen=listen, peers=peers, keys=each)
        for listen, each in zip(peers, keys, strict=True)
    ]
    seen = "[[m.name, m.state.value, m.address] for m in bus.inspect().machines]"

    with (
        site.here(machine=THERE, network=networks[0]) as original,
        site.there("far", machine=third, network=networks[2]) as far,
    ):

        def here() -> list[tuple[str | None, str, str | None]]:
            found = original.inspect().machines
            return [(each.name, each.state.value, each.address) for each in found]

        until(lambda: (third, "linked") in {each[:2] for each in here()}, "a link")
        with site.there("clone", machine=THERE, network=networks[1]) as clone:
            first, second = (f"tls://{each}" for each in peers[:2])
            until(lambda: (THERE, "conflict", second) in here(), "here")
            until(lambda: [THERE, "conflict", first] in clone(seen), "at the clone")
            until(lambda: [THERE, "conflict", second] in far(seen), "at the third")

            assert (third, "linked") in {each[:2] for each in here()}
            assert [THERE, "linked", first] in far(seen)

    lines = [each for each in caplog.messages if "two machines are named" in each]
    assert len(lines) == 1
    assert f"{THERE!r}: this machine at {first} and the one at" in lines[0]
    assert "open_bus(machine=...)" in lines[0]
    itself = [each for each in caplog.messages if "is this machine" in each]
    assert itself == [f"{first} is this machine: it is not dialled"]


@clause("BUS-DISC-8", "BUS-DISC-13")
def test_two_machines_of_one_name_without_keys_report_the_conflict(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The second listens nowhere, and dials the first."""
    first = f"127.0.0.1:{site.ports[HERE]}"
    listens = Network(listen=first)
    with (
        site.here(machine=THERE, network=listens) as near,
        site.there("far", network=Network(peers=[first])) as far,
    ):
        conflict = [THERE, "conflict"]
        seen = "[[m.name, m.state.value, m.address] for m in bus.inspect().machines]"
        until(lambda: far(seen) == [[*conflict, f"tcp://{first}"]], "at the second")
        [found] = near.inspect().machines

    assert [found.name, found.state.value] == conflict
    assert found.address == "127.0.0.1"
    assert "is this machine: it is not dialled" not in caplog.text


@clause("OPEN-15")
def test_a_holder_without_a_network_is_unreachable_from_other_machines(
    site: Site,
) -> None:
    """Its master has one, and finds it."""
    with (
        site.there("m2", role="master"),
        site.there("far", network=None) as far,
        site.here() as near,
    ):
        far("counter('echo')")

        with pytest.raises(UnreachableError, match=f"ism://{THERE}/echo"):
            near.call(f"ism://{THERE}/echo", timeout=LIMIT_S)


@clause("BUS-DEREG-12")
def test_closing_does_not_wait_for_the_answer_to_a_dns_query(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take minutes, and no call of the system ends it."""
    look_up, asked, answer = socket.getaddrinfo, Event(), Event()
    answered: list[None] = []

    def slow(host: str, *rest: Any, **options: Any) -> Any:
        if host != "cellar.example":
            return look_up(host, *rest, **options)
        asked.set()
        answer.wait(LIMIT_S)
        answered.append(None)
        raise socket.gaierror(socket.EAI_NONAME, "no such host")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with site.here(network=site.network(HERE, peers=["cellar.example"])):
        assert asked.wait(LIMIT_S)

    assert answered == []
    answer.set()
    until(lambda: answered != [], "the query is over")
