"""Discovery as pure logic: checks of announcements, and the table (BUS-DISC)."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from bus.features.machines.announcement import encode_announcement, is_signed
from bus.features.machines.discovery import Discovery, Rejection
from bus.features.machines.machine_table import MACHINES_MAX, Change
from specs.clauses import clause
from tests.kit.discovery import GROUP_KEY, announcement, discovery_settings
from tests.kit.identities import identity

KEYS = (GROUP_KEY,)
LATER_KEY = b"later key".ljust(32)
ANNOUNCEMENT = announcement("m", instance=7, host="192.0.2.1", port=7400)


def discovery(
    machine: str = "here", *, machine_id: str = "", instance: int = 5, **changed: object
) -> Discovery:
    """Return the discovery of one master."""
    settings = discovery_settings("192.0.2.9", **changed)
    me = identity(machine, machine_id=machine_id or f"id-{machine}")
    return Discovery(me, instance, settings, Random(1).random)


def datagram(*keys: bytes, **changed: object) -> bytes:
    """Return an announcement that differs from `ANNOUNCEMENT` in some fields.

    Without keys it is signed with the group key of `discovery`.
    """
    made = msgspec.structs.replace(ANNOUNCEMENT, **changed)
    return encode_announcement(made, keys or KEYS)


PLAIN = encode_announcement(ANNOUNCEMENT, ())


@clause("BUS-SEC-6")
def test_new_group_keys_are_in_force_at_once() -> None:
    here = discovery()
    here.set_keys((LATER_KEY, GROUP_KEY))
    assert is_signed(here.announce(1.0), (LATER_KEY,))
    assert here.on_datagram(datagram(LATER_KEY), "192.0.2.1", 1.0) is not None

    here.set_keys((LATER_KEY,))
    assert here.on_datagram(datagram(counter=2), "192.0.2.1", 2.0) is None
    assert here.reader.rejected == {Rejection.UNAUTHENTICATED: 1}


@clause("BUS-DISC-11", "BUS-SEC-6", "OPEN-19")
@pytest.mark.parametrize(
    ("data", "host", "reason"),
    [
        (b"", "192.0.2.1", Rejection.MALFORMED),
        (b"RTPS", "192.0.2.1", Rejection.MALFORMED),
        (datagram() + b"\0" * 600, "192.0.2.1", Rejection.MALFORMED),
        (datagram(host="1.0.0.0").replace(b"1.0.", b"0.0."), "", Rejection.MALFORMED),
        (datagram().replace(b"192", b"abc"), "192.0.2.1", Rejection.MALFORMED),
        (datagram(bus="c"), "192.0.2.1", Rejection.OTHER_BUS),
        (datagram(versions=(90, 91)), "192.0.2.1", Rejection.VERSION),
        (datagram(), "192.0.2.2", Rejection.OTHER_HOST),
        (PLAIN, "192.0.2.1", Rejection.UNAUTHENTICATED),
        (datagram(b"x" * 32), "192.0.2.1", Rejection.UNAUTHENTICATED),
        (datagram(machine="here"), "192.0.2.1", Rejection.CONFLICT),
    ],
    ids=lambda value: value.name if isinstance(value, Rejection) else "",
)
def test_a_wrong_datagram_is_counted_and_changes_nothing(
    data: bytes, host: str, reason: Rejection
) -> None:
    """Each kind of wrong datagram raises its own counter."""
    here = discovery()
    here.on_datagram(data, host, 1.0)
    assert here.reader.rejected == {reason: 1}
    assert not list(here.machines)


@clause("BUS-SEC-6")
def test_a_plain_announcement_counts_without_keys_alone() -> None:
    """With keys, no unsigned announcement is accepted, and vice versa."""
    here = discovery(keys=(), scheme="tcp")
    assert here.on_datagram(datagram(), "192.0.2.1", 1.0) is None
    found = here.on_datagram(PLAIN, "192.0.2.1", 1.0)
    assert found is not None
    assert found.machine.address == "tcp://192.0.2.1:7400"


@clause("OPEN-19")
def test_an_advertised_address_may_differ_from_the_source() -> None:
    """Behind a translating router the datagram has another source."""
    found = discovery().on_datagram(datagram(advertised=True), "198.51.100.1", 1.0)
    assert found is not None
    assert found.machine.address == "tls://192.0.2.1:7400"


@clause("BUS-DISC-11")
def test_own_announcements_are_skipped() -> None:
    """A master hears itself, and neither finds nor rejects itself."""
    here = discovery()
    assert here.on_datagram(here.announce(1.0), "192.0.2.9", 1.0) is None
    assert here.on_datagram(here.leave_datagram(), "192.0.2.9", 1.0) is None
    assert (here.reader.read, not here.reader.rejected) == (0, True)


@clause("BUS-DISC-8")
def test_the_former_master_of_this_machine_is_no_conflict() -> None:
    """Its last datagrams may arrive after the next one has begun."""
    here = discovery(instance=5)
    late = datagram(machine="here", machine_id="id-here", instance=4)
    assert here.on_datagram(late, "192.0.2.1", 1.0) is None
    assert not here.reader.rejected
    two = datagram(machine="here", machine_id="id-here", instance=6)
    event = here.on_datagram(two, "192.0.2.1", 1.0)
    assert event is not None
    assert event.change is Change.CONFLICT


@clause("BUS-DISC-8")
def test_a_clone_that_began_earlier_than_this_machine_is_a_conflict() -> None:
    """It keeps announcing itself; a former master does not."""
    here = discovery(instance=5)
    hello = {"machine": "here", "machine_id": "id-here", "instance": 4}

    early = [
        here.on_datagram(datagram(**hello, counter=each), "192.0.2.1", at)
        for each, at in ((7, 1.0), (8, 2.0), (9, 4.0), (7, 5.0))
    ]
    leaves = datagram(**hello, counter=10, leaves=True)
    assert here.on_datagram(leaves, "192.0.2.1", 5.0) is None
    event = here.on_datagram(datagram(**hello, counter=11), "192.0.2.1", 5.0)

    assert early == [None] * 4
    assert event is not None
    assert event.change is Change.CONFLICT


@clause("BUS-DISC-8")
def test_a_machine_and_its_clone_are_a_conflict_for_others() -> None:
    """The earlier instance announces itself long after the later one began."""
    here = discovery()
    changes: list[Change | None] = []
    for instance, counter, at in (
        *((1, 4, 1.0), (2, 1, 1.5)),
        *((1, 5, 2.0), (2, 2, 4.0)),  # the last ones of the earlier may be late
        *((1, 5, 5.0), (1, 4, 5.0), (2, 3, 5.5), (1, 6, 6.0)),
    ):
        data = datagram(instance=instance, counter=counter)
        event = here.on_datagram(data, "192.0.2.1", at)
        changes.append(None if event is None else event.change)

    assert changes == [
        *(Change.FOUND, Change.RESTARTED, None, None),
        *(Change.CONFLICT, None, None, None),
    ]
    [machine] = here.machines
    assert machine.instance == 2


@clause("BUS-DISC-7", "OPEN-20")
def test_a_found_machine_is_dialled_by_the_lower_one() -> None:
    """One side of each pair dials, by machine id, then by name."""
    for mine, patience_s in (("a", 0.0), ("z", 3.0)):
        event = discovery(machine_id=mine).on_datagram(datagram(), "192.0.2.1", 1.0)
        assert event is not None
        assert (event.change, event.patience_s) == (Change.FOUND, patience_s)
    same = discovery("zz", machine_id="id-m").on_datagram(datagram(), "192.0.2.1", 1.0)
    assert same is not None
    assert same.patience_s == 3.0


@clause("BUS-DISC-6")
def test_only_the_first_announcement_of_an_instance_is_a_change() -> None:
    """Later ones only show that the machine is alive."""
    here = discovery()
    assert here.on_datagram(datagram(), "192.0.2.1", 1.0)
    for counter in range(2, 31):
        assert not here.on_datagram(datagram(counter=counter), "192.0.2.1", counter)
    [machine] = here.machines
    assert (machine.found_at, machine.announced_at) == (1.0, 30)


@clause("BUS-DISC-11")
def test_a_repeated_datagram_keeps_no_machine_alive() -> None:
    """A recorded datagram is counted, and does not prolong the lease."""
    here = discovery()
    here.on_datagram(datagram(counter=4), "192.0.2.1", 1.0)
    here.on_datagram(datagram(counter=4), "192.0.2.1", 9.0)
    here.on_datagram(datagram(counter=3), "192.0.2.1", 9.0)
    here.on_datagram(datagram(counter=9, instance=6), "192.0.2.1", 2.0)
    assert here.reader.rejected == {Rejection.REPEATED: 3}
    assert [each.machine.name for each in here.expire(11.0)] == ["m"]


@clause("BUS-DISC-8")
def test_a_restarted_machine_replaces_its_entry() -> None:
    """A new instance of a known machine is dialled anew, also elsewhere."""
    here = discovery()
    here.on_datagram(datagram(counter=50), "192.0.2.1", 1.0)
    again = datagram(instance=8, host="192.0.2.7", port=7401)
    event = here.on_datagram(again, "192.0.2.7", 2.0)
    assert event is not None
    assert event.change is Change.RESTARTED
    assert event.machine.address == "tls://192.0.2.7:7401"


@clause("BUS-DISC-8")
def test_a_machine_whose_clock_was_set_back_is_found_again() -> None:
    """A lower instance counts as soon as the former one is silent."""
    here = discovery()
    here.on_datagram(datagram(instance=100), "192.0.2.1", 1.0)
    back = datagram(instance=3)
    assert here.on_datagram(back, "192.0.2.1", 3.9) is None
    event = here.on_datagram(datagram(instance=3, counter=2), "192.0.2.1", 4.1)
    assert event is not None
    assert event.change is Change.RESTARTED


@clause("OPEN-3")
def test_the_first_machine_of_a_name_stays() -> None:
    """A machine with another id and the same name is reported once."""
    here = discovery()
    here.on_datagram(datagram(), "192.0.2.1", 1.0)
    other = datagram(machine_id="id-x", host="192.0.2.2")
    event = here.on_datagram(other, "192.0.2.2", 1.0)
    assert event is not None
    assert (event.change, event.machine.id) == (Change.CONFLICT, "id-x")
    assert here.on_datagram(other, "192.0.2.2", 2.0) is None
    assert here.reader.rejected == {Rejection.CONFLICT: 2}
    [machine] = here.machines
    assert machine.id == "id-m"


@clause("BUS-DISC-12")
def test_a_machine_that_leaves_is_forgotten_at_once() -> None:
    """An orderly end is announced, and cannot be announced by replay."""
    here = discovery()
    here.on_datagram(datagram(), "192.0.2.1", 1.0)
    event = here.on_datagram(datagram(counter=2, leaves=True), "192.0.2.1", 1.5)
    assert event is not None
    assert (event.change, event.machine.name) == (Change.LEFT, "m")
    assert not list(here.machines)
    assert here.on_datagram(datagram(leaves=True), "192.0.2.1", 1.6) is None
    here.on_datagram(datagram(instance=9), "192.0.2.1", 2.0)
    assert here.on_datagram(datagram(leaves=True), "192.0.2.1", 2.1) is None
    assert len(list(here.machines)) == 1


@clause("BUS-DISC-12")
def test_a_silent_machine_is_forgotten_after_the_lease() -> None:
    """The lease begins anew with each announcement."""
    here = discovery()
    here.on_datagram(datagram(), "192.0.2.1", 1.0)
    here.announce(5.0)
    here.on_datagram(datagram(counter=2), "192.0.2.1", 5.0)
    here.due_at = 100.0
    assert here.next_deadline() == 15.0
    assert here.expire(14.9) == []
    assert [each.machine.name for each in here.expire(15.0)] == ["m"]
    assert here.next_deadline() == 100.0


@clause("BUS-DISC-12")
def test_the_machine_that_is_silent_for_longest_is_forgotten_first() -> None:
    """Also if it was found after one whose lease was renewed since."""
    here = discovery()
    here.on_datagram(datagram(machine="m"), "192.0.2.1", 1.0)
    here.on_datagram(datagram(machine="n"), "192.0.2.1", 2.0)
    here.on_datagram(datagram(machine="m", counter=2), "192.0.2.1", 3.0)
    here.due_at = 100.0

    assert here.next_deadline() == 12.0
    assert [each.machine.name for each in here.expire(12.0)] == ["n"]
    assert here.next_deadline() == 13.0
    assert [each.machine.name for each in here.expire(13.0)] == ["m"]


@clause("OPEN-19")
def test_the_table_is_bounded() -> None:
    """One machine too many is counted, and displaces no other."""
    here = discovery()
    for number in range(MACHINES_MAX + 1):
        here.on_datagram(datagram(machine=f"m{number}"), "192.0.2.1", 1.0)
    assert len(list(here.machines)) == MACHINES_MAX
    assert here.reader.rejected == {Rejection.TABLE_FULL: 1}


@clause("OPEN-3")
def test_conflicts_are_reported_up_to_a_bound() -> None:
    """Invented ids fill neither the memory nor the log."""
    here = discovery()
    events = [
        here.on_datagram(datagram(machine="here", machine_id=f"x{n}"), "192.0.2.1", 1.0)
        for n in range(100)
    ]
    assert sum(event is not None for event in events) == 64


@clause("OPEN-19", "BUS-DISC-11")
def test_a_flood_of_unsigned_datagrams_keeps_nobody_from_being_heard() -> None:
    """They are not counted against their source, which may be forged."""
    here = discovery()
    for _ in range(3000):
        here.on_datagram(b"flood", "192.0.2.1", 1.0)
    assert here.reader.rejected == {
        Rejection.MALFORMED: 64,
        Rejection.UNAUTHENTICATED: 2936,
    }
    assert here.on_datagram(datagram(), "192.0.2.1", 1.1)


@clause("OPEN-19", "BUS-DISC-11")
def test_signed_datagrams_are_read_up_to_a_rate() -> None:
    """A member of the bus may be hostile, or its datagrams may be repeated."""
    here = discovery()
    for counter in range(600):
        here.on_datagram(datagram(counter=counter + 1), "192.0.2.1", 1.0)
    assert here.reader.rejected == {Rejection.TOO_MANY: 88}
    other = datagram(machine="n", host="192.0.2.2")
    assert here.on_datagram(other, "192.0.2.2", 1.1)
    assert not here.on_datagram(datagram(counter=700), "192.0.2.1", 2.0)
    assert here.reader.rejected == {Rejection.TOO_MANY: 88}


@clause("OPEN-19", "BUS-DISC-11")
def test_signed_datagrams_of_many_hosts_are_bounded_too() -> None:
    here = discovery()
    data = datagram(advertised=True)
    for number in range(3000):
        here.on_datagram(data, f"10.0.{number // 250}.{number % 250}", 1.0)
    assert here.reader.rejected == {
        Rejection.REPEATED: 2047,
        Rejection.TOO_MANY: 952,
    }


@clause("BUS-DISC-11", "BUS-DISC-12")
def test_recorded_datagrams_do_not_bring_a_machine_back() -> None:
    """Neither after it has left, nor after it was silent."""
    here = discovery()
    recorded = datagram(counter=5)
    last = datagram(counter=6, leaves=True)
    assert here.on_datagram(recorded, "192.0.2.1", 1.0)
    assert here.on_datagram(last, "192.0.2.1", 2.0)
    for now in (3.0, 4.0, 50.0):
        assert here.on_datagram(recorded, "192.0.2.1", now) is None
        assert here.on_datagram(last, "192.0.2.1", now) is None
    again = here.on_datagram(datagram(counter=7), "192.0.2.1", 51.0)
    assert again is not None
    here.expire(70.0)
    assert here.on_datagram(datagram(counter=7), "192.0.2.1", 71.0) is None
    assert here.on_datagram(datagram(counter=1, instance=8), "192.0.2.1", 72.0)


@clause("OPEN-19")
@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.1.1", "fe80::1"])
def test_no_router_translates_an_address_of_one_link(host: str) -> None:
    """Else a member could make all masters dial a service of their own hosts."""
    here = discovery()
    data = datagram(host=host, advertised=True)
    assert here.on_datagram(data, "192.0.2.1", 1.0) is None
    assert here.reader.rejected == {Rejection.OTHER_HOST: 1}


@clause("OPEN-19")
def test_a_machine_of_this_host_may_advertise_an_address_of_this_host() -> None:
    data = datagram(host="127.0.0.1", advertised=True)
    assert discovery().on_datagram(data, "127.0.0.2", 1.0)


@clause("BUS-DISC-8")
def test_a_conflict_that_lasts_is_reported_again() -> None:
    here = discovery()
    data = datagram(machine="here")
    assert here.on_datagram(data, "192.0.2.1", 1.0)
    assert not here.on_datagram(data, "192.0.2.1", 300.0)
    assert here.on_datagram(data, "192.0.2.1", 602.0)


@clause("BUS-DISC-3")
def test_announcements_are_spread_around_their_interval() -> None:
    """The jitter keeps many machines from announcing together."""
    here, now, gaps = discovery(), 1.0, []
    for _ in range(1000):
        here.announce(now)
        gaps.append(here.due_at - now)
        now = here.due_at
    assert 0.8 <= min(gaps) < 0.82
    assert 1.18 < max(gaps) <= 1.2
    assert sum(gaps) / 1000 == pytest.approx(1.0, abs=0.02)


@clause("BUS-DISC-3")
def test_a_later_machine_hears_the_earlier_ones_soon() -> None:
    """A master that finds a machine announces itself to it."""
    here = discovery()
    here.announce(1.0)
    here.on_datagram(datagram(), "192.0.2.1", 1.1)
    assert 1.1 <= here.due_at <= 1.2


@clause("BUS-DISC-3")
def test_one_announcement_answers_all_machines_that_are_found_until_then() -> None:
    """Otherwise many machines that start at once would flood one another."""
    here = discovery()
    here.announce(1.0)
    here.on_datagram(datagram(), "192.0.2.1", 1.1)
    due_at = here.due_at
    for number in range(50):
        here.on_datagram(datagram(machine=f"m{number}"), "192.0.2.1", 1.1)

    assert here.due_at == due_at <= 1.2
