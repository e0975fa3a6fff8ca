"""The machines that a master finds: dialled, dialled anew, and forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.features.machines.discovery import Event
from bus.features.machines.machine_table import Change, Machine
from bus.features.machines.name_conflicts import REMEDY
from bus.kernel.tasks.actions import Dial
from bus.kernel.wire import LinkKind
from specs.clauses import clause
from tests.features.machines.test_static_addresses import CONFIG, Master, connect

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action

STATIC = "tls://198.51.100.9:7400"
ADDRESS, LATER = "tls://192.0.2.2:7400", "tls://192.0.2.3:7400"


def received(
    master: Master,
    change: Change,
    now: float = 1.0,
    *,
    address: str = ADDRESS,
    patience_s: float = 0.0,
) -> list[tuple[str, ...]]:
    """Let a master hear of machine m2; return the addresses that it dials."""
    machine = Machine("m2", "id-m2", 1, address, now, now, 1)
    event = Event(change, machine, patience_s)
    return dialled(master.machines.on_event(event, now))


def dialled(actions: list[Action]) -> list[tuple[str, ...]]:
    """Return the addresses that actions dial."""
    return [each.addresses for each in actions if isinstance(each, Dial)]


@clause("BUS-DISC-7", "OPEN-20")
def test_the_lower_master_dials_a_found_machine_at_once() -> None:
    assert received(Master("m1"), Change.FOUND) == [(ADDRESS,)]


@clause("OPEN-20")
def test_the_higher_master_dials_if_no_link_comes() -> None:
    master = Master("m1")
    assert received(master, Change.FOUND, patience_s=3.0) == []
    assert dialled(master.remote.tick(3.9)) == []
    assert master.remote.topology.timers.next() == 4.0
    assert dialled(master.remote.tick(4.0)) == [(ADDRESS,)]


@clause("OPEN-20")
def test_the_higher_master_does_not_dial_if_a_link_came() -> None:
    one, two = Master("m1"), Master("m2")
    received(one, Change.FOUND, patience_s=3.0)
    connect(two, one, 1, "m1", "m1")
    assert dialled(one.remote.tick(4.0)) == []


@clause("BUS-DISC-8")
def test_a_restarted_machine_is_dialled_although_there_is_a_link() -> None:
    one, two = Master("m1"), Master("m2")
    received(one, Change.FOUND)
    connect(one, two, 1, "m2", "m2")
    assert received(one, Change.FOUND) == []
    assert received(one, Change.RESTARTED, address=LATER) == [(LATER,)]
    later = Master("m2", incarnation=2)
    connect(one, later, 2, "m2", "m2", 1.0)
    [peer] = one.remote.topology.joined()
    assert (peer.session.link, peer.session.incarnation) == (1, 1)
    later.remote.on_link_lost(2, 1.0)
    assert dialled(one.remote.tick(2.0)) == [(LATER,)]
    connect(one, later, 3, "m2", "m2", 2.0)
    [peer] = one.remote.topology.joined()
    assert (peer.session.link, peer.session.incarnation) == (3, 2)
    assert one.log == []


@clause("BUS-DISC-8")
def test_a_link_that_comes_meanwhile_is_that_of_the_restarted_machine() -> None:
    """The higher master waits, and then need not dial."""
    one, two = Master("m1"), Master("m2", incarnation=2)
    connect(one, Master("m2"), 1, "m2", "m2")
    received(one, Change.RESTARTED, patience_s=3.0)
    connect(two, one, 2, "m1", "m1", 1.0)
    connect(two, one, 3, "m1", "m1", 2.0)
    assert dialled(one.remote.tick(4.0)) == []


@clause("BUS-DISC-12")
def test_a_machine_that_left_or_was_silent_is_dialled_no_more() -> None:
    for change in (Change.LEFT, Change.SILENT):
        master = Master("m1")
        received(master, Change.FOUND)
        master.remote.on_dial_failed(LinkKind.SIGNALLING, ("m2", ""), 1.0)
        assert "m2" in master.redial
        received(master, change)
        assert dialled(master.remote.tick(9.0)) == []


@clause("BUS-DISC-12")
def test_a_link_outlives_the_silence_of_its_machine() -> None:
    """Announcements may be filtered where links are not."""
    one, two = Master("m1"), Master("m2")
    received(one, Change.FOUND)
    connect(one, two, 1, "m2", "m2")
    received(one, Change.SILENT)
    [peer] = one.remote.topology.joined()
    assert peer.session.link == 1


@clause("BUS-DISC-12", "OPEN-10")
def test_a_silent_machine_whose_link_breaks_is_dialled_for_the_lease() -> None:
    """Both sides may have forgotten each other, and neither would dial."""
    one, two = Master("m1"), Master("m2")
    received(one, Change.FOUND)
    connect(one, two, 1, "m2", "m2")
    received(one, Change.SILENT)
    assert dialled(one.remote.on_link_lost(1, 2.0)) == [(ADDRESS,)]
    now = 2.0
    while now < 30.0:
        one.remote.on_dial_failed(LinkKind.SIGNALLING, ("m2", ""), now)
        if "m2" not in one.redial:
            break
        now = one.redial["m2"]
        assert dialled(one.remote.tick(now)) == [(ADDRESS,)]
    assert 2.0 + CONFIG.lease_s <= now < 2.0 + CONFIG.lease_s + 3.0


@clause("OPEN-20", "OPEN-10")
def test_a_lost_link_is_dialled_by_the_side_that_had_accepted_it_later() -> None:
    """The other side may have forgotten this machine."""
    one, two = Master("m1"), Master("m2")
    received(one, Change.FOUND, patience_s=3.0)
    connect(two, one, 1, "m1", "m1")
    one.remote.tick(4.0)
    assert dialled(one.remote.on_link_lost(1, 5.0)) == []
    assert dialled(one.remote.tick(7.9)) == []
    assert dialled(one.remote.tick(8.0)) == [(ADDRESS,)]


@clause("BUS-DISC-8")
def test_one_dial_to_a_machine_is_under_way_at_a_time() -> None:
    """Each dial takes a thread, and a member may announce restarts without end."""
    master = Master("m1")
    assert received(master, Change.FOUND) == [(ADDRESS,)]
    for _ in range(9):
        assert received(master, Change.RESTARTED, address=LATER) == []
    master.remote.on_dial_failed(LinkKind.SIGNALLING, ("m2", ""), 2.0)
    assert dialled(master.remote.tick(3.0)) == [(LATER,)]


@clause("BUS-DISC-8")
def test_a_restarted_machine_is_dialled_until_a_link_is_made() -> None:
    one, two = Master("m1"), Master("m2")
    received(one, Change.FOUND)
    connect(one, two, 1, "m2", "m2")
    assert received(one, Change.RESTARTED) == [(ADDRESS,)]
    one.remote.on_dial_failed(LinkKind.SIGNALLING, ("m2", ""), 2.0)
    assert dialled(one.remote.tick(3.0)) == [(ADDRESS,)]


@clause("BUS-DISC-8")
def test_the_later_machine_of_a_name_gets_no_link_while_the_first_has_one() -> None:
    """Whichever side dials; its certificate is as good as that of the first."""
    one, first = Master("m1"), Master("m2")
    later = Master("m2", incarnation=9, machine_id="other")
    received(one, Change.FOUND)
    connect(one, first, 1, "m2", "m2")
    connect(later, one, 2, "m1", "m1")
    [peer] = one.remote.topology.joined()
    assert (peer.session.link, peer.machine_id) == (1, "m2")
    [line] = one.log
    assert line.startswith("two machines are named 'm2'")


@clause("BUS-DISC-7")
def test_another_machine_at_the_announced_address_gets_no_link() -> None:
    one = Master("m1")
    received(one, Change.FOUND)
    connect(one, Master("m3"), 1, "m2", "m3")
    assert one.remote.topology.joined() == []
    assert "m2" in one.redial
    assert "answers in place of" in one.log[-1]


@clause("OPEN-20")
def test_a_stale_static_address_does_not_declare_a_machine_lost() -> None:
    """It was found at another address since, and the dial there is under way."""
    one, two = Master("m1", STATIC), Master("m2")
    connect(one, two, 1, STATIC, "m2")
    received(one, Change.FOUND, address=LATER)
    one.remote.on_link_lost(1, 2.0)
    one.remote.tick(2.2)
    one.machines.dial("m2", 2.2)
    one.remote.on_dial_failed(LinkKind.SIGNALLING, (STATIC, ""), 2.3)
    assert [each.machine for each in one.remote.topology.joined()] == ["m2"]
    one.remote.on_dial_failed(LinkKind.SIGNALLING, ("m2", ""), 2.4)
    assert one.remote.topology.joined() == []


@clause("BUS-DISC-12")
def test_nothing_is_kept_of_machines_that_are_gone() -> None:
    """A failed dial may end after its machine has left."""
    master = Master("m1")
    received(master, Change.FOUND)
    received(master, Change.LEFT)
    master.remote.on_dial_failed(LinkKind.SIGNALLING, ("m2", ""), 2.0)
    known = master.machines
    kept = (known._delays, known.redial_at, known._dialling, known.found_at)
    assert known.failures.last(["m2"]) == []
    assert not any(kept)


@clause("OPEN-3")
def test_a_second_machine_of_a_name_is_reported_and_not_dialled() -> None:
    master = Master("m1")
    assert received(master, Change.CONFLICT) == []
    assert master.log == [
        "two machines are named 'm2': the one, found earlier, and the one at "
        f"{ADDRESS}: {REMEDY} (BUS-DISC-8)"
    ]
