"""Kept searches and subscriptions: their bounds, and the refusal of others."""

from __future__ import annotations

from typing import Any

import pytest

from bus.errors import BusFullError
from bus.kernel.searches.requests import Requests
from specs.clauses import clause
from tests.simulate.stage import Stage, errors_of


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
