"""The machines that a master reports: their links, round trips, and failures."""

from __future__ import annotations

import pytest

from bus.features.machines.machine_table import Change
from bus.kernel.links.master_dialler import DialFailure
from bus.kernel.wire import LinkKind, Ping, Pong, Reason, Refused
from bus.model.snapshot import MachineInfo, MachineState
from specs.clauses import clause
from tests.features.machines.test_discovered_machines import ADDRESS, received
from tests.features.machines.test_static_addresses import (
    FIRST,
    SECOND,
    Master,
    connect,
    frames,
)

NOBODY = DialFailure(f"{FIRST}: connection refused")


def known(master: Master, now: float) -> list[MachineInfo]:
    """Return the machines that a master reports."""
    return master.machines.known(now)


def only(master: Master, now: float) -> MachineInfo:
    """Return the one machine that a master reports."""
    [found] = known(master, now)
    return found


def fails(master: Master, key: str, failure: DialFailure, now: float) -> None:
    """Let a dial of a master fail."""
    master.remote.on_dial_failed(LinkKind.SIGNALLING, (key, ""), now, failure)


@clause("BUS-DISC-13")
def test_a_static_address_has_no_name_before_its_machine_is_known() -> None:
    one = Master("m1", FIRST)
    one.remote.begin(0.0)

    assert only(one, 1.0) == MachineInfo(
        name=None,
        address=FIRST,
        state=MachineState.DIALLING,
        since_s=None,
        round_trip_s=None,
        why="",
    )


@clause("BUS-DISC-13")
def test_a_machine_without_a_link_has_the_last_reason_and_the_first_time() -> None:
    one = Master("m1", FIRST)
    one.remote.begin(0.0)
    fails(one, FIRST, NOBODY, 1.0)
    fails(one, FIRST, DialFailure("no answer in time"), 3.0)

    found = only(one, 4.0)

    assert (found.state, found.why) == (MachineState.DIALLING, "no answer in time")
    assert found.since_s == 3.0


@clause("BUS-DISC-13")
def test_a_linked_machine_has_the_time_since_its_link_and_no_reason() -> None:
    one, two = Master("m1", FIRST), Master("m2")
    one.remote.begin(0.0)
    fails(one, FIRST, NOBODY, 1.0)
    connect(one, two, 1, FIRST, "m2")

    near, far = only(one, 5.0), only(two, 5.0)

    assert (near.name, near.address, near.why) == ("m2", FIRST, "")
    assert (far.name, far.address, far.why) == ("m1", None, "")
    assert near.state is far.state is MachineState.LINKED
    assert near.since_s == far.since_s == 5.0


@clause("BUS-DISC-13")
def test_the_round_trip_is_measured_when_the_link_opens() -> None:
    """Each PING of the keep-alive measures it again; an earlier answer does not."""
    one, two = Master("m1", FIRST), Master("m2")
    connect(one, two, 1, FIRST, "m2")
    [ping] = [each for each in frames(one.remote.flush(0.0)) if isinstance(each, Ping)]
    assert only(one, 0.0).round_trip_s is None

    one.remote.receive(1, Pong(number=ping.number + 1), 0.125)
    assert only(one, 1.0).round_trip_s is None
    one.remote.receive(1, Pong(number=ping.number), 0.25)
    assert only(one, 1.0).round_trip_s == 0.25
    one.remote.receive(1, Pong(number=ping.number), 0.5)
    assert only(one, 1.0).round_trip_s == 0.25

    one.remote.tick(2.5)  # the time set by the first frame
    one.remote.tick(3.0)
    [ping] = [each for each in frames(one.remote.flush(3.0)) if isinstance(each, Ping)]
    one.remote.receive(1, Pong(number=ping.number), 3.5)
    assert only(one, 7.0).round_trip_s == 0.5


@clause("BUS-DISC-13")
def test_a_lost_machine_has_no_round_trip() -> None:
    """The side that was dialled waits for the other one."""
    one, two = Master("m1", FIRST), Master("m2")
    connect(one, two, 1, FIRST, "m2")
    [ping] = [each for each in frames(two.remote.flush(0.0)) if isinstance(each, Ping)]
    two.remote.receive(1, Pong(number=ping.number), 0.5)
    for master in (one, two):
        master.remote.on_link_lost(1, 2.0, mid_io=True)

    near, far = only(one, 3.0), only(two, 3.0)

    assert near.state is MachineState.DIALLING
    assert far.state is MachineState.WAITING
    assert far.round_trip_s is None
    assert (near.why, far.why) == ("its link was lost", "its link was lost")
    assert (near.since_s, far.since_s) == (1.0, 1.0)
    connect(one, two, 2, FIRST, "m2")
    assert only(two, 4.0).state is MachineState.LINKED
    assert only(two, 4.0).round_trip_s is None


@clause("BUS-DISC-13")
def test_a_failure_before_a_link_is_forgotten_when_that_link_is_lost() -> None:
    one = Master("m1", FIRST, SECOND)
    fails(one, FIRST, NOBODY, 1.0)
    connect(one, Master("m2"), 1, FIRST, "m2")
    one.remote.on_link_lost(1, 2.0, mid_io=True)

    assert known(one, 3.0)[0].why == "its link was lost"


@clause("BUS-DISC-13")
def test_a_link_that_the_other_side_dialled_also_ends_the_failures() -> None:
    """Those of the static addresses at which that machine was found."""
    one, two = Master("m1", FIRST), Master("m2")
    connect(one, two, 1, FIRST, "m2")
    one.remote.on_link_lost(1, 2.0, mid_io=True)
    fails(one, FIRST, NOBODY, 3.0)
    connect(Master("m2", incarnation=2), one, 3, "m1", "m1")
    assert only(one, 4.0).state is MachineState.LINKED
    one.remote.on_link_lost(3, 5.0, mid_io=True)

    assert only(one, 6.0).why == "its link was lost"


@clause("BUS-DISC-13")
@pytest.mark.parametrize(
    ("earlier", "later"), [(FIRST, SECOND), (SECOND, FIRST)], ids=["second", "first"]
)
def test_the_last_address_that_failed_gives_the_reason(
    earlier: str, later: str
) -> None:
    """In time; the order of the static addresses does not matter."""
    one, two = Master("m1", FIRST, SECOND), Master("m2")
    connect(one, two, 1, FIRST, "m2")
    connect(one, two, 2, SECOND, "m2")
    one.remote.on_link_lost(1, 2.0, mid_io=True)
    fails(one, earlier, NOBODY, 3.0)
    fails(one, later, DialFailure("no answer in time"), 4.0)

    assert only(one, 5.0).why == "no answer in time"


@clause("BUS-DISC-13", "BUS-SEC-5")
def test_a_machine_that_claims_another_name_is_refused() -> None:
    one = Master("m1", FIRST)
    connect(one, Master("m2"), 1, FIRST, "m3")

    found = only(one, 1.0)

    assert found.state is MachineState.REFUSED
    assert found.why == one.log[0] == "machine m3 claims to be m2 (BUS-SEC-5)"


@clause("BUS-DISC-13")
@pytest.mark.parametrize("reason", [Reason.BUS, Reason.VERSION, Reason.ACCESS])
def test_a_refusal_is_reported_in_the_words_of_the_log(reason: Reason) -> None:
    one = Master("m1", FIRST)
    one.dials(1, FIRST, "m2")
    one.remote.receive(1, Refused(reason=reason, versions=(9, 9)), 1.0)

    found = only(one, 1.0)

    assert found.state is MachineState.REFUSED
    assert [found.why] == one.log
    assert reason.value in found.why


@clause("BUS-DISC-13")
def test_a_listener_that_answers_nothing_is_named_so() -> None:
    one = Master("m1", FIRST)
    one.dials(1, FIRST, None)
    until = one.remote.links.late_at(one.remote.links.by_number[1])
    assert until is not None
    one.remote.tick(until)  # in time, and not a moment later

    assert only(one, until).why == f"no answer to HELLO within {until:.0f} s"


@clause("BUS-DISC-13", "OPEN-20")
def test_the_higher_machine_waits_for_a_found_one_and_then_dials() -> None:
    one = Master("m1")
    received(one, Change.FOUND, patience_s=3.0)

    before = only(one, 2.0)
    one.remote.tick(4.0)
    after = only(one, 4.0)

    assert (before.name, before.address, before.since_s) == ("m2", ADDRESS, 1.0)
    assert before.state is MachineState.WAITING
    assert after.state is MachineState.DIALLING


@clause("BUS-DISC-13", "BUS-DISC-12")
def test_a_machine_that_left_is_reported_no_more_unless_it_is_linked() -> None:
    one, two = Master("m1"), Master("m2")
    received(one, Change.FOUND)
    fails(one, "m2", NOBODY, 1.0)
    received(one, Change.LEFT)
    assert known(one, 2.0) == []

    received(one, Change.FOUND, 3.0)
    assert (only(one, 3.0).why, only(one, 3.0).since_s) == ("", 0.0)
    connect(one, two, 1, "m2", "m2")
    received(one, Change.SILENT)
    found = only(one, 4.0)
    assert (found.state, found.address) == (MachineState.LINKED, ADDRESS)


@clause("BUS-DISC-13", "OPEN-3")
def test_a_conflict_is_reported_until_the_machine_takes_the_name() -> None:
    one = Master("m1")
    received(one, Change.CONFLICT)

    found = only(one, 3.0)
    assert (found.name, found.address, found.since_s) == ("m2", ADDRESS, 2.0)
    assert found.state is MachineState.CONFLICT
    assert "open_bus(machine=...)" in found.why

    received(one, Change.FOUND)
    assert only(one, 3.0).state is MachineState.DIALLING
