"""Names of any machine: answers to a search that are missing, late or void."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from bus.kernel.peer.session import Session
from bus.kernel.searches.requests import Requests
from bus.kernel.wire import AddRelay
from specs.clauses import clause
from tests.simulate.any_machine import LOG, rest, searches
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from tests.simulate.counters import Command
    from tests.simulate.process import SimProcess
    from tests.simulate.task import SimTask

PATIENCE_S = 2.5  # half of the time that a message waits for its addressee


@clause("BUS-ROUTE-21")
def test_a_silent_machine_only_delays_the_choice() -> None:
    stage = Stage(machines=3, slaves=0)
    d, log = stage.task("d", "s1", "m2"), stage.task("log", "s1", "m3")
    stage.soon()
    stage.process("s1", "m1").frozen = True

    (command,) = stage.send(d, LOG)
    stage.soon(PATIENCE_S - 0.2)
    assert not command.decided
    stage.soon(0.4)

    assert command.taken_by == log.id
    # The master of m3 reports the departure of its task to the searching one.
    log.process.deregister(log)
    stage.soon()
    assert stage.relays("s1", "m2") == {}


@clause("BUS-ROUTE-21", "BUS-FLOW-1")
def test_a_machine_without_room_for_searches_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until its next link, it counts as a machine without the name."""
    stage = Stage(machines=3, slaves=0)
    sender = stage.task("sender", "s1", "m1")
    log = stage.task("log", "s1", "m3")
    stage.soon()
    stage.forget()
    full = stage.process("s1", "m2").remote.resolver.ledger
    has_room = Requests.has_room
    monkeypatch.setattr(
        Requests,
        "has_room",
        lambda ledger, *limits: ledger is not full and has_room(ledger, *limits),
    )

    (command,) = stage.send(sender, LOG)
    stage.soon()

    assert command.taken_by == log.id
    assert searches(stage).count(("m1/s1", "m2/s1", True)) == 1


@pytest.mark.deep
@clause("BUS-ROUTE-21", "BUS-FLOW-1")
@pytest.mark.parametrize("sender", ["s1", "s3"])
def test_a_slave_that_keeps_no_more_searches_is_asked_once_for_each_export(
    monkeypatch: pytest.MonkeyPatch, sender: str
) -> None:
    """Not at each review of the search, which other traffic and timers cause."""
    stage = Stage(machines=2, slaves=2)
    asker = stage.task("asker", sender)
    stage.task("other", "s1", "m2")
    stage.soon()
    stage.forget()
    full = stage.process("s2").remote.resolver.ledger
    has_room = Requests.has_room
    monkeypatch.setattr(
        Requests,
        "has_room",
        lambda ledger, *limits: ledger is not full and has_room(ledger, *limits),
    )
    asked = ("m1/s1", "m1/s2", False)

    (command,) = stage.send(asker, LOG)
    for number in range(20):
        stage.send(asker, "ism://m2/other", asks=True)
        leaving = stage.task(f"leaving-{number}", "s1")
        stage.soon(0.1)
        leaving.process.deregister(leaving)
    assert not command.decided
    assert searches(stage).count(asked) == 1

    log = stage.task("log", "s2")
    stage.soon()

    assert command.taken_by == log.id
    assert searches(stage).count(asked) <= 2
    rest(stage)


@clause("BUS-ROUTE-21", "BUS-WIRE-4")
@pytest.mark.parametrize("silent", ["m2", "m3"])
def test_a_master_whose_answer_lacks_an_address_loses_its_link(
    monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """At once, and not at the choice, which another peer or a timer causes."""
    stage = Stage(machines=4, slaves=1)
    sender = stage.task("sender", "s1", "m4")
    stage.task("log", "s2", "m1")
    stage.soon()
    stage.process("s1", silent).frozen = True
    topology = stage.process("s1", "m1").remote.topology
    lying = topology.peers["m4", "s1"].session
    send_control = Session.send_control

    def lie(session: Session, frame: Any) -> None:
        if session is lying and isinstance(frame, AddRelay):
            frame = replace(frame, addresses=())
        send_control(session, frame)

    monkeypatch.setattr(Session, "send_control", lie)
    complaints: list[str] = []
    searching = stage.process("s1", "m4").remote.topology
    searching.complain = complaints.append  # type: ignore[misc]

    stage.send(sender, LOG)
    stage.soon()

    assert [each.partition(" is closed")[0] for each in complaints] == [
        "the link with m1/s1"
    ]


@clause("BUS-ROUTE-21")
def test_a_late_answer_of_a_smaller_name_has_no_effect() -> None:
    stage = Stage(machines=3, slaves=0)
    d, log = stage.task("d", "s1", "m2"), stage.task("log", "s1", "m3")
    stage.task("log", "s1", "m1")
    stage.soon()
    late = stage.process("s1", "m1")
    late.frozen = True
    (command,) = stage.send(d, LOG)
    stage.soon(PATIENCE_S + 0.2)

    late.thaw()
    stage.soon()
    (second,) = stage.send(d, LOG)
    stage.soon()

    assert (command.taken_by, second.taken_by) == (log.id, log.id)
    rest(stage)


def search_past(stage: Stage, silent: SimProcess, sender: SimTask) -> Command:
    """Send a message for the name, which waits for the answer of a silent process."""
    stage.soon()
    silent.frozen = True
    (command,) = stage.send(sender, LOG)
    stage.soon()
    assert not command.decided
    return command


@clause("BUS-ROUTE-21")
@pytest.mark.parametrize("sender", ["s1", "s2"])
def test_a_machine_whose_link_is_lost_is_not_waited_for(sender: str) -> None:
    stage = Stage(machines=3, slaves=1)
    d, log = stage.task("d", sender, "m2"), stage.task("log", "s2", "m3")
    stage.task("log", "s2", "m1")
    silent = stage.process("s1", "m1")
    command = search_past(stage, silent, d)

    silent.die()
    stage.soon(1.0)

    assert command.taken_by == log.id


@clause("BUS-ROUTE-21")
def test_if_the_holder_crashes_before_it_answers_the_others_are_asked() -> None:
    """The machine of the sender lacks the name from then on."""
    stage = Stage(machines=2, slaves=2)
    d, log = stage.task("d", "s2", "m2"), stage.task("log", "s2", "m1")
    stage.task("log", "s3", "m2")
    silent = stage.process("s3", "m2")
    command = search_past(stage, silent, d)

    silent.die()
    stage.soon(1.5)

    assert command.taken_by == log.id
    rest(stage)


@clause("BUS-ROUTE-21")
@pytest.mark.parametrize("sender", ["s1", "s2"])
def test_the_answer_of_a_task_that_deregisters_before_the_choice_is_void(
    sender: str,
) -> None:
    stage = Stage(machines=4, slaves=1)
    d = stage.task("d", sender, "m4")
    first, second = stage.task("log", "s2", "m1"), stage.task("log", "s2", "m2")
    silent = stage.process("s1", "m3")
    command = search_past(stage, silent, d)

    first.process.deregister(first)
    stage.soon()
    silent.thaw()
    stage.soon()

    assert command.taken_by == second.id
    rest(stage)
