"""Notifications between processes: each crosses each link once."""

from __future__ import annotations

import pytest

from bus.features.subscriptions.frames import Subscribe, Unsubscribe
from bus.kernel import constants
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage


@clause("BUS-RELAY-7", "BUS-MSG-4", "AMO-25")
def test_a_notification_crosses_each_link_once() -> None:
    """However many subscribers the process has; each of them receives it once."""
    stage = Stage()
    notifier = stage.task("news/x", "s2")
    hearers = [stage.task(f"h/{number}", "s3") for number in range(10)]
    hearers += [stage.task("m", "s1"), stage.task("own", "s2")]
    for hearer in hearers:
        hearer.process.subscribe(hearer, "news/*")
        hearer.process.subscribe(hearer, "news/x")
    stage.task("deaf", "s3")
    stage.soon()
    stage.forget()

    number = notifier.process.notify(notifier)
    stage.soon()

    assert stage.types("s2", "s3").count("MSG") == 1
    assert stage.types("s2", "s1").count("MSG") == 1
    received = stage.world.counters.received
    assert received == {(number, hearer.id): 1 for hearer in hearers}


@clause("BUS-RELAY-8", "AMO-26", "AMO-27")
def test_one_subscription_covers_all_later_notifiers() -> None:
    """For matching tasks in any process and any of its lives, until cancelled."""
    stage = Stage()
    hearer = stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news/*")
    stage.soon()
    assert sum(isinstance(each, Subscribe) for each in stage.frames("s2")) == 1

    for process in ("s3", "s1", "s3"):
        for name in ("news/x", "news/y", "other"):
            task = stage.task(name, process)
            stage.soon()
            number = task.process.notify(task)
            stage.soon()
            received = (number, hearer.id) in stage.world.counters.received
            assert received == (name != "other")
            task.process.deregister(task)
            stage.soon()

    assert sum(isinstance(each, Subscribe) for each in stage.frames("s2")) == 1
    stage.forget()
    hearer.process.unsubscribe(hearer)
    stage.soon()
    assert sum(isinstance(each, Unsubscribe) for each in stage.frames("s2")) == 1
    stage.world.checks.rest()


@clause("BUS-RELAY-8")
def test_a_subscription_survives_the_loss_and_return_of_a_process() -> None:
    """Without a new call by the subscriber."""
    stage = Stage()
    hearer, notifier = stage.task("h", "s2"), stage.task("news", "s3")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    stage.process("s3").die()
    stage.soon(2.0)

    stage.world.start("m1", "s3")
    notifier = stage.task("news", "s3")
    stage.soon()
    number = notifier.process.notify(notifier)
    stage.soon()

    assert (number, hearer.id) in stage.world.counters.received


@pytest.mark.deep
@clause("BUS-RELAY-8", "BUS-DEREG-5")
@pytest.mark.parametrize("seed", range(3))
def test_a_notifier_that_registers_as_a_link_closes_reaches_its_subscriber(
    seed: int,
) -> None:
    """Hearsay about the notifier is forgotten unless its process confirms it."""
    for delay in range(30):
        stage = Stage(seed=seed)
        hearer, d = stage.task("h", "s2"), stage.task("d", "s2")
        f = stage.task("f", "s3")
        stage.send(d, "f")
        hearer.process.subscribe(hearer, "news")
        stage.soon()
        f.process.deregister(f)
        stage.soon(constants.LINK_LINGER_S - 0.01 + 0.001 * delay)

        notifier = stage.task("news", "s3")
        stage.soon(3 * CONFIG.connect_timeout_s)

        stage.forget()
        stage.soon(3 * constants.LINK_LINGER_S)
        assert stage.types("s2", "s3") == []  # no end wants to close it
        assert stage.links("s2", "s3") == 1
        number = notifier.process.notify(notifier)
        stage.soon()
        assert (number, hearer.id) in stage.world.counters.received, delay


@clause("BUS-RELAY-8", "BUS-RELAY-10")
@pytest.mark.parametrize("still_s", [0.7, 0.9, 1.5, 3.0])
def test_a_notifier_abandoned_during_a_pause_reaches_its_subscriber_again(
    still_s: float,
) -> None:
    """It is asked before it notices the loss; then it introduces its tasks again."""
    stage = Stage()
    notifier, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    notifier.process.notify(notifier)
    stage.soon()
    notifier.process.frozen = True
    stage.cut("s2", "s3")
    stage.soon(still_s)
    notifier.process.thaw()
    stage.soon(3 * CONFIG.connect_timeout_s)

    number = notifier.process.notify(notifier)
    stage.soon()

    assert (number, hearer.id) in stage.world.counters.received


@clause("BUS-RELAY-8")
def test_a_subscriber_that_has_unsubscribed_receives_no_notification() -> None:
    stage = Stage()
    hearer, notifier = stage.task("h", "s2"), stage.task("news", "s3")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    hearer.process.unsubscribe(hearer)
    stage.soon()
    stage.forget()

    notifier.process.notify(notifier)
    stage.soon()

    assert stage.types("s3") == []
