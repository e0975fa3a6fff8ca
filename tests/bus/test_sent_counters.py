"""Messages to other processes and their outcomes; links are queues here."""

from __future__ import annotations

import itertools
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from bus import BusConfig, SentCounters
from specs.clauses import clause
from tests.kit.buses import processes
from tests.kit.constants import set_constants
from tests.kit.inspection import sent_counters_of, unbalanced
from tests.kit.serving import settle
from tests.kit.tasks import Holder, echo
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Incoming, Overflow

# So low that the other process never keeps up with a notifier that does not wait.
TINY = BusConfig(task_fifo_messages=4, window=2)


@pytest.fixture(params=[BusConfig(), TINY], ids=["usual", "tiny"])
def two(request: pytest.FixtureRequest) -> Iterator[tuple[Bus, Bus]]:
    """Yield two processes of one bus."""
    config: BusConfig = request.param
    if config is TINY:
        set_constants(STREAM_WINDOW=8)
    with processes("one two", config) as [one, other]:
        yield one, other


def sent_counters(bus: Bus) -> dict[str, SentCounters]:
    """Return the counters of a process's sent messages."""
    return dict(sent_counters_of(bus.inspect()))


def quiet(bus: Bus) -> bool:
    """Return True if all sent messages of a process have an outcome."""
    seen = bus.inspect()
    assert unbalanced(seen) == []
    assert seen.notifying is not None
    return not (seen.sent.in_transit or seen.notifying.unread)


@clause("BUS-FLOW-7")
def test_each_kind_of_message_is_in_the_counters_of_its_relay_and_of_its_link(
    two: tuple[Bus, Bus],
) -> None:
    one, other = two
    received: list[Any] = []
    doer = other.register("doer", on_command=echo)
    doer.subscribe("asker", received.append)
    asker = one.register("asker")
    for number in range(10):
        assert asker.call("doer", number) == number
        asker.notify(number)
        until(lambda: len(received) == number + 1, "it is received")  # noqa: B023
    until(lambda: quiet(one) and quiet(other), "all is taken")

    def taken(count: int) -> SentCounters:
        return SentCounters(
            posted=count,
            taken=count,
            dropped=0,
            returned=0,
            failed=0,
            in_doubt=0,
            in_transit=0,
        )

    mine, theirs = sent_counters(one), sent_counters(other)
    assert mine["doer in two"] == taken(10)
    assert mine["hearers in two"] == taken(10)
    assert theirs["asker in one"] == taken(10)  # answers
    assert mine["two"].taken >= 20
    assert mine["all"] == mine["two"]


@pytest.mark.deep
@clause("BUS-FLOW-3", "BUS-FLOW-7")
@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest", "error"])
def test_a_remote_subscriber_gets_the_number_of_all_dropped_notifications(
    two: tuple[Bus, Bus], policy: Overflow
) -> None:
    """By the next one it receives, wherever others were dropped; the accounts agree."""
    one, other = two
    notifier = one.register("notifier", thread=one.here())
    slow: list[Incoming] = []
    prompt: list[Incoming] = []
    reader = other.register("reader", thread=other.thread())
    reader.subscribe("notifier", prompt.append)
    holder = Holder(other)
    holder.task.subscribe("notifier", slow.append, overflow=policy)
    numbers = itertools.count()

    def both_hear_another() -> bool:
        number = next(numbers)
        notifier.notify(number)
        until(lambda: quiet(one), "it is taken")
        settle(one)
        return all(got and got[-1].payload == number for got in (slow, prompt))

    until(both_hear_another, "both hear it")
    other.command(holder.task.address, "hold")
    assert holder.held.wait(LIMIT_S)
    for _ in range(20_000):
        notifier.notify(next(numbers))
    holder.let_go()
    until(both_hear_another, "both hear it again")

    for got in (slow, prompt):
        for before, after in pairwise(got):
            assert after.gap == after.payload - before.payload - 1
    assert sum(each.gap for each in slow)
    missing = [sum(each.gap for each in got) for got in (slow, prompt)]
    seen = one.inspect()
    assert seen.notifying is not None
    (peer,) = seen.peers
    at_sender = seen.notifying.dropped + peer.notifications.dropped
    assert at_sender <= min(missing)
