"""Commands and notifications of one sender to one process keep their order."""

from __future__ import annotations

import pytest

from bus.model.message import Incoming, Kind
from specs.clauses import clause
from tests.simulate.counters import Command
from tests.simulate.process import CONFIG, SimTask
from tests.simulate.stage import Stage


def pair(stage: Stage) -> tuple[SimTask, SimTask]:
    """Return a task of one slave and a task of another that subscribes to it."""
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    f.process.subscribe(f, "*")
    stage.soon()
    stage.send(d, "f")
    stage.soon()
    return d, f


def hears(stage: Stage, hearer: SimTask, number: int) -> bool:
    """Whether a task has received a notification."""
    return (number, hearer.id) in stage.world.counters.received


@clause("BUS-MSG-15")
def test_a_notification_waits_for_commands_that_were_sent_before_it() -> None:
    """Later messages of its sender, to any task, wait for the notification."""
    stage = Stage()
    d, f = pair(stage)
    g = stage.task("g", "s3")
    stage.send(d, "g")
    stage.soon()
    stage.hold(f)
    commands = stage.send(d, "f", 2 * CONFIG.window)
    number = d.process.notify(d)
    commands += stage.send(d, "f") + stage.send(d, "g")
    stage.soon()
    assert len(f.items) == CONFIG.window

    stage.release(f)
    stage.soon()

    assert hears(stage, f, number)
    taken = [each.taken_by for each in commands]
    assert taken == [f.id] * (2 * CONFIG.window + 1) + [g.id]


@clause("BUS-MSG-15")
def test_a_command_waits_for_a_notification_that_was_sent_before_it() -> None:
    """Both wait for a link, then are sent in their order."""
    stage = Stage()
    d, f = pair(stage)
    f.process.frozen = True
    stage.cut("s2", "s3")
    stage.soon(0.2)

    first = d.process.notify(d)
    (command,) = stage.send(d, "f")
    second = d.process.notify(d)
    f.process.thaw()
    stage.soon()

    assert hears(stage, f, first)
    assert hears(stage, f, second)
    assert command.taken_by == f.id


@clause("BUS-MSG-15", "BUS-RELAY-11")
def test_a_task_that_does_not_read_delays_only_its_own_senders() -> None:
    """Other senders notify, and send to other tasks, past the waiting messages."""
    stage = Stage()
    d, f = pair(stage)
    other, g = stage.task("other", "s2"), stage.task("g", "s3")
    g.process.subscribe(g, "*")
    stage.send(d, "g")
    stage.send(other, "g")
    stage.soon()
    stage.hold(f)
    stage.send(d, "f", 2 * CONFIG.window)
    stage.soon()

    waits = d.process.notify(d)
    (behind,) = stage.send(d, "g")
    passes = other.process.notify(other)
    (beside,) = stage.send(other, "g")
    stage.soon()

    assert not hears(stage, g, waits)
    assert behind.taken_by is None
    assert hears(stage, g, passes)
    assert beside.taken_by == g.id


@clause("BUS-MSG-15", "BUS-DEREG-4")
@pytest.mark.parametrize("end", ["leaves", "expires"])
def test_a_notification_proceeds_when_the_command_before_it_goes_elsewhere(
    end: str,
) -> None:
    stage = Stage()
    d, f = pair(stage)
    hearer = stage.task("h", "s3")
    hearer.process.subscribe(hearer, "d")
    stage.hold(f)
    stage.send(d, "f", CONFIG.window)
    stage.soon()
    d.process.command(d, "f", timeout=1.0)
    number = d.process.notify(d)
    stage.soon()
    assert not hears(stage, hearer, number)

    if end == "leaves":
        f.process.deregister(f)
    stage.soon(1.0)

    assert hears(stage, hearer, number)


@clause("BUS-MSG-15")
def test_parked_messages_are_sent_before_a_later_notification() -> None:
    """Messages parked before the relay opened go first, then a later notification."""
    stage = Stage()
    d, f = pair(stage)
    relay = stage.relays("s2")["f"]
    relay.opened = False
    early = Command(stage.world.number(), d.id, d.process.life, "f", asks=False)
    stage.world.counters.sent(early)
    (late,) = stage.send(d, "f")
    number = d.process.notify(d)
    stage.soon()
    assert not hears(stage, f, number)

    message = Incoming(
        kind=Kind.COMMAND, payload=early.number, _source=d.entry, _id=early.number
    )
    d.process.remote.outbound_messages.open(relay.entry, [message])
    d.process.settle()
    stage.soon()

    assert early.taken_by == late.taken_by == f.id
    assert hears(stage, f, number)
