"""Each task receives each message once, even if links repeat frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.features.subscriptions.frames import Subscribe, Unsubscribe
from bus.kernel.wire import Batch, decode
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from tests.simulate.process import SimTask


def subscribe(task: SimTask, *specifications: str) -> None:
    """Subscribe a task to each of these specifications."""
    for each in specifications:
        task.process.subscribe(task, each)


@clause("AMO-2")
@pytest.mark.parametrize("times", [2, 5])
def test_tasks_see_no_message_that_came_again(times: int) -> None:
    """Its process refuses repeated commands, questions, answers and notifications."""
    stage = Stage()
    d, e = stage.task("d", "s2"), stage.task("e", "s2")
    f, g = stage.task("f", "s3"), stage.task("g", "s3")
    subscribe(f, "*")
    subscribe(g, "d", "**")
    stage.soon()
    network = stage.world.network
    send = network.send

    def again(number: int, data: bytes) -> None:
        for _ in range(times if isinstance(decode(data), Batch) else 1):
            send(number, data)

    network.send = again  # type: ignore[method-assign]  # repeats each batch

    commands = []
    for _ in range(3):
        commands += stage.send(d, "f", CONFIG.window, asks=True)
        commands += stage.send(e, "g", CONFIG.window)
        number = d.process.notify(d)
        stage.soon()

    assert [each.taken_by for each in commands] == [
        *([f.id] * CONFIG.window + [g.id] * CONFIG.window) * 3
    ]
    received = stage.world.counters.received
    assert received[number, f.id] == received[number, g.id] == 1
    for message in f.kept:
        f.process.answer(message)
    f.process.settle()
    stage.soon()
    assert {each.answers for each in commands if each.asks} == {1}


@clause("AMO-28")
@pytest.mark.parametrize("where", ["s1", "s2", "s3"])
def test_a_notification_comes_once_with_all_subscriptions_that_match(
    where: str,
) -> None:
    """In the order in which the task subscribed, and separately for each task."""
    stage = Stage()
    notifier = stage.task("news/x", where)
    one, other = stage.task("one", "s3"), stage.task("other", "s3")
    subscribe(one, "news/*", "no", "news/x", "**", "news/x")
    subscribe(other, "news/x")
    stage.soon()
    stage.hold(one)
    stage.hold(other)

    notifier.process.notify(notifier)
    stage.soon()

    (message,) = one.items
    asked = one.subscriptions
    assert message.subscriptions == (asked[0], *asked[2:])
    assert [each.subscriptions for each in other.items] == [tuple(other.subscriptions)]


@clause("AMO-29")
def test_a_subscription_that_is_asked_for_again_is_one() -> None:
    """A repeated request is kept once, answered once, and ended by one cancel."""
    stage = Stage()
    hearer, notifier = stage.task("h", "s2"), stage.task("news", "s3")
    subscribe(hearer, "news")
    stage.soon()
    (request,) = hearer.process.remote_subscriptions.own.values()
    for _ in range(3):
        for peer in hearer.process.remote.topology.joined():
            peer.session.send_control(request.frame)
        hearer.process.settle()
        stage.soon()
    said = [each for each in stage.frames("s2") if isinstance(each, Subscribe)]
    assert {each.id for each in said} == {request.frame.id}
    assert len(said) == 4
    for name in ("s1", "s3"):
        assert len(stage.process(name).remote_subscriptions.ledger) == 1
    stage.forget()

    number = notifier.process.notify(notifier)
    stage.soon()
    assert stage.world.counters.received == {(number, hearer.id): 1}
    assert stage.types("s3").count("MSG") == 1

    hearer.process.unsubscribe(hearer)
    stage.soon()
    assert sum(isinstance(each, Unsubscribe) for each in stage.frames("s2")) == 1
    for name in ("s1", "s2", "s3"):
        assert len(stage.process(name).remote_subscriptions.ledger) == 0


@clause("AMO-29")
def test_notifications_after_an_answered_subscription_are_delivered() -> None:
    """Notifications sent before the answer may be missed."""
    stage = Stage()
    hearer, notifier = stage.task("h", "s2"), stage.task("news", "s3")
    subscribe(hearer, "news")
    numbers = []

    while "news" not in stage.relays("s2"):
        notifier.process.notify(notifier)
        stage.soon(0.0005)
    for _ in range(20):
        numbers.append(notifier.process.notify(notifier))
        stage.soon(0.0005)
    stage.soon()

    received = [number for number, _ in stage.world.counters.received]
    assert received[-len(numbers) :] == numbers
