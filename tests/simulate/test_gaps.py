"""Notifications dropped before the link: the next notification reports the gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.kernel import constants
from bus.kernel.wire import Gap
from bus.model.payload import size_of
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.kernel.peer.relay import Relay
    from tests.simulate.task import SimTask

QUEUE = CONFIG.task_fifo_messages
LENGTH = 3  # of a notification, in bytes


def received(stage: Stage, hearer: SimTask, notifier: SimTask) -> list[int]:
    """Return the positions, from 1, of the notifications that a task received."""
    sent = stage.world.counters.notifications[notifier.id]
    counters = stage.world.counters.received
    return [
        at for at, each in enumerate(sent, start=1) if (each, hearer.id) in counters
    ]


def grow(stage: Stage) -> None:
    """Raise the numbers until each further notification is `LENGTH` bytes long."""
    while size_of(stage.world.number()) < LENGTH:
        pass


def audiences(stage: Stage, process: str) -> list[Relay]:
    """Return the audience relays of a process: one for each other process."""
    peers = stage.process(process).remote.topology.peers
    return [each.audience for each in peers.values()]


def notify(task: SimTask, count: int) -> None:
    """Let a task send so many notifications."""
    for _ in range(count):
        task.process.notify(task)


def notify_together(task: SimTask, count: int) -> None:
    """Let a task send so many notifications that the comm thread takes together."""
    task.process.notify_together(task, count)


both_ways = pytest.mark.parametrize("notifies", [notify, notify_together])


@clause("BUS-FLOW-3")
@both_ways
def test_the_next_notification_reports_drops_since_the_loss_of_the_link(
    notifies: Callable[[SimTask, int], None],
) -> None:
    """For each subscriber, received and missing notifications add up to those sent."""
    stage = Stage()
    notifier = stage.task("news", "s3")
    hearers = [stage.task(name, "s2") for name in ("h", "i")]
    elsewhere = stage.task("k", "s1")
    for each in (*hearers, elsewhere):
        each.process.subscribe(each, "news")
    stage.soon()
    notifies(notifier, 1)
    stage.soon()

    stage.cut("s2", "s3")
    notifies(notifier, QUEUE + 30)
    stage.soon(3.0)

    count, sent = QUEUE + 31, CONFIG.window  # sent on the link before its loss is known
    missing = 30 - sent
    for each in hearers:
        assert received(stage, each, notifier) == [
            *range(1, sent + 2),
            *range(32, count + 1),
        ]
        assert each.gaps == [0] * (1 + sent) + [missing] + [0] * (QUEUE - 1)
    assert len(elsewhere.gaps) + sum(elsewhere.gaps) == count


@clause("BUS-FLOW-1", "BUS-FLOW-3", "BUS-FLOW-7")
@both_ways
def test_notifications_queued_for_a_process_are_bounded_in_bytes_too(
    notifies: Callable[[SimTask, int], None],
) -> None:
    """Drops for size are reported and counted as drops for number are."""
    bound = 60
    stage = Stage(task_fifo_bytes=bound)
    notifier, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    grow(stage)
    stage.cut("s2", "s3")
    notifies(notifier, QUEUE)
    (waiting,) = [each for each in audiences(stage, "s3") if each.queue]
    assert (waiting.queued, waiting.queued_bytes) == (bound // LENGTH, bound)
    assert sum(each.size for each in waiting.queue) == bound
    stage.soon(3.0)

    sent, fit = CONFIG.window, bound // LENGTH
    missing = QUEUE - sent - fit
    assert received(stage, hearer, notifier) == [
        *range(1, sent + 1),
        *range(QUEUE - fit + 1, QUEUE + 1),
    ]
    assert hearer.gaps == [0] * sent + [missing] + [0] * (fit - 1)
    assert (waiting.counters.dropped, waiting.counters.taken) == (missing, sent + fit)
    assert (waiting.queued, waiting.queued_bytes) == (0, 0)


@clause("BUS-FLOW-1", "BUS-FLOW-3")
@both_ways
def test_a_notification_that_is_above_the_bound_waits_where_nothing_does(
    notifies: Callable[[SimTask, int], None],
) -> None:
    """It arrives, unless another notification is sent before the link has room."""
    stage = Stage(task_fifo_bytes=LENGTH - 1)
    notifier, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    grow(stage)
    for _ in range(2 * CONFIG.window):
        notifies(notifier, 1)
        stage.soon()
    assert hearer.gaps == [0] * 2 * CONFIG.window

    notifies(notifier, CONFIG.window + 3)
    stage.soon()
    assert hearer.gaps[2 * CONFIG.window :] == [0] * CONFIG.window + [2]


@clause("BUS-FLOW-3")
@both_ways
def test_each_notifier_tells_of_its_own(
    notifies: Callable[[SimTask, int], None],
) -> None:
    stage = Stage()
    one, two = stage.task("n/1", "s3"), stage.task("n/2", "s3")
    both, only = stage.task("h", "s2"), stage.task("i", "s2")
    both.process.subscribe(both, "n/*")
    only.process.subscribe(only, "n/2")
    stage.soon()
    stage.cut("s2", "s3")
    notifies(one, 5)
    notifies(two, QUEUE - 1)
    notifies(one, 1)  # drops four of the first five, then the fifth
    notifies(two, 10)
    stage.soon(3.0)

    sent = 6 + QUEUE + 9
    assert sum(both.gaps) + len(both.gaps) == sent
    assert sum(only.gaps) + len(only.gaps) == QUEUE + 9
    assert sum(only.gaps) < sum(both.gaps)


@pytest.mark.deep
@clause("BUS-FLOW-3", "BUS-RELAY-10")
@pytest.mark.parametrize("seed", range(10))
@both_ways
def test_a_gap_is_reported_once_however_often_the_link_is_lost(
    notifies: Callable[[SimTask, int], None], seed: int
) -> None:
    stage = Stage(seed=seed)
    notifier, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    stage.cut("s2", "s3")
    notifies(notifier, QUEUE + 7)
    stage.forget()
    cuts = 0
    while cuts < 3 and stage.world.now < 20.0:
        stage.soon(0.001)
        if any(isinstance(each, Gap) for each in stage.frames("s3", "s2")):
            stage.forget()
            stage.cut("s2", "s3")
            cuts += 1
    stage.soon(5.0)
    assert cuts

    sent = CONFIG.window
    assert received(stage, hearer, notifier) == [
        *range(1, sent + 1),
        *range(8, QUEUE + 8),
    ]
    assert hearer.gaps == [0] * sent + [7 - sent] + [0] * (QUEUE - 1)


@clause("BUS-FLOW-3")
@both_ways
def test_no_gap_counts_what_was_sent_between_two_subscriptions(
    notifies: Callable[[SimTask, int], None],
) -> None:
    """A notification of the first subscription is queued until the second begins."""
    stage = Stage()
    notifier, busy = stage.task("news", "s3"), stage.task("busy", "s2")
    first, second = stage.task("h", "s2"), stage.task("i", "s2")
    first.process.subscribe(first, "news")
    stage.soon()
    stage.hold(busy)
    stage.send(notifier, "busy", CONFIG.window + 1)
    stage.soon()
    notifies(notifier, 1)  # behind the last command, which waits for room
    stage.soon()
    first.process.unsubscribe(first)
    stage.soon()
    notifies(notifier, 1)
    second.process.subscribe(second, "news")
    stage.soon()

    stage.release(busy)
    notifies(notifier, 1)
    stage.soon()

    assert received(stage, second, notifier) == [1, 3]
    assert second.gaps == [0, 0]


@clause("BUS-FLOW-3", "BUS-DEREG-1")
@both_ways
def test_nothing_is_kept_of_a_notifier_that_has_left(
    notifies: Callable[[SimTask, int], None],
) -> None:
    stage = Stage()
    notifier, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    other = stage.task("other", "s3")
    hearer.process.subscribe(hearer, "**")
    stage.soon()
    stage.cut("s2", "s3")
    notifies(notifier, 3)
    notifier.process.deregister(notifier)
    notifies(other, QUEUE)
    stage.soon(3.0)

    assert received(stage, hearer, other) == [*range(1, QUEUE + 1)]
    assert set(hearer.gaps) == {0}
    (peer,) = [
        each
        for key, each in stage.process("s3").remote.topology.peers.items()
        if key[1] == "s2"
    ]
    assert not peer._gaps


@clause("BUS-FLOW-7", "BUS-RELAY-10")
@both_ways
def test_the_counters_of_notifications_go_on_when_all_begins_anew(
    notifies: Callable[[SimTask, int], None],
) -> None:
    """One process declares the other lost and reconnects; both counters continue."""
    stage = Stage()
    notifier, hearer = stage.task("news", "s3"), stage.task("h", "s2")
    hearer.process.subscribe(hearer, "news")
    stage.soon()
    notifies(notifier, 5)
    stage.soon()
    peers = stage.process("s3").remote.topology.peers
    before = peers["m1", "s2"]
    notifier.process.frozen = True
    stage.cut("s2", "s3")
    stage.soon(3 * constants.RELINK_TIMEOUT_S)
    notifier.process.thaw()
    stage.soon()
    notifies(notifier, 2)
    stage.soon()

    after = peers["m1", "s2"]
    assert after is before
    assert (after.notifications.posted, after.notifications.taken) == (7, 7)
    assert after.counters.posted == 7
