"""BUS-FLOW: bounds, overflow, and accounts that balance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    Bus,
    BusConfig,
    BusFullError,
    Incoming,
    Response,
)
from bus.testing import memory_bus
from queuebroker.testing import explore
from specs.clauses import clause
from tests.bus.support import NEAR, POLICIES, far
from tests.kit.constants import configured
from tests.kit.inspection import info, unbalanced
from tests.kit.serving import serve, settle
from tests.kit.tasks import Holder, unwanted
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from bus import Counters, Overflow, Task
    from queuebroker.testing import Run


def heard_counters(bus: Bus, name: str) -> Counters:
    [subscription] = info(bus, name).subscriptions
    return subscription.notifications


# Bounds.


@clause("BUS-FLOW-1")
@pytest.mark.parametrize("distance", NEAR)
def test_a_task_has_no_more_unread_than_its_capacity(distance: str) -> None:
    config = BusConfig(task_fifo_messages=3)
    with memory_bus(config=config) as bus:
        there = far(bus, distance)
        bus.register("usual", thread=there)
        bus.register("small", thread=there, capacity=1)
        sender = bus.register("sender", thread=bus.here())
        for name, limit in (("usual", 3), ("small", 1)):
            for _ in range(limit):
                sender.command(name)
            for _ in range(5):
                with pytest.raises(BusFullError) as caught:
                    sender.command(name)
                assert caught.value.what == f"task '{name}'"
                assert (caught.value.limit, caught.value.unit) == (limit, "messages")
            counters = info(bus, name).commands
            assert (counters.accepted, counters.unread) == (limit, limit)


@clause("BUS-FLOW-1")
@pytest.mark.parametrize("distance", NEAR)
def test_a_task_has_no_more_bytes_unread_than_the_limit(distance: str) -> None:
    config = BusConfig(task_fifo_bytes=1000)
    with memory_bus(config=config) as bus:
        bus.register("task", thread=far(bus, distance))
        sender = bus.register("sender", thread=bus.here())
        sender.command("task", bytes(600))
        with pytest.raises(BusFullError, match="full: 1000 bytes"):
            sender.command("task", bytes(600))
        sender.command("task", bytes(300))

        assert 900 < info(bus, "task").commands.unread_bytes <= 1000


@clause("BUS-FLOW-1")
def test_one_message_always_fits_where_nothing_is() -> None:
    with memory_bus(config=BusConfig(task_fifo_bytes=100)) as bus:
        task = bus.register("task", thread=bus.here())
        bus.command("task", bytes(1000))
        assert task.receive(0).payload == bytes(1000)


@clause("BUS-FLOW-1")
def test_parked_messages_are_bounded_for_each_name_and_in_all() -> None:
    config = configured(PARKED_PER_NAME=2, PARKED_PER_PROCESS=3)
    with memory_bus(config=config) as bus:
        sender = bus.register("sender", thread=bus.here())
        sender.command("x")
        sender.command("x")
        with pytest.raises(BusFullError, match="parked list of 'x' is full: 2"):
            sender.command("x")
        sender.command("y")
        with pytest.raises(BusFullError, match="parked list is full: 3"):
            sender.command("z")
        assert bus.inspect().parked == {"x": 2, "y": 1}


@clause("BUS-FLOW-1")
@pytest.mark.parametrize("reads", [True, False], ids=["callback", "no callback"])
@pytest.mark.parametrize("distance", NEAR)
def test_a_dropped_command_takes_no_room(bus: Bus, distance: str, reads: bool) -> None:
    task = bus.register("task", thread=bus.here(), capacity=1, overflow="drop-oldest")
    if reads:
        task.on_command(lambda _: None)

    def sends() -> None:
        sender = bus.register("sender", thread=bus.here())
        for number in range(1000):
            sender.command("task", number)
            if not reads and distance == "same thread":
                settle(bus)

    if distance == "same thread":
        sends()
    else:
        with Threads() as threads:
            threads.start(sends)
    settle(bus)

    # Counted by the items held, not by the accounts.
    kept = [task._entry.mailbox.items, task._receiver._unclaimed]
    assert sum(len(each or ()) for each in kept) < 200
    assert info(bus, "task").commands.unread == (0 if reads else 1)


# Full: refusal, or waiting.


@clause("BUS-FLOW-2")
@pytest.mark.parametrize("distance", NEAR)
@pytest.mark.parametrize("asks", [True, False])
def test_sending_to_a_full_task_raises_at_once(
    bus: Bus, distance: str, asks: bool
) -> None:
    bus.register("task", thread=far(bus, distance), capacity=1)
    sender = bus.register("sender", thread=bus.here())
    sender.command("task")

    with pytest.raises(BusFullError):
        sender.command("task", on_response=unwanted if asks else None)

    settle(bus)
    assert info(bus, "sender").questions == 0
    assert info(bus, "task").commands.accepted == 1


@clause("BUS-FLOW-2", "BUS-FLOW-6")
def test_a_plain_thread_waits_for_room(bus: Bus) -> None:
    with Holder.holding(bus, capacity=1, overflow="block") as holder:
        sender = bus.register("sender", thread=bus.here())
        sender.command("holder", 1)
        with Threads() as threads:
            waiter = threads.start(sender.command, "holder", 2)
            until(lambda: _waits(holder), "it waits for room")
            assert not waiter.done
            holder.let_go()
        until(lambda: holder.got == ["hold", 1, 2], "all have arrived")


def _waits(holder: Holder) -> bool:
    return len(holder.thread._manager.inbox.room) > 0


@clause("BUS-FLOW-2", "BUS-FLOW-6")
def test_a_plain_thread_waits_no_longer_than_the_limit() -> None:
    with (
        memory_bus(config=BusConfig(send_timeout_s=0.01)) as bus,
        Holder.holding(bus, capacity=1, overflow="block"),
    ):
        sender = bus.register("sender", thread=bus.here())
        sender.command("holder", 1)

        with pytest.raises(BusFullError):
            sender.command("holder", 2)


@clause("BUS-FLOW-2", "BUS-FLOW-6")
@pytest.mark.parametrize("within", ["callback", "call_soon", "timeout"])
def test_a_callback_never_waits_for_room(within: str) -> None:
    config = BusConfig(send_timeout_s=LIMIT_S)
    with (
        memory_bus(config=config) as bus,
        Holder.holding(bus, capacity=1, overflow="block"),
    ):
        errors: list[type] = []

        def sends(_: object = None) -> None:
            with pytest.raises(BusFullError) as caught:
                sender.command("holder", 2)
            errors.append(caught.type)

        sender = bus.register("sender", thread=bus.here(), on_command=sends)
        sender.command("holder", 1)
        if within == "callback":
            sender.command("sender")
        elif within == "call_soon":
            bus.here().call_soon(sends)
        else:
            sender.command("sender", on_response=sends, timeout=0)

        serve(bus, lambda: errors, "it is reported")


@clause("BUS-FLOW-2", "BUS-FLOW-6")
def test_a_thread_does_not_wait_for_itself(bus: Bus) -> None:
    bus.register("task", thread=bus.here(), capacity=1, overflow="block")
    bus.command("task")

    with pytest.raises(BusFullError):
        bus.command("task")


@clause("BUS-FLOW-2")
def test_a_sender_waiting_for_room_resolves_again_if_the_task_deregisters(
    bus: Bus,
) -> None:
    """It resolves the name again; its message is then parked with the others."""
    with Holder.holding(bus, capacity=1, overflow="block") as holder:
        sender = bus.register("sender", thread=bus.here())
        sender.command("holder", 1)
        with Threads() as threads:
            threads.start(sender.command, "holder", 2)
            until(lambda: _waits(holder), "it waits for room")
            holder.task.deregister()
            holder.let_go()
    got: list[Any] = []
    bus.register("holder", on_command=lambda message: got.append(message.payload))
    until(lambda: got == [1, 2], "both have arrived")


# Slow readers.


@clause("BUS-FLOW-3")
def test_a_slow_subscriber_loses_its_oldest_and_gets_their_number() -> None:
    with memory_bus(config=BusConfig(task_fifo_messages=10)) as bus:
        notifier = bus.register("notifier", thread=bus.here())
        prompt: list[list[Any]] = [[] for _ in range(4)]
        for number, got in enumerate(prompt):
            reader = bus.register(f"r{number}", thread=bus.here())
            reader.subscribe("notifier", got.append)
        slow: list[Incoming] = []
        with Holder.holding(bus) as holder:
            hears = holder.task.subscribe("notifier", slow.append)
            for number in range(100):
                notifier.notify(number)
                settle(bus)
            assert heard_counters(bus, "holder").unread == 10
        serve(bus, lambda: len(slow) == 10, "the slow one reads what is left")
        notifier.notify(100)
        serve(bus, lambda: len(slow) == 11, "and goes on")

        assert [one.payload for one in slow] == [*range(90, 101)]
        assert [one.gap for one in slow] == [90] + [0] * 10
        assert hears.dropped == 90
        for got in prompt:
            assert [(one.payload, one.gap) for one in got] == [
                (number, 0) for number in range(101)
            ]


# Answers.


@clause("BUS-FLOW-4")
@pytest.mark.parametrize("policy", POLICIES)
def test_an_answer_finds_room_where_nothing_else_does(
    bus: Bus, policy: Overflow
) -> None:
    notifier = bus.register("notifier", thread=bus.here())
    bus.register("doer", thread=bus.here(), on_command=lambda _: "done")
    asker = bus.register("asker", thread=bus.here(), capacity=1)
    asker.subscribe("notifier", lambda _: None, overflow=policy, capacity=1)
    answers: list[Response] = []
    for _ in range(20):
        asker.command("doer", on_response=answers.append)
    notifier.command("asker")
    for _ in range(5):
        try:
            notifier.notify()
        except BusFullError:
            assert policy in {"block", "error"}

    settle(bus)

    assert [one.payload for one in answers] == ["done"] * 20


# Policies, to the message.


@clause("BUS-FLOW-6")
@pytest.mark.parametrize("distance", NEAR)
@pytest.mark.parametrize("policy", POLICIES)
def test_each_overflow_policy_of_a_subscription_acts_as_named(
    distance: str, policy: Overflow
) -> None:
    with memory_bus(config=BusConfig(send_timeout_s=0)) as bus:
        got: list[Incoming] = []
        refused: list[int] = []
        uninvolved: list[Any] = []
        notifier = bus.register("notifier", thread=bus.here())
        other = bus.register("other", thread=bus.here())
        other.subscribe("notifier", lambda one: uninvolved.append(one.payload))
        with Holder.holding(bus) as holder:
            reader = bus.register(
                "reader",
                thread=holder.thread if distance == "other thread" else bus.here(),
            )
            hears = reader.subscribe(
                "notifier", got.append, overflow=policy, capacity=3
            )
            for number in range(8):
                try:
                    notifier.notify(number)
                except BusFullError:
                    refused.append(number)
        bus.call("holder", timeout=LIMIT_S)
        settle(bus)
        active = hears.active
        notifier.notify(8)
        bus.call("holder", timeout=LIMIT_S)
        serve(bus, lambda: len(uninvolved) == 9, "the others are served")
        settle(bus)

        seen = [(one.payload, one.gap) for one in got]
        first = [(0, 0), (1, 0), (2, 0)]
        assert uninvolved == [*range(9)]
        if policy == "disconnect":
            assert (seen, refused, active) == ([], [], False)
            return
        assert active
        assert (
            seen
            == {
                "block": [*first, (8, 0)],
                "error": [*first, (8, 0)],
                "drop-oldest": [(5, 5), (6, 0), (7, 0), (8, 0)],
                "drop-newest": [*first, (8, 5)],
            }[policy]
        )
        assert refused == ([3, 4, 5, 6, 7] if policy in {"block", "error"} else [])
        counters = heard_counters(bus, "reader")
        assert counters.delivered == 4
        assert counters.dropped == (5 if policy == "drop-oldest" else 0)
        assert hears.dropped == (5 if policy.startswith("drop") else hears.dropped)
        assert unbalanced(bus.inspect()) == []


@clause("BUS-FLOW-6")
def test_a_subscriber_that_blocks_its_notifier_blocks_no_other() -> None:
    """Two notifiers; a reader of one of them blocks and does not read."""

    def program(run: Run) -> None:
        with memory_bus(config=BusConfig(send_timeout_s=60)) as bus:
            got: list[Any] = []
            slow = bus.register("slow", thread=bus.here())
            held = bus.register("held", thread=bus.here())
            free = bus.register("free", thread=bus.here())
            slow.subscribe("held", got.append, overflow="block", capacity=1)
            bus.register("reader", thread=bus.here()).subscribe("free", got.append)
            settle(bus)

            def notifies(task: Task) -> None:
                for number in range(2):
                    task.notify(number)

            first = run.spawn(notifies, held)
            second = run.spawn(notifies, free)
            second.join()
            while len(got) < 4:
                bus.here().poll(None)
            first.join()

    explore(program, bound=0, random=0)


@clause("BUS-FLOW-3", "BUS-ENT-7")
@pytest.mark.parametrize("distance", NEAR)
def test_a_task_reads_though_its_fifo_is_filled_between_all_of_its_turns(
    distance: str,
) -> None:
    """One command at each turn: dropped ones cost none, and do not accumulate."""
    with memory_bus() as bus, Threads() as threads:
        got, here = list[int](), bus.here()
        task = bus.register(
            "task",
            on_command=lambda message: got.append(message.payload),
            thread=here,
            capacity=2,
            overflow="drop-oldest",
        )
        sender = bus.register("sender", thread=far(bus, distance))

        def send() -> None:
            for number in range(5):
                sender.command("task", number)

        for _ in range(100):
            if distance == "same thread":
                send()
            else:
                threads.start(send).result(LIMIT_S)
            here.poll(0)

        assert got == [3] * 100
        assert len(task._entry.mailbox.items or ()) < 10
