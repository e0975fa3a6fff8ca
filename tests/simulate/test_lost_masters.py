"""A master is lost: the requests that it forwarded belong to their askers.

The process m1/s1 is the master, and is lost; s2 subscribes or watches; s3 and s4 host
the tasks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from bus.features.subscriptions.frames import Subscribe
from bus.kernel import constants
from bus.kernel.relays import Relays
from bus.kernel.wire import Eliminate
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage
from tests.simulate.test_gaps import notify, received

if TYPE_CHECKING:
    from tests.simulate.task import Asked, SimTask

NEW_MASTERS = (None, "s2", "s3", "s4")
IN_TIME_S = CONFIG.connect_timeout_s + 2.0  # to find a new master, and to be confirmed


def subscriber(stage: Stage, pattern: str = "news") -> SimTask:
    """Subscribe a task of s2; wait until notifiers have received the subscription."""
    task = stage.task("h", "s2")
    task.process.subscribe(task, pattern)
    stage.soon()
    return task


def watcher(stage: Stage, pattern: str = "t/**") -> tuple[SimTask, Asked]:
    """Start a watch of a task of s2."""
    task = stage.task("w", "s2")
    task.process.watch(task, pattern)
    stage.soon()
    return task, task.watches[0]


def seen(task: SimTask, watch: Asked) -> set[str]:
    """Return the names that a watch has reported as present."""
    return {address.module for address in task.present[watch]}


def subscriptions(stage: Stage, process: str) -> int:
    """Return how many subscriptions a process keeps for others."""
    ledger = stage.process(process).remote_subscriptions.ledger
    return sum(request.origin is not None for request in ledger.all())


@pytest.mark.deep
@clause("BUS-RELAY-8", "BUS-FLOW-3", "BUS-ENT-13")
@pytest.mark.parametrize("heir", NEW_MASTERS)
@pytest.mark.parametrize("seed", range(3))
def test_a_subscription_outlives_the_master_that_passed_it_on(
    heir: str | None, seed: int
) -> None:
    """With any next master, or none: no notification is missing."""
    stage = Stage(slaves=3, seed=seed)
    news = stage.task("news", "s3")
    hearer = subscriber(stage)
    for at in range(60):
        if at == 20:
            stage.process("s1").die()
        if at == 30 and heir is not None:
            stage.world.promote(stage.process(heir))
        notify(news, 1)
        stage.soon(0.05)
    stage.soon()

    assert received(stage, hearer, news) == [*range(1, 61)]
    assert set(hearer.gaps) == {0}


@clause("BUS-RELAY-8")
@pytest.mark.parametrize("heir", NEW_MASTERS)
def test_a_subscription_covers_a_task_registered_after_the_master_is_lost(
    heir: str | None,
) -> None:
    """Its process keeps the surviving request, or receives its repetition."""
    stage = Stage(slaves=3)
    first = stage.task("n/1", "s3")
    hearer = subscriber(stage, "n/*")
    stage.process("s1").die()
    stage.soon()
    second = stage.task("n/2", "s3")
    if heir is not None:
        stage.world.promote(stage.process(heir))
    stage.soon(IN_TIME_S)
    notify(first, 1)
    notify(second, 1)
    stage.soon()
    assert received(stage, hearer, first) == received(stage, hearer, second) == [1]


@clause("BUS-RELAY-8", "BUS-ENT-17")
@pytest.mark.parametrize("heir", NEW_MASTERS)
def test_a_notifier_drops_a_subscription_cancelled_without_a_master(
    heir: str | None,
) -> None:
    stage = Stage(slaves=3)
    news = stage.task("news", "s3")
    hearer = subscriber(stage)
    stage.process("s1").die()
    stage.soon(1.0)
    assert subscriptions(stage, "s3") == 1
    hearer.process.unsubscribe(hearer)
    if heir is not None:
        stage.world.promote(stage.process(heir))
    stage.soon(IN_TIME_S)

    assert subscriptions(stage, "s3") == 0
    stage.forget()
    notify(news, 3)
    stage.soon()
    assert "MSG" not in stage.types("s3", "s2")


@clause("BUS-RELAY-8", "BUS-ENT-17")
def test_a_cancellation_that_the_master_did_not_forward_takes_effect() -> None:
    """The subscriber cancelled before any process noticed the loss."""
    stage = Stage()
    stage.task("news", "s3")
    hearer = subscriber(stage)
    stage.process("s1").frozen = True
    hearer.process.unsubscribe(hearer)
    stage.soon(0.1)
    stage.process("s1").die()
    stage.soon(1.0)
    assert subscriptions(stage, "s3") == 0


@clause("BUS-RELAY-8", "BUS-ENT-17")
def test_a_subscription_without_its_asker_or_its_task_ends_with_the_master() -> None:
    """Its keeper hosts no such task, or loses the subscriber."""
    stage = Stage(slaves=3)
    news = stage.task("news", "s3")
    subscriber(stage)
    stage.process("s1").die()
    stage.soon(1.0)
    assert (subscriptions(stage, "s3"), subscriptions(stage, "s4")) == (1, 0)

    stage.process("s2").die()
    stage.soon(2.0)
    assert subscriptions(stage, "s3") == 0
    assert news.here


@clause("BUS-RELAY-8", "BUS-ENT-17")
@pytest.mark.parametrize("linked", [False, True])
def test_a_subscription_to_a_task_that_left_without_a_master_is_forgotten(
    linked: bool,
) -> None:
    """Whether or not its asker still uses the link, for messages to another task."""
    stage = Stage()
    news, other = stage.task("news", "s3"), stage.task("other", "s3")
    hearer = subscriber(stage)
    if linked:
        stage.send(hearer, other.name)
    stage.soon()
    stage.process("s1").die()
    stage.soon(1.0)
    news.process.deregister(news)
    stage.soon(IN_TIME_S)
    assert subscriptions(stage, "s3") == 0
    assert stage.links("s2", "s3") == linked


@clause("BUS-RELAY-8", "BUS-ROUTE-17")
def test_a_new_master_forwards_only_the_subscriptions_that_are_repeated() -> None:
    """A subscription that it kept for a late process may be cancelled by then."""
    stage = Stage(slaves=3)
    stage.task("news", "s3")
    hearer = subscriber(stage)
    stage.process("s1").die()
    stage.soon(1.0)
    stage.process("s2").frozen = True
    stage.forget()
    stage.world.promote(stage.process("s3"))
    stage.soon(2.0)
    asked = [each for each in stage.frames("s3", "s4") if isinstance(each, Subscribe)]
    assert not asked

    stage.process("s2").thaw()
    stage.soon()
    asked = [each for each in stage.frames("s3", "s4") if isinstance(each, Subscribe)]
    assert [each.subscriber.id for each in asked] == [hearer.id]


@pytest.mark.deep
@clause("BUS-DEREG-2")
@pytest.mark.parametrize("heir", [None, "s2", "s5"])
@pytest.mark.parametrize("seed", range(8))
def test_tasks_that_leave_together_with_the_master_are_reported_as_left(
    heir: str | None, seed: int
) -> None:
    """Four processes shut down at about the same time, the master among them."""
    stage = Stage(slaves=4, seed=seed)
    closing = ("s1", "s3", "s4")
    for process in (*closing, "s5"):
        for number in range(10):
            stage.task(f"t/{process}/{number}", process)
    stage.soon()
    task, watch = watcher(stage)
    assert len(seen(task, watch)) == 40

    def leave(name: str) -> None:
        process = stage.process(name)
        for each in list(process.tasks.values()):
            process.deregister(each, final=True)
        stage.world.at(0.002, process.die)

    for name in closing:
        stage.world.at(stage.world.random.random() * 0.004, partial(leave, name))
    stage.soon(0.2)
    if heir is None:
        stage.world.start("m1", "s6", master=True)
    else:
        stage.world.promote(stage.process(heir))
    stage.soon(IN_TIME_S)

    assert seen(task, watch) == {f"t/s5/{number}" for number in range(10)}


@clause("BUS-DEREG-2")
def test_a_process_late_at_the_new_master_is_absent_until_it_joins() -> None:
    """It may have died; if it was only stopped, the watch reports its tasks again."""
    stage = Stage(slaves=3)
    stage.task("t/3", "s3")
    stage.task("t/4", "s4")
    task, watch = watcher(stage)
    stage.process("s3").frozen = True
    stage.process("s1").die()
    stage.world.promote(stage.process("s4"))
    stage.soon(1.0)
    assert seen(task, watch) == {"t/3", "t/4"}
    stage.soon(IN_TIME_S)
    assert seen(task, watch) == {"t/4"}

    stage.process("s3").thaw()
    stage.soon(2.0)
    assert seen(task, watch) == {"t/3", "t/4"}


@clause("BUS-DEREG-2")
def test_a_watch_reports_a_task_in_doubt_once_confirmed() -> None:
    """Otherwise `wait_for` would return a task that has left with the master."""
    stage = Stage(slaves=3)
    left, stays = stage.task("t/3", "s3"), stage.task("t/4", "s4")
    watcher(stage)
    stage.process("s1").die()
    left.process.deregister(left)
    stage.soon(1.0)
    later = stage.task("later", "s2")
    later.process.watch(later, "t/**")
    (watch,) = later.watches
    assert seen(later, watch) == set()

    stage.world.promote(stage.process("s4"))
    stage.soon(2.0)
    assert seen(later, watch) == {stays.name}
    stage.soon(IN_TIME_S)
    assert seen(later, watch) == {stays.name}


@clause("BUS-DEREG-2", "BUS-ENT-13")
def test_without_a_master_a_linked_process_sees_a_task_and_its_departure() -> None:
    """The task's process announces its departure on the link between the two."""
    stage = Stage()
    target, other = stage.task("t/3", "s3"), stage.task("t/other", "s3")
    task, watch = watcher(stage)
    stage.send(task, "t/3")
    stage.soon()
    stage.process("s1").die()
    stage.soon(1.0)
    later = stage.task("later", "s2")
    later.process.watch(later, "t/**")
    assert seen(later, later.watches[0]) == {target.name}

    target.process.deregister(target)
    stage.soon()
    assert seen(task, watch) == {other.name}
    assert seen(later, later.watches[0]) == set()


@clause("BUS-DEREG-2", "BUS-ENT-17")
def test_nothing_is_kept_of_a_watch_that_ends_while_tasks_are_in_doubt() -> None:
    stage = Stage()
    stage.task("t/3", "s3")
    watcher(stage)
    stage.process("s1").die()
    stage.soon(1.0)
    later = stage.task("later", "s2")
    later.process.watch(later, "t/**")
    far = stage.process("s2").subscriptions.remote_tasks
    assert far._unreported
    later.process.unwatch(later)
    assert not far._unreported


@clause("BUS-DEREG-2", "BUS-DEREG-5")
def test_tasks_stay_here_when_the_link_with_their_process_is_not_needed() -> None:
    stage = Stage()
    target = stage.task("t/3", "s3")
    task, watch = watcher(stage)
    writer = stage.task("writer", "s2")
    stage.send(writer, "t/3")
    stage.soon()
    assert stage.links("s2", "s3")
    writer.process.deregister(writer)
    for _ in range(50):
        stage.soon(0.1)
        assert seen(task, watch) == {"t/3"}
    assert not stage.links("s2", "s3")

    target.process.deregister(target)
    stage.soon()
    assert seen(task, watch) == set()


@clause("BUS-DEREG-2", "BUS-RELAY-8")
def test_tasks_of_a_process_that_was_given_up_and_lives_are_seen_again() -> None:
    """The link was lost while the process was stopped; the master has kept it."""
    stage = Stage()
    stage.task("t/3", "s3")
    task, watch = watcher(stage)
    stage.send(task, "t/3")
    stage.soon()
    stage.process("s3").frozen = True
    stage.cut("s2", "s3")
    stage.soon(2 * constants.RELINK_TIMEOUT_S)
    assert seen(task, watch) == set()

    stage.process("s3").thaw()
    stage.soon(2.0)
    assert seen(task, watch) == {"t/3"}


@clause("BUS-DEREG-7")
def test_the_loss_of_an_earlier_life_ends_nothing_of_a_later_one() -> None:
    """The master announces the later life before the loss of the link is noticed."""
    stage = Stage()
    stage.task("t/3", "s3")
    task, watch = watcher(stage)
    remote_tasks = task.process.subscriptions.remote_tasks
    (number,) = remote_tasks._tasks
    life = remote_tasks._tasks[number].incarnation
    address = remote_tasks._tasks[number].address
    again = type(number)(number.machine, number.process, number.number + 1)
    remote_tasks.on_appeared(again, address, life + 1)

    for each in remote_tasks.of_process(("m1", "s3"), life):
        task.process.do(list(remote_tasks.on_disappeared(each)))
    assert list(remote_tasks._tasks) == [again]
    assert seen(task, watch) == {"t/3"}


@clause("BUS-DEREG-7")
@pytest.mark.parametrize("where", ["s2", "s3"])
def test_a_name_that_is_taken_before_its_departure_is_known_is_here(where: str) -> None:
    """The news of the departure may come last, and concerns another registration."""
    stage = Stage()
    left = stage.task("t/1", "s1")
    task, watch = watcher(stage)
    remote_tasks = task.process.subscriptions.remote_tasks
    (number,) = remote_tasks._tasks
    stage.process("s1").frozen = True  # its own departure arrives last
    if where == "s2":
        taken = stage.task("t/1", "s2")
    else:
        taken = stage.task("t/1", "s3")
        again = remote_tasks.on_appeared(taken.id, left.entry.address, 1)
        assert again == []
    assert seen(task, watch) == {"t/1"}
    task.process.do(list(remote_tasks.on_disappeared(number)))
    assert seen(task, watch) == {"t/1"}


@clause("BUS-DEREG-2")
def test_news_of_a_departure_still_come_from_the_master() -> None:
    """Each watch reports it once, though the task's own link announced it before."""
    stage = Stage()
    target = stage.task("t/3", "s3")
    task, watch = watcher(stage)
    stage.send(task, "t/3")
    stage.soon()
    stage.forget()
    target.process.deregister(target)
    stage.soon()
    reported = [
        each for each in stage.frames("s1", "s2") if isinstance(each, Eliminate)
    ]
    assert len(reported) == 1
    assert seen(task, watch) == set()


@clause("BUS-DEREG-2", "BUS-DEREG-5")
def test_two_processes_that_watch_one_another_need_no_link_and_stay_here() -> None:
    """Neither waits for a link to a watcher, or declares it lost without one."""
    stage = Stage()
    stage.task("t/2", "s2")
    stage.task("t/3", "s3")
    task, watch = watcher(stage)
    other = stage.task("x", "s3")
    other.process.watch(other, "t/**")
    stage.soon()
    peers = stage.process("s3").remote.topology.peers
    assert [key for _, key in peers] == ["s1"]
    stage.soon(3 * CONFIG.connect_timeout_s)
    assert seen(task, watch) == seen(other, other.watches[0]) == {"t/2", "t/3"}


@clause("BUS-DEREG-2")
def test_a_process_that_makes_no_link_in_time_is_still_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the master would announce that it is lost."""
    stage = Stage()
    stage.task("news", "s3")
    stage.task("t/2", "s2")
    hearer = stage.task("h", "s2")
    other = stage.task("x", "s3")
    other.process.watch(other, "t/**")
    stage.soon()
    monkeypatch.setattr(Relays, "dial", lambda *_: None)
    hearer.process.subscribe(hearer, "news")
    stage.soon(3 * CONFIG.connect_timeout_s)
    assert seen(other, other.watches[0]) == {"t/2"}
