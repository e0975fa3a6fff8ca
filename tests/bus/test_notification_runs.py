"""Notifications of bytes to other processes, which travel many at a time."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import evolve

from bus import BusConfig, MessageTooLargeError, UnknownTaskError
from bus.api.receiver import Receiver
from bus.api.sender import Sender
from bus.kernel.tasks.runs import InboundRun
from bus.process.thread_manager import Request
from specs.clauses import clause
from tests.kit.buses import PATIENT, processes
from tests.kit.comm_threads import held
from tests.kit.inspection import info
from tests.kit.serving import serve, settle
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus import Bus, Incoming, Overflow, Subscription, Task

COUNT = 600
SMALL = BusConfig(task_fifo_messages=50, window=40)


class Subscriber:
    """A subscriber in the calling thread, which reads only while the test serves it.

    numbers, gaps: of the notifications received.
    """

    def __init__(self, bus: Bus, overflow: Overflow = "drop-oldest") -> None:
        self.bus = bus
        self.numbers: list[int] = []
        self.gaps: list[int] = []
        self.task = bus.register("subscriber", thread=bus.here())
        self.subscription = self.task.subscribe(
            "news", self.on_news, overflow=overflow, wait=True
        )

    def on_news(self, message: Incoming) -> None:
        self.numbers.append(int(message.payload))
        self.gaps.append(message.gap)

    @property
    def unread(self) -> int:
        return info(self.bus, "subscriber").subscriptions[0].notifications.unread


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
    task, subscriber = notifier(one), Subscriber(two, overflow)
    notify(task, *range(COUNT))
    serve(two, lambda: len(subscriber.numbers) == COUNT, "all are read")

    assert subscriber.numbers == [*range(COUNT)]
    assert not any(subscriber.gaps)
    sent = one.inspect().notifying
    assert sent is not None
    assert (sent.accepted, sent.delivered, sent.unread) == (COUNT, COUNT, 0)
    counters = info(two, "subscriber").subscriptions[0].notifications
    assert (counters.accepted, counters.delivered) == (COUNT, COUNT)


@clause("BUS-FLOW-3", "BUS-FLOW-6")
@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest", "block"])
def test_each_reports_those_missing_before_it(overflow: Overflow) -> None:
    """Wherever they were dropped: before the link, or where the subscriber is."""
    with processes("one two", evolve(SMALL, resolve_timeout_s=60.0)) as [one, two]:
        task, subscriber = notifier(one), Subscriber(two, overflow)
        notify(task, *range(COUNT))
        until(lambda: _taken(one) == COUNT, "the comm thread has taken all")
        serve(two, lambda: subscriber.numbers and not subscriber.unread, "all are read")
        number = COUNT
        while subscriber.numbers[-1] < COUNT:  # the last ones are missing
            notify(task, number)
            number += 1
            settle(two)

        missing = [now - last - 1 for last, now in pairwise([-1, *subscriber.numbers])]
        assert subscriber.gaps == missing
        assert subscriber.subscription.dropped >= sum(missing)


@clause("BUS-FLOW-3")
@pytest.mark.parametrize("form", [bytes, str])
def test_each_reports_the_missing_ones_of_its_own_notifier(form: type) -> None:
    """Its subscribers may not subscribe to another one."""
    with processes("one two", evolve(PATIENT, task_fifo_messages=3)) as [one, two]:
        got = list[tuple[str, int]]()
        reader = two.register("reader", thread=two.here())
        tasks = {name: one.register(name, thread=one.here()) for name in "ab"}
        for name, task in tasks.items():
            reader.subscribe(
                name, lambda each: got.append((each.sender.module, each.gap)), wait=True
            )
            task.wait_for_subscribers()
        with held(one):
            for name in "bababb":
                tasks[name].notify(b"" if form is bytes else "")
        serve(two, lambda: len(got) == 3, "those with room are read")
        tasks["a"].notify(b"")
        serve(two, lambda: len(got) == 4, "the next one is read")

    assert got == [("a", 1), ("b", 2), ("b", 0), ("a", 0)]


@clause("BUS-FLOW-3", "BUS-DEREG-1")
def test_a_notifier_that_leaves_with_a_gap_to_report_is_released() -> None:
    with processes("one two", evolve(PATIENT, task_fifo_messages=1)) as [one, two]:
        reader, there = two.register("reader", thread=two.here()), one.here()
        other, gone = [one.register(name, thread=there) for name in ("other", "gone")]
        for task in (other, gone):
            reader.subscribe(task.address.module, lambda _: None, wait=True)
            task.wait_for_subscribers()
        with held(one):
            gone.notify("dropped")
            other.notify("kept")
        gone.deregister()
        left = weakref.ref(gone._entry)
        del gone, task

        def is_released() -> bool:
            gc.collect()  # the task refers to itself
            return left() is None

        serve(one, is_released, "it is released")


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
    subscriber = two.register("subscriber", thread=two.thread())
    got, other, all_there = list[int](), list[int](), Event()

    def on_news(message: Incoming) -> None:
        number = int(message.payload)
        got.append(number)
        if number == 0:
            assert all_there.wait(LIMIT_S)
        if number == 4:
            subscription.cancel()

    subscription = subscriber.subscribe("news", on_news, wait=True)
    subscriber.subscribe("news", lambda message: other.append(int(message.payload)))
    notify(task, 0)
    until(lambda: got == [0], "the first is being read")
    notify(task, *range(1, 9))
    until(
        lambda: info(two, "subscriber").subscriptions[0].notifications.unread == 8,
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
    task, subscriber = notifier(one), Subscriber(two)
    two.register("doer", on_command=subscriber.on_news, thread=two.here())
    subscriber.task.deregister()
    both = two.register("both", on_command=subscriber.on_news, thread=two.here())
    both.subscribe("news", subscriber.on_news, wait=True)
    task.command("both", b"-1")
    serve(two, lambda: subscriber.numbers == [-1], "the task is found")
    for number in range(COUNT):
        payload = str(number).encode()
        if number % 7 < 3:
            task.command("both", payload)
        else:
            task.notify(payload)
    serve(two, lambda: len(subscriber.numbers) == COUNT + 1, "all are read")
    assert subscriber.numbers == [*range(-1, COUNT)]


@clause("BUS-MSG-4", "BUS-MSG-15")
def test_a_task_of_the_notifiers_process_may_subscribe_at_any_time(
    two_processes: tuple[Bus, Bus],
) -> None:
    one, two = two_processes
    task, subscriber = notifier(one), Subscriber(two)
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
    serve(two, lambda: len(subscriber.numbers) == 30, "all are read")

    assert subscriber.numbers == [*range(30)]
    assert near == [*range(10, 20)]


@clause("BUS-FLOW-8")
def test_those_without_a_subscriber_are_counted(two_processes: tuple[Bus, Bus]) -> None:
    one, _ = two_processes
    task = notifier(one)
    notify(task, *range(10))
    until(lambda: info(one, "news").no_subscriber == 10, "all are counted")


@clause("BUS-MSG-15")
def test_several_threads_may_notify_for_a_task(two_processes: tuple[Bus, Bus]) -> None:
    """The order of each thread is kept."""
    one, two = two_processes
    task, subscriber = notifier(one), Subscriber(two)
    threads = [
        Thread(target=notify, args=(task, *range(first, 300, 3))) for first in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    serve(two, lambda: len(subscriber.numbers) == 300, "all are read")

    for first in range(3):
        own = [number for number in subscriber.numbers if number % 3 == first]
        assert own == [*range(first, 300, 3)]


@clause("BUS-DEREG-1", "BUS-MSG-16")
def test_what_cannot_be_sent_is_refused_at_once(two_processes: tuple[Bus, Bus]) -> None:
    one, two = two_processes
    task, subscriber = notifier(one), Subscriber(two)
    notify(task, 1)
    with pytest.raises(MessageTooLargeError):
        task.notify(bytes(PATIENT.message_bytes_max + 1))
    notify(task, 2)
    task.deregister()
    with pytest.raises(UnknownTaskError):
        notify(task, 3)
    serve(two, lambda: len(subscriber.numbers) == 2, "both are read")
    assert subscriber.numbers == [1, 2]


@clause("BUS-DEREG-10")
def test_a_subscriber_that_moves_reads_the_rest_elsewhere(
    two_processes: tuple[Bus, Bus],
) -> None:
    one, two = two_processes
    task, subscriber = notifier(one), Subscriber(two)
    notify(task, *range(20))
    until(lambda: subscriber.unread == 20, "all are there")
    moving: Callable[[], object] = lambda: subscriber.task.move(two.thread())  # noqa: E731
    moving()
    settle(two)
    until(lambda: len(subscriber.numbers) == 20, "all are read")
    assert subscriber.numbers == [*range(20)]
    assert not any(subscriber.gaps)


# Races and faults within one process, where a run is posted by hand: so it has a known
# length.


class Near:
    """A subscriber in the calling thread, and a task of the same process.

    got: the numbers of the notifications received.
    act: called with each number.
    """

    def __init__(self, bus: Bus, capacity: int = COUNT) -> None:
        self.bus = bus
        self.got: list[int] = []
        self.act: Callable[[int], object] = lambda number: None
        self.notifier = notifier(bus)
        self.task = bus.register("subscriber", thread=bus.here())
        self.subscription = self.task.subscribe("news", self.on_news, capacity=capacity)
        self.manager: Final[Any] = bus.here()._manager
        settle(bus)

    def on_news(self, message: Incoming) -> None:
        number = int(message.payload)
        self.got.append(number)
        self.act(number)

    def post_run(self, *numbers: int) -> None:
        run = InboundRun(
            self.task._entry,
            self.notifier._entry,
            [str(number).encode() for number in numbers],
            None,
            1,
            None,
            (self.subscription,),
        )
        inbox, account = self.manager.inbox, self.subscription._account
        assert inbox.offer_inbound_run(run, account, self.manager) == len(numbers)

    def turn(self) -> None:
        """Give one turn to the subscriber, in which it may read a whole run."""
        self.manager._drain_inbox()
        self.manager.scheduler.turn(LIMIT_S)


@pytest.fixture
def near() -> Iterator[Near]:
    with processes("one") as [one]:
        yield Near(one)


@clause("BUS-MSG-5", "BUS-MSG-13")
@pytest.mark.parametrize("look", [1, 2])
def test_a_subscription_may_be_cancelled_just_before_a_run_is_read(
    near: Near, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """By another thread, just after the scheduler looked at it, once or twice.

    The one message whose callback is then about to be called is still delivered.
    """
    reads = Receiver.reads
    looks: list[object] = []

    def then_cancelled(receiver: Receiver, run: InboundRun) -> Any:
        found = reads(receiver, run)
        looks.append(found)
        if len(looks) == look:
            in_another_thread(near.subscription.cancel)
        return found

    near.post_run(*range(5))
    monkeypatch.setattr(Receiver, "reads", then_cancelled)
    near.turn()
    assert len(looks) == 2
    settle(near.bus)

    assert near.got == [*range(look - 1)]
    near.task.subscribe("news", near.on_news)
    near.notifier.notify(b"7")  # the thread serves as before
    settle(near.bus)
    assert near.got == [*range(look - 1), 7]


def in_another_thread(act: Callable[[], object]) -> None:
    thread = Thread(target=act)
    thread.start()
    thread.join()


@clause("BUS-FLOW-1")
def test_cancelled_subscriptions_leave_no_requests_to_a_thread(near: Near) -> None:
    """At most one, if a callback runs."""
    items = near.manager.inbox.items

    def cancel_some() -> None:
        for _ in range(20):
            near.task.subscribe("other", near.on_news).cancel()

    cancel_some()
    in_another_thread(cancel_some)
    assert not items
    left: list[int] = []

    def act(_: int) -> None:
        cancel_some()
        left.append(len(near.manager.inbox.items))

    near.act = act
    near.post_run(0)
    near.turn()
    assert left == [1]


@clause("BUS-FLOW-1", "BUS-FLOW-6")
def test_a_subscription_that_is_cut_off_leaves_no_requests_to_its_thread(
    near: Near,
) -> None:
    subscription: Subscription = near.task.subscribe(
        "news", near.on_news, overflow="disconnect", capacity=1
    )
    near.subscription.cancel()
    for number in range(20):
        near.notifier.notify(str(number).encode())
    assert not subscription.active
    requests = [each for each in near.manager.inbox.items if isinstance(each, Request)]
    assert not requests


@clause("BUS-ENT-7", "BUS-FLOW-3")
def test_notifications_dropped_while_others_are_read_are_no_callbacks() -> None:
    with processes("one") as [one]:
        near = Near(one, capacity=5)
        scheduler = near.manager.scheduler
        before = scheduler.callbacks
        near.act = lambda number: near.post_run(*range(5, 10)) if not number else None
        near.post_run(*range(5))
        near.turn()
        assert scheduler.callbacks == before + 1
        settle(one)
        assert near.got == [0, *range(5, 10)]
        assert scheduler.callbacks == before + 6


@clause("BUS-DEREG-1")
@pytest.mark.parametrize("kind", ["notification", "command"])
def test_a_task_that_leaves_as_it_begins_a_batch_sends_no_more(
    two_processes: tuple[Bus, Bus], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Another thread deregisters it, and its own thread does not serve meanwhile.

    Only the command that was being sent may still be sent.
    """
    one, two = two_processes
    task, subscriber = notifier(one), Subscriber(two)
    two.register("doer", on_command=subscriber.on_news, thread=two.here())
    send: Callable[[bytes], object] = task.notify
    if kind == "command":
        send = lambda payload: task.command("doer", payload)  # noqa: E731
        send(b"0")
        serve(two, lambda: subscriber.numbers == [0], "the task is found")
    before = [*subscriber.numbers]
    require_host = Sender.require_host
    leave = [task.deregister]

    def then_leaves(sender: Sender) -> Any:
        host = require_host(sender)
        if leave and sender is task._sender:
            in_another_thread(leave.pop())
        return host

    monkeypatch.setattr(Sender, "require_host", then_leaves)
    if kind == "command":
        send(b"1")
        before.append(1)
    for number in range(2, 4):
        with pytest.raises(UnknownTaskError):
            send(str(number).encode())
    assert not leave
    monkeypatch.undo()
    settle(one)
    serve(two, lambda: subscriber.numbers == before, "all are read")
    settle(two)
    assert subscriber.numbers == before
