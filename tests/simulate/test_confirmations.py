"""A subscriber waits until all processes have received its subscription."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from bus.features.subscriptions.frames import Subscribe
from bus.kernel.tasks.actions import Send, Settled
from bus.kernel.wire import Pong
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage
from tests.simulate.test_gaps import notify, notify_together, received

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulate.task import SimTask


def ask(hearer: SimTask, pattern: str = "news") -> list[float]:
    """Subscribe a task; return a list that receives the time of the confirmation."""
    process, reported = hearer.process, list[float]()

    def settled() -> None:
        reported.append(process.world.now)

    process.subscribe(hearer, pattern, settled)
    return reported


def wait(stage: Stage, reported: list[float], longest_s: float = 2.0) -> None:
    """Let time pass in small steps until the confirmation."""
    until = stage.world.now + longest_s
    while not reported:
        assert stage.world.now < until, "nobody tells"
        stage.soon(0.0005)


@pytest.mark.deep
@clause("BUS-MSG-18", "BUS-RELAY-8")
@pytest.mark.parametrize("machines", [1, 2])
@pytest.mark.parametrize("where", ["s1", "s2", "s3", "s4"])
@pytest.mark.parametrize("seed", range(3))
def test_each_notification_after_the_confirmation_arrives(
    where: str, machines: int, seed: int
) -> None:
    """On any process for the notifier, and any for the subscriber."""
    stage = Stage(slaves=3, machines=machines, seed=seed)
    machine = f"m{machines}"
    news = stage.task("news", where, machine)
    stage.soon()
    for process in ("s1", "s2"):
        hearer = stage.task(f"h/{process}", process)
        reported = ask(hearer, f"ism://{machine}/n*".replace("n*", "*"))
        wait(stage, reported)
        notify(news, 3)
        count = len(stage.world.counters.notifications[news.id])
        stage.soon()
        assert received(stage, hearer, news) == [*range(count - 2, count + 1)]
        stage.soon()
        assert len(reported) == 1


@clause("BUS-MSG-18")
def test_without_waiting_the_first_notifications_may_be_missed() -> None:
    """This shows that waiting is useful."""
    stage = Stage()
    news, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    stage.soon()
    hearer.process.subscribe(hearer, "news")
    notify(news, 3)
    stage.soon()
    assert received(stage, hearer, news) == []
    assert hearer.gaps == []


@clause("BUS-MSG-18")
def test_a_process_that_stands_still_keeps_the_subscriber_waiting() -> None:
    """The wait ends when the process runs again, or is lost."""
    stage = Stage(slaves=3)
    stage.process("s3").frozen = True
    first, second = stage.task("h", "s2"), stage.task("i", "s4")
    reported = ask(first), ask(second)
    stage.soon(3.0)
    assert reported == ([], [])
    stage.process("s3").thaw()
    stage.soon()
    assert list(map(len, reported)) == [1, 1]

    stage.process("s3").frozen = True
    third = stage.task("k", "s2")
    third_told = ask(third, "other")
    stage.soon(2.0)
    assert not third_told
    stage.process("s3").die()
    stage.soon(2.0)
    assert len(third_told) == 1


@clause("BUS-MSG-19", "BUS-DEREG-4")
@pytest.mark.parametrize("notifies", [notify, notify_together])
@pytest.mark.parametrize("heir", [None, "s1", "s2", "s3"])
def test_a_notifier_that_deregisters_at_once_reaches_its_subscriber(
    notifies: Callable[[SimTask, int], None], heir: str | None
) -> None:
    """Its first link may open after its departure, when another task has its name."""
    for where, delay in product(("s1", "s3"), (0.0, 0.001, 0.002, 0.004)):
        stage = Stage()
        hearer = stage.task("h", "s2")
        wait(stage, ask(hearer))
        news = stage.task("news", where)

        notifies(news, 3)
        news.process.deregister(news)
        stage.soon(delay)
        again = None if heir is None else stage.process(heir).register("news")
        if again is not None:
            notifies(again, 2)
        stage.soon()

        assert received(stage, hearer, news) == [1, 2, 3]
        if again is not None:
            assert received(stage, hearer, again) == [1, 2]


@pytest.mark.deep
@clause("BUS-MSG-18")
@pytest.mark.parametrize("heir", ["s2", "s3", "s4"])
@pytest.mark.parametrize("after", [0.0, 0.001, 0.003, 0.2])
def test_a_subscriber_waits_for_the_next_master(heir: str, after: float) -> None:
    """Even if the subscriber's own process is the next master."""
    stage = Stage(slaves=3)
    news, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    stage.soon()
    if after == 0.2:
        stage.process("s1").die()
        stage.soon(after)
    reported = ask(hearer)
    if after < 0.2:
        stage.soon(after)
        stage.process("s1").die()
    stage.soon(0.5)
    assert not reported or after < 0.2
    stage.world.promote(stage.process(heir))
    wait(stage, reported, CONFIG.connect_timeout_s + 2.0)
    notify(news, 3)
    stage.soon()
    assert received(stage, hearer, news) == [1, 2, 3]


@clause("BUS-MSG-18")
@pytest.mark.parametrize("cut", [("s1", "s2"), ("s1", "s3")])
@pytest.mark.parametrize("after", [0.0, 0.001, 0.002, 0.004, 0.006, 0.008, 0.012])
def test_a_lost_link_blocks_no_subscriber_for_ever(
    cut: tuple[str, str], after: float
) -> None:
    """The confirmation is requested again on the next link."""
    stage = Stage()
    news, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    stage.soon()
    reported = ask(hearer)
    stage.soon(after)
    stage.cut(*cut)
    wait(stage, reported)
    notify(news, 3)
    stage.soon(2.0)
    assert received(stage, hearer, news) == [1, 2, 3]


@clause("BUS-MSG-18")
def test_a_process_that_is_alone_waits_for_no_other() -> None:
    stage = Stage(slaves=0)
    assert ask(stage.task("h", "s1"))


@clause("BUS-MSG-18", "BUS-ENT-17")
def test_no_state_of_an_abandoned_wait_remains() -> None:
    """The subscriber cancels, deregisters, or is lost."""
    stage = Stage(slaves=3)
    stage.process("s3").frozen = True
    first, second = stage.task("h", "s2"), stage.task("i", "s4")
    ask(first)
    ask(second)
    stage.soon()
    master = stage.process("s1").remote_subscriptions._confirmations
    own = stage.process("s2").remote_subscriptions._confirmations
    assert (len(master), len(own)) == (2, 1)
    first.process.unsubscribe(first)
    second.process.die()
    stage.soon(2.0)
    assert (len(master), len(own)) == (0, 0)


@clause("BUS-MSG-18", "BUS-SEC-7")
def test_only_peers_that_received_a_subscription_can_confirm_it() -> None:
    stage = Stage(slaves=3)
    stage.process("s3").frozen = True
    reported = ask(stage.task("h", "s2"))
    stage.soon()
    numbers = [
        frame.confirm
        for frame in stage.frames("s1", "s3")
        if isinstance(frame, Subscribe)
    ]
    rogue = stage.process("s4")
    for number in filter(None, numbers):
        rogue.remote.topology.peers["m1", "s1"].session.send_link_frame(
            Pong(number=number)
        )
    rogue.settle()
    stage.soon()
    assert any(numbers)
    assert not reported


@clause("BUS-MSG-18", "BUS-RELAY-8")
def test_the_confirmation_for_another_process_is_ready_with_the_decision() -> None:
    """Were it an action, another thread could queue it, after the last flush."""
    stage = Stage()
    hearer = stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    here = stage.process("s3")
    peer = here.remote.topology.peers["m1", "s1"]
    link = peer.session.link
    assert link is not None
    [known] = here.remote_subscriptions.ledger.all()

    now = stage.world.now
    actions = here.remote.receive(link, replace(known.frame, confirm=7), now)
    assert not [each for each in actions if isinstance(each, Settled)]
    sent = [each.frame for each in here.remote.flush(now) if isinstance(each, Send)]
    assert Pong(number=7) in sent


@clause("BUS-MSG-18", "BUS-ENT-17")
def test_nothing_is_kept_of_the_confirmation_of_an_adopted_request_that_ends() -> None:
    """The subscription ends while a frozen process has not confirmed it."""
    stage = Stage(slaves=3, machines=2)
    master = stage.process("s1", "m2")
    stage.task("news", "s1", "m2")
    first = stage.task("h", "s2")
    first.process.subscribe(first, "ism://m2/news")
    stage.soon()
    stage.process("s3", "m2").frozen = True
    second = stage.task("i", "s2")
    ask(second, "ism://m2/news")
    stage.soon(0.05)
    remote_subscriptions = master.remote_subscriptions
    assert len(remote_subscriptions._confirmations) == 1

    stage.process("s1").die()
    stage.soon(1.0)
    assert [each.adopted for each in remote_subscriptions.ledger.all()] == [True]
    for hearer in (first, second):
        hearer.process.unsubscribe(hearer)
    until = stage.world.now + CONFIG.connect_timeout_s + 1.0
    while len(
        remote_subscriptions.ledger
    ):  # no longer: the other process would be lost
        assert stage.world.now < until
        stage.soon(0.01)
    assert len(remote_subscriptions._confirmations) == 0


@clause("BUS-MSG-18")
@pytest.mark.parametrize("where", ["s1", "s2"])
@pytest.mark.parametrize("cut", [False, True], ids=["never joined", "cut off"])
def test_a_subscriber_waits_for_the_machine_that_it_names(
    where: str, *, cut: bool
) -> None:
    """While that machine cannot be reached, no other process confirms for it."""
    stage = Stage(machines=2 if cut else 1)
    if cut:
        stage.process("s1", "m2").die()
        stage.soon(2.0)
    hearer = stage.task("h", where)

    reported = ask(hearer, "ism://m2/news")
    stage.soon(3.0)
    before = list(reported)
    stage.world.start("m2", "s1", master=True)
    news = stage.task("news", "s1", "m2")
    wait(stage, reported, 5.0)

    assert not before
    notify(news, 3)
    stage.soon()
    assert received(stage, hearer, news) == [1, 2, 3]


@clause("BUS-MSG-18")
def test_a_machine_that_is_lost_meanwhile_confirms_nothing() -> None:
    """Its master stops before it answers, and is lost; another one takes over."""
    stage = Stage(machines=2)
    master = stage.process("s1", "m2")
    master.frozen = True
    reported = ask(stage.task("h", "s2"), "ism://m2/news")
    stage.soon(0.05)
    master.die()
    stage.soon(3.0)
    before = list(reported)
    stage.world.start("m2", "s1", master=True)
    wait(stage, reported, 5.0)

    assert not before


@clause("BUS-MSG-18")
@pytest.mark.parametrize("heir", ["s2", "s3"])
def test_a_new_master_waits_for_the_machine_that_a_subscriber_names(heir: str) -> None:
    stage = Stage(slaves=2)
    reported = ask(stage.task("h", "s2"), "ism://m2/news")
    stage.process("s1").die()
    stage.soon(0.6)
    stage.world.promote(stage.process(heir))
    stage.soon(5.0)
    before = list(reported)
    stage.world.start("m2", "s1", master=True)
    wait(stage, reported, 5.0)

    assert not before


@clause("BUS-MSG-18")
def test_a_subscriber_that_waits_gets_each_task_once() -> None:
    """Each process used to answer twice: to the subscription, and to the wait."""
    stage = Stage()
    for number in range(5):
        stage.task(f"t/{number}", "s1")
    hearer = stage.task("h", "s2")
    stage.soon()
    stage.forget()

    assert not ask(hearer, "t/*")
    stage.soon()

    types = stage.types("s1", "s2")
    assert types.count("ADD_RELAY") == 5
    assert stage.types("s2", "s1").count("SUBSCRIBE") == 1


@clause("BUS-MSG-18")
@pytest.mark.parametrize("machine", ["m1", "m2"])
def test_subscribers_of_one_pattern_that_wait_at_once_are_all_confirmed(
    machine: str,
) -> None:
    """The second one repeats the request before the first one is confirmed."""
    stage = Stage(slaves=3, machines=2)
    first, second = stage.task("h", "s2"), stage.task("i", "s2")
    pattern = f"ism://{machine}/news"
    reported = ask(first, pattern), ask(second, pattern)
    stage.soon()

    assert list(map(len, reported)) == [1, 1]


@clause("BUS-MSG-18", "BUS-INIT-3")
def test_a_subscriber_waits_no_longer_once_its_process_is_the_first_master() -> None:
    """It has never had a master, and no other process joins it."""
    stage = Stage(slaves=0)
    stage.process("s1").die()
    process = stage.world.start("m1", "s2")
    stage.soon()
    reported = ask(stage.task("h", "s2"))
    stage.soon()
    before = list(reported)
    stage.world.promote(process)
    wait(stage, reported)

    assert not before


@clause("BUS-MSG-18")
def test_a_process_that_joins_later_is_not_asked_to_confirm() -> None:
    """No subscriber waits for it, and its PONG may have the number of another PING."""
    stage = Stage(slaves=1)
    reported = ask(stage.task("h", "s2"))
    wait(stage, reported)

    stage.world.start("m1", "s3")
    stage.soon()

    received = stage.frames("s1", "s3")
    asked = [each.confirm for each in received if isinstance(each, Subscribe)]
    assert asked == [0]
