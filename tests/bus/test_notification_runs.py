"""Notifications of bytes to other processes, which travel many at a time."""

from __future__ import annotations

from itertools import pairwise
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from bus import BusConfig, MessageTooLargeError, UnknownTaskError
from specs.clauses import clause
from tests.kit.buses import PATIENT, processes
from tests.kit.inspection import info
from tests.kit.serving import serve, settle
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus import Bus, Incoming, Overflow, Task

COUNT = 600
SMALL = BusConfig(task_fifo_messages=50, window=40)


class Heard:
    """A subscriber in the calling thread, which reads only while the test serves it.

    numbers, gaps: of the notifications received.
    """

    def __init__(self, bus: Bus, overflow: Overflow = "drop-oldest") -> None:
        self.bus = bus
        self.numbers: list[int] = []
        self.gaps: list[int] = []
        self.task = bus.register("hearer", thread=bus.here())
        self.subscription = self.task.subscribe(
            "news", self.hear, overflow=overflow, wait=True
        )

    def hear(self, message: Incoming) -> None:
        self.numbers.append(int(message.payload))
        self.gaps.append(message.gap)

    @property
    def unread(self) -> int:
        return info(self.bus, "hearer").subscriptions[0].notifications.unread


@pytest.fixture
def two_processes() -> Iterator[tuple[Bus, Bus]]:
    with processes("one two") as [one, two]:
        yield one, two


def notifier(bus: Bus) -> Task:
    return bus.register("news", thread=bus.here())


def notify(task: Task, *numbers: int) -> None:
    for number in numbers:
        task.notify(str(number).encode())


@clause("BUS-MSG-4", "BUS-MSG-15", "BUS-RELAY-7")
@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest", "block", "error"])
def test_all_arrive_in_order_if_there_is_room(
    two_processes: tuple[Bus, Bus], overflow: Overflow
) -> None:
    one, two = two_processes
    task, heard = notifier(one), Heard(two, overflow)
    notify(task, *range(COUNT))
    serve(two, lambda: len(heard.numbers) == COUNT, "all are read")

    assert heard.numbers == [*range(COUNT)]
    assert not any(heard.gaps)
    sent = one.inspect().notifying
    assert sent is not None
    assert (sent.accepted, sent.delivered, sent.unread) == (COUNT, COUNT, 0)
    counters = info(two, "hearer").subscriptions[0].notifications
    assert (counters.accepted, counters.delivered) == (COUNT, COUNT)


@clause("BUS-FLOW-3", "BUS-FLOW-6")
@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest", "block"])
def test_each_reports_those_missing_before_it(overflow: Overflow) -> None:
    """Wherever they were dropped: before the link, or where the subscriber is."""
    with processes("one two", evolve(SMALL, resolve_timeout_s=60.0)) as [one, two]:
        task, heard = notifier(one), Heard(two, overflow)
        notify(task, *range(COUNT))
        until(lambda: _taken(one) == COUNT, "the comm thread has taken all")
        serve(two, lambda: heard.numbers and not heard.unread, "all are read")
        number = COUNT
        while heard.numbers[-1] < COUNT:  # until one reports those missing at the end
            notify(task, number)
            number += 1
            settle(two)

        missing = [now - last - 1 for last, now in pairwise([-1, *heard.numbers])]
        assert heard.gaps == missing
        assert heard.subscription.dropped >= sum(missing)


def _taken(bus: Bus) -> int:
    sent = bus.inspect().notifying
    assert sent is not None
    return sent.delivered + sent.dropped


@clause("BUS-MSG-5", "AMO-28")
def test_none_comes_after_the_subscription_is_cancelled(
    two_processes: tuple[Bus, Bus],
) -> None:
    """Even if it is cancelled by the callback of one that came with others.

    The first one keeps the thread busy until the others are there.
    """
    one, two = two_processes
    task = notifier(one)
    hearer = two.register("hearer", thread=two.thread())
    got, other, all_there = list[int](), list[int](), Event()

    def hear(message: Incoming) -> None:
        number = int(message.payload)
        got.append(number)
        if number == 0:
            assert all_there.wait(LIMIT_S)
        if number == 4:
            subscription.cancel()

    subscription = hearer.subscribe("news", hear, wait=True)
    hearer.subscribe("news", lambda message: other.append(int(message.payload)))
    notify(task, 0)
    until(lambda: got == [0], "the first is being read")
    notify(task, *range(1, 9))
    until(
        lambda: info(two, "hearer").subscriptions[0].notifications.unread == 8,
        "all are there",
    )
    all_there.set()
    until(lambda: len(got) + len(other) == 9, "all are read")

    assert got == [0, 1, 2, 3, 4]
    assert other == [5, 6, 7, 8]  # for the next subscription that matches


@clause("BUS-MSG-15")
def test_commands_and_notifications_of_a_task_arrive_in_order(
    two_processes: tuple[Bus, Bus],
) -> None:
    one, two = two_processes
    task, heard = notifier(one), Heard(two)
    two.register("doer", on_command=heard.hear, thread=two.here())
    heard.task.deregister()
    both = two.register("both", on_command=heard.hear, thread=two.here())
    both.subscribe("news", heard.hear, wait=True)
    task.command("both", b"-1")
    serve(two, lambda: heard.numbers == [-1], "the task is found")
    for number in range(COUNT):
        payload = str(number).encode()
        if number % 7 < 3:
            task.command("both", payload)
        else:
            task.notify(payload)
    serve(two, lambda: len(heard.numbers) == COUNT + 1, "all are read")
    assert heard.numbers == [*range(-1, COUNT)]


@clause("BUS-MSG-4", "BUS-MSG-15")
def test_a_task_of_the_notifiers_process_may_subscribe_at_any_time(
    two_processes: tuple[Bus, Bus],
) -> None:
    one, two = two_processes
    task, heard = notifier(one), Heard(two)
    near: list[int] = []
    near_by = one.register("near", thread=one.here())
    notify(task, *range(10))
    subscription = near_by.subscribe(
        "news", lambda each: near.append(int(each.payload))
    )
    notify(task, *range(10, 20))
    settle(one)
    subscription.cancel()
    notify(task, *range(20, 30))
    serve(two, lambda: len(heard.numbers) == 30, "all are read")

    assert heard.numbers == [*range(30)]
    assert near == [*range(10, 20)]


@clause("BUS-FLOW-8")
def test_those_without_a_subscriber_are_counted(two_processes: tuple[Bus, Bus]) -> None:
    one, _ = two_processes
    task = notifier(one)
    notify(task, *range(10))
    until(lambda: info(one, "news").unheard == 10, "all are counted")


@clause("BUS-MSG-15")
def test_several_threads_may_notify_for_a_task(two_processes: tuple[Bus, Bus]) -> None:
    """The order of each thread is kept."""
    one, two = two_processes
    task, heard = notifier(one), Heard(two)
    threads = [
        Thread(target=notify, args=(task, *range(first, 300, 3))) for first in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    serve(two, lambda: len(heard.numbers) == 300, "all are read")

    for first in range(3):
        own = [number for number in heard.numbers if number % 3 == first]
        assert own == [*range(first, 300, 3)]


@clause("BUS-DEREG-1", "BUS-MSG-16")
def test_what_cannot_be_sent_is_refused_at_once(two_processes: tuple[Bus, Bus]) -> None:
    one, two = two_processes
    task, heard = notifier(one), Heard(two)
    notify(task, 1)
    with pytest.raises(MessageTooLargeError):
        task.notify(bytes(PATIENT.message_bytes_max + 1))
    notify(task, 2)
    task.deregister()
    with pytest.raises(UnknownTaskError):
        notify(task, 3)
    serve(two, lambda: len(heard.numbers) == 2, "both are read")
    assert heard.numbers == [1, 2]


@clause("BUS-DEREG-10")
def test_a_subscriber_that_moves_reads_the_rest_elsewhere(
    two_processes: tuple[Bus, Bus],
) -> None:
    one, two = two_processes
    task, heard = notifier(one), Heard(two)
    notify(task, *range(20))
    until(lambda: heard.unread == 20, "all are there")
    moving: Callable[[], object] = lambda: heard.task.move(two.thread())  # noqa: E731
    moving()
    settle(two)
    until(lambda: len(heard.numbers) == 20, "all are read")
    assert heard.numbers == [*range(20)]
    assert not any(heard.gaps)
