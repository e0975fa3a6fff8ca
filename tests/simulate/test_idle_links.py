"""Links for messages that neither side needs any more: closed, or kept."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from bus.kernel import constants
from bus.kernel.wire import Bye, Error, Reason
from bus.model.events import BusReason
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage


@clause("BUS-DEREG-5", "BUS-DEREG-10")
def test_a_link_for_messages_that_nothing_needs_is_closed() -> None:
    """Some time later, at both ends; links between managers stay open."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon(3.0)
    assert stage.links("s2", "s3") == 1

    f.process.deregister(f)
    stage.soon(constants.LINK_LINGER_S / 2)
    assert stage.links("s2", "s3") == 1
    stage.soon(constants.LINK_LINGER_S)

    assert stage.links("s2", "s3") == 0
    assert stage.links("s1", "s2") == stage.links("s1", "s3") == 1
    assert stage.relays("s3") == {}
    again = stage.task("f", "s3")
    (command,) = stage.send(d, "f")
    stage.soon()
    assert command.taken_by == again.id


@clause("BUS-DEREG-10")
def test_the_end_of_an_idle_link_is_recorded_as_a_departure_of_its_peer() -> None:
    """At both ends: neither process has died."""
    stage = Stage()
    sinks = {}
    for name in ("s2", "s3"):
        sinks[name] = Mock()
        topology = stage.process(name).remote.topology
        topology.trace_sink = sinks[name]  # type: ignore[misc]  # once made
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()

    f.process.deregister(f)
    stage.soon(3 * constants.LINK_LINGER_S)

    for name, other in (("s2", "s3"), ("s3", "s2")):
        [ended] = sinks[name].link_down.mock_calls
        assert ended.args[1:] == ("m1", other, BusReason.LEFT)


@clause("BUS-DEREG-5", "BUS-DEREG-10")
def test_a_link_is_closed_when_its_users_at_one_end_have_left() -> None:
    """Only when the last user leaves; the addressee still lives."""
    stage = Stage()
    d, e, f = stage.task("d", "s2"), stage.task("e", "s2"), stage.task("f", "s3")
    for each in (d, e):
        stage.send(each, "f")
        stage.soon()

    d.process.deregister(d)
    stage.soon(3 * constants.LINK_LINGER_S)
    assert stage.links("s2", "s3") == 1
    e.process.deregister(e)
    stage.soon(2 * constants.LINK_LINGER_S)

    assert stage.links("s2", "s3") == 0
    assert stage.relays("s2") == stage.relays("s3") == {}
    again = stage.task("d", "s2")
    commands = stage.send(again, "f") + stage.send(f, "d")
    stage.soon()
    assert [each.taken_by for each in commands] == [f.id, again.id]


@clause("BUS-DEREG-5", "BUS-DEREG-10")
def test_a_link_stays_as_long_as_anything_is_under_way_on_it() -> None:
    """Even a message of a deregistered task counts; an answer it awaited does not."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    stage.hold(f)
    commands = stage.send(d, "f", 2 * CONFIG.window, asks=True)
    d.process.deregister(d)
    stage.soon(3 * constants.LINK_LINGER_S)
    assert stage.links("s2", "s3") == 1
    assert f.process.key in d.process.remote.idle_links._since  # it is checked again

    stage.release(f)
    stage.soon(3 * constants.LINK_LINGER_S)

    assert [each.taken_by for each in commands] == [f.id] * len(commands)
    assert stage.links("s2", "s3") == 0
    for message in f.kept:
        f.process.answer(message)
    assert [each.answers for each in commands] == [0] * len(commands)


@clause("BUS-DEREG-5")
def test_a_process_that_needs_a_link_refuses_to_close_it() -> None:
    """One side may not know that the other still uses the link."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    (relay,) = stage.relays("s3").values()
    relay.users.clear()
    f.process.remote.topology.on_use_ended(relay.peer.key)

    stage.soon(3 * constants.LINK_LINGER_S)
    assert "BYE" in stage.types("s3", "s2")

    assert stage.links("s2", "s3") == 1
    there, back = stage.send(d, "f") + stage.send(f, "d")
    stage.soon()
    assert (there.taken_by, back.taken_by) == (f.id, d.id)


@clause("BUS-DEREG-5")
@pytest.mark.parametrize("to", ["s1", "s3"])
def test_a_process_closes_no_link_with_its_master_or_with_messages_under_way(
    to: str,
) -> None:
    """Though the peer asks for it, and no task here uses the link."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.hold(f)
    (command,) = stage.send(d, "f")
    stage.soon()
    d.process.deregister(d)
    stage.forget()

    peer = stage.process(to).remote.topology.peers["m1", "s2"]
    peer.session.send_link_frame(Bye())
    stage.process(to).settle()
    stage.soon(0.1)

    replies = [each for each in stage.frames("s2", to) if isinstance(each, Error)]
    assert [each.reason for each in replies] == [Reason.BUSY]
    stage.release(f)
    stage.soon(0.1)
    assert command.taken_by == f.id


@clause("BUS-DEREG-5", "BUS-DEREG-10")
def test_no_link_stays_for_a_subscriber_that_has_left() -> None:
    stage = Stage()
    hearer, notifier = stage.task("h", "s2"), stage.task("news", "s3")
    hearer.process.subscribe(hearer, "news")
    stage.soon(3.0)
    assert stage.links("s2", "s3") == 1

    hearer.process.deregister(hearer)
    stage.soon(3.0)
    assert stage.links("s2", "s3") == 0
    assert stage.relays("s2") == {}
    stage.forget()
    notifier.process.notify(notifier)
    stage.soon()

    assert stage.types("s3") == []
