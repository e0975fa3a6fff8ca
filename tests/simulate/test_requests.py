"""Kept searches and subscriptions: their bounds, and the refusal of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from bus.errors import BusFullError
from bus.kernel.searches.requests import HOPS, Requests
from bus.kernel.wire import ControlFrame, Error, Export
from bus.model.registration import RegistrationId
from specs.clauses import clause
from tests.simulate.stage import Stage, errors_of

if TYPE_CHECKING:
    from tests.simulate.process import SimProcess


@clause("BUS-FLOW-1")
@pytest.mark.parametrize(
    ("bound", "fits"), [("SEARCHES_PER_PROCESS", True), ("SEARCHES_IN_ALL", False)]
)
def test_the_searches_that_a_master_keeps_are_bounded(bound: str, fits: bool) -> None:
    """Each further message is refused once; the host of a task still answers."""
    values: dict[str, Any] = {bound: 2}
    stage = Stage(**values)
    c, d, e = stage.task("c", "s1"), stage.task("d", "s2"), stage.task("e", "s3")
    kept = stage.send(d, "w") + stage.send(d, "x", 2)
    stage.soon()

    refused = stage.send(d, "y", 2)
    (found,) = stage.send(d, "c")
    (other,) = stage.send(e, "z")
    stage.soon()

    assert errors_of(refused) == [BusFullError] * 2
    assert found.taken_by == c.id
    assert errors_of([other]) == [None if fits else BusFullError]
    x = stage.task("x", "s3")
    stage.soon()
    assert [each.taken_by for each in kept] == [None, x.id, x.id]
    assert errors_of(stage.send(d, "y")) == [None]
    stage.soon(10.0)
    stage.world.checks.rest()


@clause("BUS-FLOW-1")
def test_the_subscriptions_that_a_master_keeps_are_bounded() -> None:
    """One too many is skipped and logged; those kept stay in effect."""
    stage = Stage(SUBSCRIPTIONS_IN_ALL=2)
    lines: list[str] = []
    stage.process("s1").remote.topology.complain = lines.append  # type: ignore[misc]
    notifier = stage.task("news", "s1")
    hearers = [stage.task("d", "s2"), stage.task("e", "s3"), stage.task("f", "s3")]
    for each in hearers:
        each.process.subscribe(
            each, "news" if each.name == "d" else f"news/{each.name}"
        )
        stage.soon()
    late = stage.task("news/f", "s1")
    stage.soon()

    numbers = {each.name: each.process.notify(each) for each in (notifier, late)}
    stage.soon()
    received = stage.world.counters.received
    assert (numbers["news"], hearers[0].id) in received
    assert (numbers["news/f"], hearers[2].id) not in received
    assert lines == [
        "a subscription of m1/s3 to 'ism://m1/news/f' is rejected:"
        " the limit is 2 in all"
    ]

    hearers[1].process.unsubscribe(hearers[1])
    stage.soon()
    hearers[2].process.unsubscribe(hearers[2])
    hearers[2].process.subscribe(hearers[2], "news/f")
    stage.soon()
    number = late.process.notify(late)
    stage.soon()
    assert (number, hearers[2].id) in received


def say(of: SimProcess, to: SimProcess, frame: ControlFrame) -> None:
    """Let a process send a frame to another one."""
    of.remote.topology.peers[to.key].session.send_control(frame)
    of.settle()


def errors(stage: Stage, to: str) -> list[str]:
    """Return what the master of the first machine has reported to a slave."""
    return [each.text for each in stage.frames("s1", to) if isinstance(each, Error)]


@clause("BUS-FLOW-1")
def test_a_process_that_exceeds_its_bound_of_public_tasks_loses_its_link() -> None:
    """A name that it has counts once, one that another process has counts, too."""
    stage = Stage(PUBLIC_TASKS_PER_PROCESS=2)
    master, slave = stage.process("s1"), stage.process("s2")
    a, _, c = stage.task("a", "s2"), stage.task("b", "s2"), stage.task("c", "s3")
    stage.soon()
    say(slave, master, Export(id=a.id, name="a", registered_ns=1))
    stage.soon()
    assert errors(stage, "s2") == []

    number = RegistrationId("m1", "s2", a.id.number + 100)
    say(slave, master, Export(id=number, name=c.name, registered_ns=1))
    stage.soon(0.1)

    assert errors(stage, "s2")[:1] == ["more than 2 tasks are exported"]
    assert stage.process("s1").remote.name_registry.users.owners()["c"] == ("m1", "s3")


@clause("BUS-FLOW-1")
def test_a_process_that_exceeds_its_bound_of_subscriptions_loses_its_link() -> None:
    """The link of another process that passes on too many for it remains."""
    stage = Stage(machines=2, SUBSCRIPTIONS_PER_PROCESS=1)
    slave, master = stage.process("s2"), stage.process("s1")
    other = stage.process("s1", "m2")
    lines: list[str] = []
    other.remote.topology.complain = lines.append  # type: ignore[misc]
    hearer = stage.task("d", "s2")
    slave.subscribe(hearer, "ism://m2/news")
    stage.soon()
    (kept,) = other.remote_subscriptions.ledger.all()
    again = replace(kept.frame, specification="ism://m2/more")
    again = replace(again, id=replace(again.id, number=again.id.number + 1))

    say(master, other, again)
    stage.soon()
    assert lines == [
        "a subscription of m1/s2 to 'ism://m2/more' is rejected:"
        " the limit is 1 per process"
    ]
    assert other.remote_subscriptions.ledger.all() == [kept]
    assert errors(stage, "s2") == []
    say(slave, master, replace(again, hops=HOPS))
    stage.soon(0.1)

    assert errors(stage, "s2")[:1] == ["more than 1 subscriptions are requested"]


@clause("BUS-FLOW-1", "BUS-ROUTE-18")
def test_a_slave_that_keeps_no_more_searches_is_asked_again_when_it_has_the_name() -> (
    None
):
    """It reports no error when it is full, since another process may hold the name."""
    stage = Stage(slaves=3, SEARCHES_IN_ALL=1)
    d, e = stage.task("d", "s1"), stage.task("e", "s1")
    commands = stage.send(d, "x") + stage.send(e, "y")
    stage.soon()
    assert len(stage.process("s3").remote.resolver.ledger) == 1
    assert errors_of(commands) == [None, None]

    y = stage.task("y", "s3")
    stage.soon()

    assert commands[1].taken_by == y.id


@clause("BUS-FLOW-1", "BUS-ROUTE-14")
def test_a_master_that_another_master_refuses_reports_it_to_the_askers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(machines=2)
    d, e = stage.task("d", "s2", "m1"), stage.task("e", "s1", "m1")
    full, has_room = stage.process("s1", "m2").remote.resolver.ledger, Requests.has_room
    monkeypatch.setattr(
        Requests,
        "has_room",
        lambda ledger, asked, most, in_all: has_room(
            ledger, asked, 1 if ledger is full else most, in_all
        ),
    )
    for task in (d, e):
        stage.send(task, "ism://m2/x")
        stage.soon()

    commands = stage.send(d, "ism://m2/y") + stage.send(e, "ism://m2/y")
    stage.soon()

    assert errors_of(commands) == [BusFullError] * 2
    assert len(stage.process("s1", "m1").remote.resolver.ledger) == 2
    stage.soon(10.0)
    stage.world.checks.rest()
