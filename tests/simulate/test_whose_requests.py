"""Only the processes that take part in a request can end it.

The process m1/s3 sends frames that would end requests of others. They have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.features.subscriptions.frames import Unsubscribe
from bus.kernel.wire import (
    Cancel,
    ControlFrame,
    Dismissed,
    Eliminate,
    Error,
    Pong,
    Reason,
)
from specs.clauses import clause
from tests.simulate.stage import Stage
from tests.simulate.test_gaps import notify, received
from tests.simulate.test_lost_masters import subscriber, subscriptions

if TYPE_CHECKING:
    from tests.simulate.process import SimProcess


def say(stage: Stage, frame: ControlFrame, to: str, of: str = "s3") -> None:
    """Let a process send a frame to another one, which receives it."""
    process = stage.process(of)
    process.remote.topology.peers["m1", to].session.send_control(frame)
    process.settle()
    stage.soon(0.1)


def linked(stage: Stage) -> None:
    """Give s2 and s3 a data link."""
    one, other = stage.task("one", "s2"), stage.task("other", "s3")
    stage.soon()
    stage.send(one, "other")
    stage.send(other, "one")
    stage.soon()


def searches(process: SimProcess) -> int:
    """Return how many searches a process keeps."""
    return len(process.remote.resolver.ledger)


@clause("BUS-SEC-7", "BUS-ROUTE-18")
def test_only_its_origin_cancels_a_search() -> None:
    """Otherwise a message would time out although its name is registered."""
    stage = Stage()
    sender = stage.task("d", "s2")
    (command,) = stage.send(sender, "f")
    stage.soon()
    (own,) = stage.process("s2").remote.resolver.own.by_name.values()
    say(stage, Cancel(id=own.frame.id), "s1")
    assert searches(stage.process("s1")) == 1

    target = stage.task("f", "s3")
    stage.soon()
    assert command.taken_by == target.id


@clause("BUS-SEC-7", "BUS-RELAY-8")
def test_only_its_origin_cancels_a_subscription() -> None:
    stage = Stage(slaves=3)
    news = stage.task("news", "s4")
    hearer = subscriber(stage)
    (own,) = stage.process("s2").remote_subscriptions.own.values()
    say(stage, Unsubscribe(id=own.frame.id), "s1")
    assert subscriptions(stage, "s1") == subscriptions(stage, "s4") == 1
    notify(news, 1)
    stage.soon()
    assert received(stage, hearer, news) == [1]


@clause("BUS-SEC-7", "BUS-FLOW-1")
@pytest.mark.parametrize("reason", [Reason.BUSY, Reason.ACCESS])
def test_only_its_recipients_refuse_a_search(reason: Reason) -> None:
    """A process that has only a data link is not a recipient."""
    stage = Stage()
    linked(stage)
    sender = stage.task("d", "s2")
    (command,) = stage.send(sender, "f")
    stage.soon()
    (own,) = stage.process("s2").remote.resolver.own.by_name.values()
    say(stage, Error(reason=reason, request=own.frame.id), "s2")
    assert command.reported is None

    target = stage.task("f", "s3")
    stage.soon()
    assert command.taken_by == target.id


@clause("OPEN-3", "BUS-SEC-7")
def test_only_the_master_gives_a_verdict_on_a_name() -> None:
    stage = Stage()
    linked(stage)
    stage.process("s1").frozen = True
    claimed = stage.task("f", "s2")
    stage.soon(0.1)
    pending = stage.process("s2").remote.name_registry.pending_names
    [number] = pending._asked.values()  # another process may guess it
    other = stage.process("s3")
    other.remote.topology.peers["m1", "s2"].session.send_link_frame(Pong(number=number))
    other.settle()
    stage.soon(0.1)
    assert not claimed.confirmed
    stage.process("s1").thaw()
    stage.soon()
    assert claimed.confirmed


@clause("BUS-SEC-7", "BUS-INIT-12")
def test_the_master_of_another_machine_ends_no_name_of_this_one() -> None:
    stage = Stage(machines=2, slaves=1)
    task = stage.task("f", "s2")
    stage.soon()
    other = stage.process("s1", "m2")
    peer = other.remote.topology.peers["m1", "s1"]
    peer.session.send_control(Eliminate(id=task.id, name="f"))
    other.settle()
    stage.soon()
    assert stage.process("s1").remote.name_registry.users.owners() == {
        "f": ("m1", "s2")
    }


@clause("BUS-RELAY-8", "BUS-SEC-7")
def test_a_subscription_without_a_master_is_refused_by_its_asker_alone() -> None:
    stage = Stage(slaves=3)
    news, more = stage.task("news", "s3"), stage.task("more", "s4")
    hearer = subscriber(stage)
    stage.send(more, "news")
    stage.soon()
    stage.process("s1").die()
    stage.soon(1.0)
    assert subscriptions(stage, "s3") == 1
    (own,) = stage.process("s2").remote_subscriptions.own.values()
    say(stage, Error(reason=Reason.CLOSING, request=own.frame.id), "s3", of="s4")
    assert subscriptions(stage, "s3") == 1
    notify(news, 1)
    stage.soon()
    assert received(stage, hearer, news) == [1]


@clause("BUS-RELAY-8")
def test_a_subscription_that_a_master_passes_on_is_taken_back_by_way_of_it() -> None:
    """A refusal on the data link answers an earlier request, and is late."""
    stage = Stage()
    stage.task("news", "s3")
    hearer = subscriber(stage)
    stage.send(hearer, "news")
    stage.soon()
    (own,) = stage.process("s2").remote_subscriptions.own.values()
    refusal = Error(reason=Reason.CLOSING, request=own.frame.id)
    say(stage, refusal, "s3", of="s2")
    assert subscriptions(stage, "s3") == 1


@clause("BUS-RELAY-8", "BUS-ENT-17")
def test_a_subscription_of_an_earlier_life_ends_with_the_master() -> None:
    """A later process of that name is not the asker, though it has a link."""
    stage = Stage()
    stage.task("news", "s3")
    subscriber(stage)
    stage.process("s1").frozen = True  # it does not report the loss of the asker
    stage.process("s2").die()
    stage.soon(2.0)
    again = stage.world.start("m1", "s2")
    keeper = stage.process("s3").remote
    peer = keeper.relays.peer_for(again.key, again.life, stage.world.now)
    assert peer is not None
    stage.process("s1").die()
    stage.soon(1.0)
    assert subscriptions(stage, "s3") == 0


@clause("BUS-DEREG-13", "BUS-SEC-7")
def test_a_relay_goes_by_the_agreement_of_both_and_no_other_way() -> None:
    """DISMISSED has no effect if this process did not ask."""
    stage = Stage()
    linked(stage)
    relay = stage.relays("s2")["other"]
    relay.users.clear()  # no task uses it
    say(stage, Dismissed(relay=relay.number), "s2")
    assert stage.relays("s2").get("other") is relay
