"""Unused relays: when they are released, and which uses keep them (BUS-DEREG-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.kernel import constants
from specs.clauses import clause
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action


@clause("BUS-DEREG-10", "BUS-DEREG-13")
def test_a_relay_goes_with_the_last_task_that_used_it() -> None:
    """Its task lives on, and the link stays for other relays."""
    stage = Stage()
    d, e = stage.task("d", "s2"), stage.task("e", "s2")
    f, g = stage.task("f", "s3"), stage.task("g", "s3")
    for sender, to in ((d, "f"), (e, "f"), (e, "g"), (f, "d")):
        stage.send(sender, to)
        stage.soon()

    d.process.deregister(d)
    stage.soon(3 * constants.LINK_LINGER_S)
    assert set(stage.relays("s2")) == {"f", "g"}
    assert set(stage.relays("s3")) == {"e"}
    again = stage.task("d", "s2")
    stage.send(g, "d")
    stage.soon()
    e.process.deregister(e)
    stage.soon(3 * constants.LINK_LINGER_S)

    assert stage.links("s2", "s3") == 1
    assert set(stage.relays("s2")) == {"g"}  # g has sent to the new d
    assert set(stage.relays("s3")) == {"d"}
    commands = stage.send(f, "d")  # d is not known in that process
    stage.soon()
    commands += stage.send(again, "f")
    stage.soon()
    assert [each.taken_by for each in commands] == [again.id, f.id]


@clause("BUS-DEREG-13", "BUS-DEREG-5")
def test_the_relay_of_a_deregistered_task_leaves_no_deadline() -> None:
    """Otherwise short-lived relays would pile up until the linger time has passed."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    idle_relays = d.process.remote.idle_relays
    d.process.deregister(d)
    stage.soon(0.001)
    assert idle_relays._since

    f.process.deregister(f)
    stage.soon(0.1 * constants.LINK_LINGER_S)

    assert stage.relays("s2") == {}
    assert not idle_relays._since


@clause("BUS-DEREG-13")
def test_a_relay_whose_user_left_before_the_first_extraction_is_released() -> None:
    """Until then only a third party has reported its task, which sends nothing here."""
    stage = used_link()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.hold(f)
    stage.send(d, "f")
    stage.soon()
    assert stage.relays("s2")["f"].provisional
    d.process.deregister(d)
    stage.soon()

    stage.release(f)
    stage.soon(3 * constants.LINK_LINGER_S)

    assert set(stage.relays("s2")) == {"b"}


@clause("BUS-DEREG-13")
def test_a_superseded_relay_is_released_when_no_task_uses_it() -> None:
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(stage.task("e", "s2"), stage.task("g", "s3").name)  # keeps the link open
    stage.send(d, f.name)
    stage.soon()
    relay = stage.relays("s2")["f"]
    d.process.remote.relays.supersede(relay.entry)

    d.process.deregister(d)
    stage.soon(3 * constants.LINK_LINGER_S)

    assert set(stage.relays("s2")) == {"g"}


@clause("BUS-DEREG-13", "BUS-RELAY-8")
def test_the_relay_of_a_notifier_is_released_with_its_last_subscription() -> None:
    """No frame is sent for the relay any more; a later subscriber receives again."""
    stage = Stage()
    hearer, notifier = stage.task("h", "s2"), stage.task("news", "s3")
    stage.send(stage.task("d", "s2"), stage.task("f", "s3").name)
    hearer.process.subscribe(hearer, "*")
    stage.soon(3.0)
    assert "news" in stage.relays("s2")
    notifier.process.notify(notifier)
    stage.soon()

    hearer.process.unsubscribe(hearer)
    stage.soon(3 * constants.LINK_LINGER_S)
    assert set(stage.relays("s2")) == {"f"}
    stage.forget()
    notifier.process.notify(notifier)
    stage.soon()
    assert stage.types("s3") == []

    hearer.process.subscribe(hearer, "news")
    stage.soon()
    number = notifier.process.notify(notifier)
    stage.soon()
    assert (number, hearer.id) in stage.world.counters.received


@pytest.mark.deep
@clause("BUS-DEREG-13")
def test_a_relay_stays_if_it_comes_to_use_while_its_process_is_asked() -> None:
    """The new use may cross the request and its answer at any point."""
    for delay in range(40):
        stage = Stage(seed=delay)
        d, f = stage.task("d", "s2"), stage.task("f", "s3")
        stage.send(stage.task("e", "s2"), stage.task("g", "s3").name)
        stage.send(d, "f")
        stage.soon()
        d.process.deregister(d)
        again = stage.task("d", "s2")
        stage.forget()
        while "DISMISS" not in stage.types("s2"):
            stage.soon(0.001)
        stage.soon(0.001 * delay)

        commands = stage.send(again, "f") + stage.send(f, "d", 3)
        stage.soon(0.001)
        commands += stage.send(f, "d", 3) + stage.send(again, "f")
        stage.soon()

        takers = [each.taken_by for each in commands]
        assert takers == [f.id] + [again.id] * 6 + [f.id], delay
        stage.soon(10.0)
        stage.world.checks.rest()


@pytest.mark.deep
@clause("BUS-DEREG-13", "BUS-RELAY-12")
@pytest.mark.parametrize("seed", range(5))
def test_a_relay_stays_if_a_search_of_its_task_was_answered_meanwhile(
    seed: int,
) -> None:
    """The searching process assumes that its task is now known there."""
    for delay in range(30):
        stage = Stage(seed=seed)
        a = stage.task("a", "s1")
        y = stage.task("y", "s2")
        stage.task("x", "s2")
        stage.send(a, "y")
        stage.soon()
        y.process.deregister(y)
        stage.soon(constants.LINK_LINGER_S - 0.015 + 0.001 * delay)
        commands = stage.send(a, "x", 3)
        stage.soon()
        assert all(each.taken_by is not None for each in commands), delay


def used_link() -> Stage:
    """Return a stage where a link between two slaves always has users."""
    stage = Stage()
    a, b = stage.task("a", "s2"), stage.task("b", "s3")
    stage.send(a, "b")
    stage.send(b, "a")
    stage.soon()
    return stage


@clause("BUS-DEREG-13", "BUS-RELAY-12")
@pytest.mark.parametrize("early_ms", [0.5, 1, 1.5, 2, 2.5, 3])
def test_a_process_is_not_asked_again_before_it_has_answered(early_ms: float) -> None:
    """Otherwise the answer to the first request would be taken for the second."""
    stage = Stage()
    x, g = stage.task("x", "s2"), stage.task("g", "s1")
    f, h = stage.task("f", "s1"), stage.task("h", "s1")
    stage.send(x, "g")
    stage.soon()
    g.process.deregister(g)
    stage.forget()
    stage.soon(constants.LINK_LINGER_S + 0.002 - early_ms / 1000)
    (command,) = stage.send(x, "f")
    while "SEARCH" not in stage.types("s2"):
        stage.soon(0.0002)

    x.process.frozen = True
    stage.soon(0.1)
    h.process.subscribe(h, "x")
    stage.soon(0.01)
    h.process.unsubscribe(h)
    stage.soon(2 * constants.LINK_LINGER_S)
    x.process.thaw()
    stage.soon(3.0)

    assert command.taken_by == f.id


@clause("BUS-DEREG-13")
@pytest.mark.parametrize("after_ms", range(8))
def test_a_relay_that_was_never_used_is_released(after_ms: int) -> None:
    """The subscriber has unsubscribed by the time the notifier is introduced."""
    stage = used_link()
    stage.task("news", "s3")
    hearer = stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon(after_ms / 1000)
    hearer.process.unsubscribe(hearer)
    stage.soon(3 * constants.LINK_LINGER_S)

    assert set(stage.relays("s2")) == {"b"}


@clause("BUS-DEREG-13")
def test_a_relay_made_after_the_last_unsubscription_is_released_too() -> None:
    """Its notifier has not yet received the cancellation of the last subscription."""
    stage = used_link()
    notifier, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    master = stage.process("s1")
    master.frozen = True
    hearer.process.unsubscribe(hearer)
    stage.soon(3 * constants.LINK_LINGER_S)
    assert set(stage.relays("s2")) == {"b"}

    notifier.process.notify(notifier)
    stage.soon(0.1)
    master.thaw()
    stage.soon(3 * constants.LINK_LINGER_S)
    assert set(stage.relays("s2")) == {"b"}


@clause("BUS-DEREG-13", "BUS-MSG-5")
def test_a_notifier_gets_its_answer_from_a_former_subscriber() -> None:
    stage = used_link()
    notifier, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    stage.hold(hearer)
    asker = notifier.process

    def ask() -> list[Action]:
        asker.remote.notify(notifier.entry, 5, question=7)
        return []

    asker.event(ask)
    stage.soon()
    (question,) = hearer.items
    hearer.process.unsubscribe(hearer)
    stage.soon(3 * constants.LINK_LINGER_S)

    assert hearer.process.remote.outbound_messages.answer(question, 1)


@pytest.mark.deep
@clause("BUS-DEREG-13")
def test_a_message_that_crosses_the_release_of_its_relay_is_delivered() -> None:
    """That message is delivered with its sender; then the relay has a use."""
    for delay in range(40):
        stage = Stage(seed=delay)
        d, f = stage.task("d", "s2"), stage.task("f", "s3")
        other = stage.task("e", "s2")
        stage.send(other, stage.task("g", "s3").name)
        stage.send(d, "f")
        stage.soon()
        d.process.deregister(d)
        stage.forget()
        stage.soon(constants.LINK_LINGER_S - 0.02 + 0.001 * delay)

        (command,) = stage.send(f, "e")
        stage.soon(2.0)

        assert command.taken_by == other.id
        assert stage.process("s2").remote.inbound_messages.strays == 0
        assert "f" in stage.relays("s2")
