"""Two machines of one name: the reports of both, and of a third one."""

from __future__ import annotations

import pytest

from bus.features.machines.machine_table import CONFLICTS_S, Change
from bus.features.machines.name_conflicts import REMEDY
from bus.kernel.wire import Error, Ping, Pong, Reason
from bus.model.rights import Credentials
from bus.model.snapshot import MachineState
from specs.clauses import clause
from tests.features.machines.test_discovered_machines import ADDRESS, received
from tests.features.machines.test_known_machines import known
from tests.features.machines.test_static_addresses import (
    FIRST,
    SECOND,
    Master,
    connect,
    frames,
)

HOST = "192.0.2.9"
CONFLICT, LINKED = MachineState.CONFLICT, MachineState.LINKED


def reported(master: Master, now: float = 1.0) -> list[tuple[str | None, str | None]]:
    """Return the name and the address of each machine in conflict."""
    return [
        (each.name, each.address)
        for each in known(master, now)
        if each.state is CONFLICT
    ]


def flushed(one: Master, two: Master, number: int, now: float) -> list[object]:
    """Deliver what one master has collected for another; return these frames."""
    found = frames(one.remote.flush(now))
    for each in found:
        two.remote.receive(number, each, now)
    return list(found)


@clause("BUS-DISC-8", "BUS-DISC-13")
@pytest.mark.parametrize("proved", [None, "m1"], ids=["no keys", "keys"])
@pytest.mark.parametrize("id_there", ["m1", "id2"], ids=["clone", "other id"])
def test_the_master_of_a_machine_of_this_name_is_reported_by_both(
    proved: str | None, id_there: str
) -> None:
    """Once, although the second dials again and again."""
    one = Master("m1", FIRST, incarnation=2)
    two = Master("m1", machine_id=id_there)
    for number in range(1, 20):
        connect(one, two, number, FIRST, proved, float(number), HOST)

    assert reported(one, 20.0) == [("m1", FIRST)]
    assert reported(two, 20.0) == [("m1", HOST)]
    assert [len(known(each, 20.0)) for each in (one, two)] == [1, 1]
    for master, other in ((one, FIRST), (two, HOST)):
        [line] = master.log
        assert line == (
            f"two machines are named 'm1': this machine at outside and the one at "
            f"{other}: {REMEDY} (BUS-DISC-8)"
        )
    assert known(one, 20.0)[0].since_s == 19.0
    assert FIRST in one.redial  # the machine there may get another name


@clause("BUS-DISC-8")
def test_a_conflict_is_reported_for_a_minute_after_its_last_sign() -> None:
    one, two = Master("m1", FIRST, incarnation=2), Master("m1")
    connect(one, two, 1, FIRST, None, 1.0, HOST)
    assert reported(two, 60.9) == [("m1", HOST)]
    assert reported(two, 61.1) == []


@clause("BUS-DISC-8")
def test_a_conflict_of_announcements_is_reported_for_twice_their_interval() -> None:
    """Discovery tells of it once in an interval while it lasts; one may come late."""
    master = Master("m1")
    received(master, Change.CONFLICT)  # at 1 s

    assert reported(master, 2 * CONFLICTS_S + 0.9) == [("m2", ADDRESS)]
    assert reported(master, 2 * CONFLICTS_S + 1.0) == []


@clause("BUS-DISC-8")
def test_a_clone_where_a_machine_was_found_is_reported_with_that_address() -> None:
    """The dial is known by the name of the machine, which nobody can dial."""
    one = Master("m1")
    received(one, Change.FOUND)

    connect(one, Master("m1", machine_id="id2", incarnation=9), 1, "m2", None)

    assert reported(one) == [("m1", ADDRESS)]


@clause("BUS-DISC-8")
def test_a_host_that_has_dialled_is_the_machine_that_is_found_there() -> None:
    """One entry, whose address is the one that can be dialled."""
    one, two = Master("m1", FIRST, incarnation=2), Master("m1", SECOND)
    connect(one, two, 1, FIRST, None, 1.0, "198.51.100.2")
    connect(two, one, 2, SECOND, None, 2.0, "192.0.2.2")
    connect(one, two, 3, FIRST, None, 3.0, "198.51.100.2")

    assert reported(one, 4.0) == [("m1", FIRST)]
    assert reported(two, 4.0) == [("m1", SECOND)]
    assert known(two, 4.0)[0].since_s == 3.0
    assert (len(one.log), len(two.log)) == (1, 1)


@clause("BUS-DISC-8", "BUS-DISC-13", "BUS-INIT-4")
@pytest.mark.parametrize("proved", [None, "m2"], ids=["no keys", "keys"])
def test_a_third_machine_that_dials_both_reports_to_both(proved: str | None) -> None:
    """They have never met each other."""
    third = Master("m1", FIRST, SECOND)
    original, clone = Master("m2"), Master("m2", machine_id="id2", incarnation=9)
    connect(third, original, 1, FIRST, proved, 1.0)

    connect(third, clone, 2, SECOND, proved, 2.0)
    sent = flushed(third, original, 1, 2.0)

    assert reported(third, 2.0) == [("m2", SECOND)]
    assert Error(reason=Reason.MACHINE_NAME, text=SECOND) in sent
    assert reported(original, 2.0) == [("m2", SECOND)]
    assert reported(clone, 2.0) == [("m2", FIRST)]
    assert [each.name for each in known(third, 2.0)] == ["m2", "m2"]
    assert known(third, 2.0)[0].state is LINKED
    for master in (third, original, clone):
        [line] = master.log
        assert line.startswith("two machines are named 'm2'")
        assert REMEDY in line
    # It is dialled again: its name may change.
    assert SECOND in {each for each, at in third.redial.items() if at < 5.0}
    assert third.machines.machine_at(SECOND) is None


@clause("BUS-DISC-8")
def test_a_clone_is_recognised_by_the_answer_of_the_original() -> None:
    """Until then it is to dial again, and nothing is reported."""
    third = Master("m1")
    original = Master("m2")
    clone = Master("m2", SECOND, incarnation=9)
    connect(original, third, 1, "m1", "m1", 1.0, "192.0.2.2")
    connect(clone, third, 2, SECOND, "m1", 2.0, HOST)
    assert (third.log, clone.log) == ([], [])

    [ping] = [
        each
        for each in frames(third.remote.flush(2.0))
        if isinstance(each, Ping) and each.number > 1
    ]
    third.remote.receive(1, Pong(number=ping.number), 2.1)
    connect(clone, third, 3, SECOND, "m1", 9.0, HOST)

    [peer] = third.remote.topology.joined()
    assert (peer.session.link, peer.session.incarnation) == (1, 1)
    assert reported(third, 9.0) == [("m2", HOST)]
    assert reported(clone, 9.0) == [("m2", "192.0.2.2")]


@clause("BUS-SEC-7")
def test_a_process_of_this_machine_reports_no_conflict() -> None:
    """Only a master of another machine can know one."""
    master = Master("m1")
    peer = master.remote.topology.add_peer(("m1", "q"), 1, 1.0)

    error = Error(reason=Reason.MACHINE_NAME, text=FIRST)
    master.machines.on_conflict_reported(peer, error, 1.0)

    assert (reported(master), master.log) == ([], [])


@clause("BUS-DISC-8")
def test_invented_names_do_not_fill_the_memory() -> None:
    master = Master("m1")
    conflicts = master.machines.conflicts
    for number in range(200):
        conflicts.note(f"m{number}", FIRST, "another one", 1.0)

    assert len(reported(master)) == 64
    assert reported(master)[-1] == ("m199", FIRST)


def originals(third: Master) -> list[tuple[int | None, int]]:
    """Return the link and the incarnation of each linked master."""
    return [
        (each.session.link, each.session.incarnation)
        for each in third.remote.topology.joined()
    ]


@clause("BUS-DISC-8")
@pytest.mark.parametrize("opens", [True, False])
def test_a_clone_waits_a_second_for_the_link_of_the_original(*, opens: bool) -> None:
    """No PING reaches the original before its link is open."""
    third, original = Master("m1"), Master("m2")
    clone = Master("m2", incarnation=9)
    third.remote.on_link_accepted(1, 1.0, Credentials(machine="m2", outside=True))
    [hello] = frames(original.dials(1, "m1", "m1", 1.0))
    answers = frames(third.remote.receive(1, hello, 1.0))
    third.remote.topology.peers["m2", "p"].joined = True  # it had a link before

    connect(clone, third, 2, "m1", "m1", 1.9)
    for answer in answers if opens else ():
        for frame in frames(original.remote.receive(1, answer, 1.9)):
            third.remote.receive(1, frame, 1.9)
    connect(clone, third, 3, "m1", "m1", 3.0)

    assert originals(third) == [(1, 1) if opens else (3, 9)]


@clause("BUS-DISC-8")
def test_the_original_is_tested_again_over_its_next_link() -> None:
    """The PING was lost with the former link."""
    third, original = Master("m1"), Master("m2")
    clone = Master("m2", incarnation=9)
    connect(original, third, 1, "m1", "m1", 1.0)
    connect(clone, third, 2, "m1", "m1", 2.0)
    for each in (original, third):
        each.remote.on_link_lost(1, 2.1)
    connect(original, third, 3, "m1", "m1", 2.2)

    connect(clone, third, 4, "m1", "m1", 9.0)

    assert originals(third) == [(3, 1)]


@clause("BUS-DISC-8", "BUS-SEC-7")
def test_only_the_linked_master_itself_proves_that_it_is_alive() -> None:
    """Else another member could keep a machine that was restarted from its link."""
    third, original, other = Master("m1"), Master("m2"), Master("m3")
    restarted = Master("m2", incarnation=9)
    connect(original, third, 1, "m1", "m1", 1.0)
    connect(other, third, 2, "m1", "m1", 1.0)
    connect(restarted, third, 3, "m1", "m1", 2.0)
    for number in range(20):
        third.remote.receive(2, Pong(number=number), 2.0)

    connect(restarted, third, 4, "m1", "m1", 9.0)

    assert (4, 9) in originals(third)
