"""BUS-FLOW-7: each message's outcome is reported, and the accounts balance."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from bus import (
    Bus,
    BusFullError,
    CommandTimeoutError,
    Incoming,
    Response,
    Undelivered,
    UnknownTaskError,
)
from bus.testing import memory_bus
from specs.clauses import clause
from tests.bus.support import POLICIES
from tests.kit.constants import configured
from tests.kit.inspection import fallen, info, unbalanced
from tests.kit.serving import serve, settle
from tests.support import Threads, until

if TYPE_CHECKING:
    from bus import Overflow, Task


COMMANDS = st.tuples(
    st.just("command"), st.integers(0, 2), st.sampled_from(["t0", "t1", "t2", "no"])
)
STEPS = st.lists(
    st.one_of(
        COMMANDS,
        st.tuples(st.just("notify"), st.integers(0, 2), st.just("")),
        st.tuples(st.just("poll"), st.integers(1, 3), st.just("")),
        st.tuples(st.just("leave"), st.integers(0, 2), st.sampled_from(["", "final"])),
        st.tuples(st.just("read"), st.integers(0, 2), st.just("")),
        st.tuples(st.just("cancel"), st.integers(0, 2), st.just("")),
    ),
    max_size=40,
)


class World:
    """Three tasks of one thread, driven by commands; some of them never read."""

    def __init__(self, bus: Bus, policies: list[Overflow], capacity: int) -> None:
        self.bus = bus
        self.capacity = capacity
        self.policies = policies
        self.outcomes: dict[int, int] = {}
        self.undelivered: dict[int, int] = {}
        self.refused: set[int] = set()
        self.delivered: dict[int, int] = {}
        self.abandoned: set[int] = set()
        self.by: dict[int, int] = {}
        self.tasks: list[Task] = []
        self.subscriptions: list[Any] = []
        for number in range(3):
            self.tasks.append(self._register(number))

    def _register(self, number: int) -> Task:
        def undelivered(what: Undelivered) -> None:
            assert isinstance(what.payload, int)
            self.undelivered[what.payload] = self.undelivered.get(what.payload, 0) + 1

        task = self.bus.register(
            f"t{number}",
            thread=self.bus.here(),
            overflow=self.policies[number],
            capacity=self.capacity,
            on_command=None if number == 2 else self._got,
            on_undelivered=undelivered,
        )
        subscription = task.subscribe(
            "*",
            lambda _: None,
            overflow=self.policies[number],
            capacity=self.capacity,
        )
        self.subscriptions.append(subscription)
        return task

    def _got(self, message: Incoming) -> None:
        assert isinstance(message.payload, int)
        self.delivered[message.payload] = self.delivered.get(message.payload, 0) + 1

    def step(self, act: str, number: int, how: str) -> None:
        if act == "poll":
            for _ in range(number):
                self.bus.here().poll(0)
            return
        task = self.tasks[number]
        if act == "command":
            self._command(task, number, how)
        elif act == "notify":
            with suppress(BusFullError, UnknownTaskError):
                task.notify()
        elif act == "read":
            with suppress(CommandTimeoutError, RuntimeError, UnknownTaskError):
                message = task.receive(0)
                self._got(message)
                if message.wants_reply:  # no callback returns the answer
                    message.respond()
        elif act == "cancel":
            self.subscriptions[number].cancel()
        else:
            self.abandoned |= {each for each, who in self.by.items() if who == number}
            task.deregister(final=how == "final")
            self.tasks[number] = self._register(number)

    def _command(self, task: Task, number: int, to: str) -> None:
        mark = len(self.by)
        asks = mark % 2 == 0

        def received(response: Response) -> None:
            self.outcomes[mark] = self.outcomes.get(mark, 0) + 1

        try:
            task.command(to, mark, on_response=received if asks else None, timeout=None)
        except BusFullError:
            self.refused.add(mark)
        except UnknownTaskError:  # cut off by the policy `disconnect`
            self.refused.add(mark)
        self.by[mark] = number


@clause("BUS-FLOW-5", "BUS-FLOW-7", "BUS-FLOW-9")
@given(
    policies=st.lists(st.sampled_from(POLICIES), min_size=3, max_size=3),
    capacity=st.integers(1, 3),
    steps=STEPS,
)
def test_the_counters_balance_after_each_step_and_each_message_has_one_end(
    policies: list[Overflow], capacity: int, steps: list[tuple[str, int, str]]
) -> None:
    config = configured(resolve_timeout_s=0.001, PARKED_PER_NAME=3)
    with memory_bus(config=config) as bus:
        world = World(bus, policies, capacity)
        before = bus.inspect().totals
        for act, number, how in steps:
            world.step(act, number, how)
            assert unbalanced(bus.inspect()) == []
            assert fallen(before, before := bus.inspect().totals) == []
            for task in bus.tasks():
                assert task.commands.unread <= capacity
                for each in task.subscriptions:
                    assert each.notifications.unread <= capacity
        serve(bus, lambda: "no" not in bus.inspect().parked, "nobody is given up")
        settle(bus)
        parked = sum(bus.inspect().parked.values())
        unread = sum(task.commands.unread for task in bus.tasks())

        for mark, who in world.by.items():
            ends = (
                world.outcomes.get(mark, 0)
                if mark % 2 == 0
                else world.undelivered.get(mark, 0) + world.delivered.get(mark, 0)
            )
            if mark in world.refused:
                assert ends == 0
            elif not (parked or unread or mark in world.abandoned):
                assert ends == 1, (mark, who)
            else:
                assert ends <= 1, (mark, who)
            assert world.delivered.get(mark, 0) <= 1


@clause("BUS-FLOW-7")
def test_the_counters_balance_between_threads_when_all_is_quiet(bus: Bus) -> None:
    thread = bus.thread()
    for number, policy in enumerate(POLICIES):
        task = bus.register(
            f"t{number}",
            thread=thread,
            overflow=policy,
            capacity=4,
            on_command=lambda _: None,
        )
        task.subscribe("notifier", lambda _: None, overflow=policy, capacity=4)
    notifier = bus.register("notifier", thread=bus.here())
    sent = 100

    def sends(name: str) -> int:
        """Send commands; return how many were refused."""
        refused = 0
        for _ in range(sent):
            try:
                bus.command(name)
            except BusFullError:
                refused += 1
        return refused

    with Threads() as threads:
        running = {
            name: threads.start(sends, name) for name in ["t0", "t1", "t2", "t3"]
        }
        for _ in range(sent):
            with suppress(BusFullError):
                notifier.notify()
    refused = {name: each.result() for name, each in running.items()}

    def quiet() -> bool:
        return all(
            not task.commands.unread
            and not any(each.notifications.unread for each in task.subscriptions)
            for task in bus.tasks()
        )

    until(quiet, "all is read")
    assert unbalanced(bus.inspect()) == []
    for name, count in refused.items():
        counters = info(bus, name).commands
        never = counters.refused if name == "t2" else 0
        assert counters.accepted + never == sent - count
        assert counters.delivered + counters.dropped == counters.accepted


@clause("BUS-FLOW-9")
def test_the_sums_keep_departed_tasks_and_cancelled_subscriptions(bus: Bus) -> None:
    here = bus.here()
    notifier = bus.register("notifier", thread=here)
    notifier.notify("no subscriber")
    for number in range(3):
        name = f"t{number}"
        task = bus.register(name, thread=here, on_command=lambda m: 1 / m.payload)
        for _ in range(10):
            subscription = task.subscribe("notifier", lambda _: None)
            notifier.notify()
            subscription.cancel()
            settle(bus)
        notifier.command(name, 0)
        settle(bus)
        notifier.command(name, 1)
        task.deregister()
    notifier.deregister()
    settle(bus)

    totals = bus.inspect().totals

    assert bus.tasks() == ()
    assert (totals.commands.accepted, totals.commands.delivered) == (6, 3)
    assert (totals.commands.returned, totals.commands.unread) == (3, 0)
    assert (totals.notifications.accepted, totals.notifications.returned) == (30, 30)
    assert (totals.failures, totals.no_subscriber) == (3, 1)
