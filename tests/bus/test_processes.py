"""Tasks of several processes behave towards one another as in one process.

Links are in-process queues here (BUS-CHAN-1); all else is the code of real processes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from random import Random
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from bus import (
    AddresseeGoneError,
    BusConfig,
    BusFullError,
    CommandTimeoutError,
    NameTakenError,
    UnresolvedError,
    Visibility,
)
from bus.api import bus as api
from bus.threads.verdict import Verdict
from queuebroker.testing import explore
from specs.clauses import clause
from tests.bus.support import (
    DISTANCES,
    NEAR,
    Holder,
    There,
    info,
    memory_bus,
    serve,
    unbalanced,
)
from tests.links.processes import comm_of
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Incoming, Overflow, Presence, Response, Undelivered
    from queuebroker.testing import Run

FAR = DISTANCES[len(NEAR) :]
far_apart = pytest.mark.parametrize("distance", FAR)

# Narrow windows, with much room for unread messages, or with little.
NARROW = BusConfig(window=4, stream_window=16, resolve_timeout_s=60.0)
SMALL = evolve(NARROW, task_fifo_messages=8)


def echo(message: Incoming) -> Any:
    return message.payload


@pytest.fixture
def small() -> Iterator[tuple[Bus, Bus]]:
    """Yield two processes with room for little."""
    with (
        memory_bus(config=SMALL) as one,
        memory_bus(process="two", beside=one, config=SMALL) as two,
    ):
        yield one, two


# Names.


@clause("BUS-INIT-15", "BUS-ROUTE-6")
@far_apart
def test_a_task_registered_before_the_other_process_joins_is_found(
    bus: Bus, distance: str
) -> None:
    bus.register("doer", thread=bus.thread(), on_command=echo)

    with There(bus, distance) as there:
        assert there.bus.call(there.back("doer"), 7) == 7


@clause("BUS-ROUTE-18", "BUS-MOVE-5")
@far_apart
def test_a_task_that_registers_later_receives_a_command_sent_before(
    bus: Bus, there: There
) -> None:
    sender = bus.register("sender", thread=bus.here())
    answers: list[Any] = []
    sender.command(there.at("doer"), 3, on_response=answers.append)

    there.register("doer", on_command=echo)

    serve(bus, lambda: answers, "it is answered")
    assert [(one.payload, one.error) for one in answers] == [(3, None)]


@clause("BUS-NAME-7")
def test_a_name_of_another_process_is_taken(bus: Bus) -> None:
    with There(bus, "other process") as there:
        there.register("doer", on_command=echo)
        assert bus.call("doer", 1) == 1

        with pytest.raises(NameTakenError, match="'doer'"):
            bus.register("doer")


@clause("BUS-NAME-7")
def test_machines_have_names_of_their_own(bus: Bus) -> None:
    with There(bus, "other machine") as there:
        there.register("doer", on_command=lambda _: "theirs")
        bus.register("doer", on_command=lambda _: "ours")

        assert [bus.call("doer"), bus.call("ism://far/doer")] == ["ours", "theirs"]


@clause("OPEN-3", "BUS-NAME-7", "BUS-INIT-15")
def test_registering_a_taken_name_raises_on_the_verdict_of_the_master(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """The name is unknown in this process; a rejected registration leaves no trace."""
    bus.register("doer", on_command=lambda _: "ours")
    with joined(bus) as there:
        with pytest.raises(NameTakenError, match="'doer'"):
            there.register("doer")

        until(lambda: not there.bus.tasks(), "it has left")
        assert there.bus.call("doer") == "ours"
    assert caplog.text == ""


@clause("OPEN-3")
def test_registering_within_a_callback_does_not_wait_for_the_verdict(
    bus: Bus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_VERDICT_S", 10 * LIMIT_S)
    bus.register("doer", on_command=lambda _: "ours")
    with joined(bus) as there:
        there.register("maker", on_command=lambda _: bool(there.register("doer")))

        with held_comm_thread(there.bus):
            assert there.bus.call("maker") is True
        until(lambda: "'doer' is deregistered" in caplog.text, "it is told")


@clause("OPEN-3")
def test_commands_sent_before_a_registration_are_read_after_the_verdict(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback usually uses its own task, which is returned by then."""
    seen: list[Any] = []
    waits = Verdict.wait

    def wait(verdict: Verdict, deadline: float) -> None:
        waits(verdict, deadline)
        behind = Event()
        there.thread._manager.ask(behind.set)
        assert behind.wait(LIMIT_S)
        assert seen == []

    with joined(bus) as there:
        bus.command("doer", 1)
        there.bus.command("doer", 1)
        monkeypatch.setattr(Verdict, "wait", wait)

        there.register("doer", on_command=lambda message: seen.append(message.payload))

        until(lambda: seen == [1, 1], "both are read")


@clause("OPEN-3")
def test_an_interrupt_while_waiting_for_a_verdict_registers_no_task(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with joined(bus) as there:
        monkeypatch.setattr(Verdict, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            there.register("doer")

        until(lambda: not there.bus.tasks(), "it has left")
        bus.register("doer")


@clause("BUS-MOVE-7")
def test_a_task_that_registered_too_late_raises_name_taken_when_used(
    bus: Bus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_VERDICT_S", 0.0)
    with There(bus, "other process") as there:
        with held_comm_thread(there.bus):
            bus.register("doer", on_command=lambda _: "ours")
            late = there.register("doer", on_command=lambda _: "theirs")

        until(lambda: "'doer' is deregistered" in caplog.text, "it is told")
        with pytest.raises(NameTakenError, match="'doer'"):
            late.command("nobody")
        assert there.bus.call("doer") == "ours"


@contextmanager
def joined(bus: Bus) -> Iterator[There]:
    """Yield another process that has found its master."""
    with There(bus, "other process") as there:
        until(lambda: comm_of(there.bus).remote.has_master, "it has joined")
        yield there


@contextmanager
def held_comm_thread(bus: Bus) -> Iterator[None]:
    """Block a process's comm thread, so that it neither sends nor receives."""
    held, go = Event(), Event()
    assert bus._comm is not None

    def hold() -> None:
        held.set()
        assert go.wait(LIMIT_S)

    bus._comm._relay_outbox.ask(hold)
    assert held.wait(LIMIT_S)
    try:
        yield
    finally:
        go.set()


@clause("BUS-INIT-9", "BUS-RELAY-5")
@far_apart
def test_a_private_task_is_answered_and_cannot_be_addressed(
    bus: Bus, there: There
) -> None:
    there.register("doer", on_command=echo)
    asker = bus.register("asker", thread=bus.here(), visibility=Visibility.PRIVATE)

    assert asker.call(there.at("doer"), 5) == 5

    with pytest.raises((UnresolvedError, CommandTimeoutError)):
        there.bus.call(there.back("asker"), timeout=0.05)


# Outcomes of commands.


@clause("BUS-ROUTE-19")
@far_apart
def test_a_call_to_a_name_in_no_process_is_unresolved(there: There) -> None:
    config = BusConfig(resolve_timeout_s=0.05)
    with (
        there.beside("brief", config) as brief,
        pytest.raises(UnresolvedError, match="no task has that name"),
    ):
        brief.call(there.at("nobody"))


@clause("BUS-DEREG-8")
@far_apart
def test_unread_commands_fail_when_their_task_deregisters_for_good(
    bus: Bus, there: There
) -> None:
    told: list[Undelivered] = []
    sender = bus.register("sender", thread=bus.here(), on_undelivered=told.append)
    doer = there.register("doer")
    for number in range(3):
        sender.command(there.at("doer"), number)
    until(lambda: info(there.bus, "doer").commands.unread == 3, "all have arrived")

    doer.deregister(final=True)

    serve(bus, lambda: len(told) == 3, "all have failed")
    assert [one.payload for one in told] == [0, 1, 2]
    assert {type(one.error) for one in told} == {AddresseeGoneError}


@clause("BUS-MOVE-4", "BUS-DEREG-4", "BUS-MSG-15")
@pytest.mark.parametrize("seed", range(3))
def test_commands_to_a_task_that_changes_process_arrive_once_and_in_order(
    seed: int,
) -> None:
    """Nothing is lost, repeated or overtaken, wherever the task is."""
    random, count = Random(seed), 300
    got: list[Any] = []
    with ExitStack() as stack:
        bus = stack.enter_context(memory_bus(config=NARROW))
        buses = [
            bus,
            *(
                stack.enter_context(memory_bus(process=name, beside=bus, config=NARROW))
                for name in ("two", "three")
            ),
        ]
        threads = [each.thread() for each in buses]

        def settle_in() -> Any:
            to = random.randrange(len(buses))
            return buses[to].register(
                "mover",
                thread=threads[to],
                on_command=lambda message: got.append(message.payload),
            )

        mover = settle_in()
        sender = buses[1].register("sender", thread=buses[1].here())
        sent = 0
        while sent < count:
            try:
                sender.command("mover", sent)
                sent += 1
            except BusFullError:
                buses[1].here().poll(0.001)
            if random.random() < 0.1:
                # A task that takes a name not known to be free may be evicted, even in
                # favour of one that has left and was not known before.
                until(lambda: is_known("mover", buses), "the master knows it")
                mover.deregister()
                until(lambda: is_free("mover", buses), "the name is free")
                mover = settle_in()

        serve(buses[1], lambda: len(got) >= count, "all have arrived")
        assert got == list(range(count))
        for each in buses:
            assert unbalanced(each.inspect()) == []


def is_known(name: str, buses: list[Bus]) -> bool:
    """Return True if the master, the first of the processes, knows the name's owner."""
    master = buses[0]._comm
    assert master is not None
    users = master.remote.name_registry.users
    found = buses[0]._exchange.query(lambda: users.find(name))
    return found is not None


def is_free(name: str, buses: list[Bus]) -> bool:
    """Return True if no process knows an owner of the name."""
    found = [each._exchange.find(name) for each in buses]
    return not is_known(name, buses) and found == [None] * len(buses)


@clause("BUS-FLOW-2", "BUS-RELAY-11")
def test_a_remote_receiver_that_does_not_read_holds_back_the_sender(
    small: tuple[Bus, Bus],
) -> None:
    """A command is refused once the task, the window and the relay are full."""
    one, two = small
    with Holder.holding(two, name="doer") as holder:
        sender = one.register("sender", thread=one.here())
        accepted, refused = [], 0
        for number in range(100):
            try:
                sender.command("doer", number)
                accepted.append(number)
            except BusFullError:
                refused += 1
            one.here().poll(0.001)
        assert len(accepted) <= 3 * 8 + 4 + 1  # parked, waiting, under way, unread
        assert refused > 0

        holder.let_go()
        until(lambda: len(holder.got) == len(accepted) + 1, "all have arrived")
        assert holder.got == ["hold", *accepted]


@clause("BUS-RELAY-11", "BUS-FLOW-1")
def test_the_bytes_in_flight_to_a_receiver_that_does_not_read_are_bounded() -> None:
    config = evolve(NARROW, window=100, window_bytes=100)
    with (
        memory_bus(config=config) as one,
        memory_bus(process="two", beside=one, config=config) as two,
        Holder.holding(two, name="doer") as holder,
    ):
        two.register("other", on_command=echo)
        sender = one.register("sender", thread=one.here())
        for number in range(10):
            sender.command("doer", bytes([number]) * 60)
        until(lambda: info(two, "doer").commands.unread == 2, "two are there")
        # This call is behind all messages under way to that process.
        assert sender.call("other", 1) == 1
        assert info(two, "doer").commands.unread == 2

        holder.let_go()
        until(lambda: len(holder.got) == 11, "all have arrived")
        assert [each[0] for each in holder.got[1:]] == list(range(10))


@clause("BUS-FLOW-6")
def test_a_policy_holds_wherever_the_sender_is(small: tuple[Bus, Bus]) -> None:
    one, two = small
    policies: tuple[Overflow, ...] = ("drop-oldest", "drop-newest")
    for policy in policies:
        with Holder.holding(two, name=policy, overflow=policy) as holder:
            told: list[Undelivered] = []
            sender = one.register(
                f"to-{policy}", thread=one.here(), on_undelivered=told.append
            )
            count = 200
            for number in range(count):
                sender.command(policy, number)
                one.here().poll(0)
            holder.let_go()

            def accounted() -> int:
                counters = info(two, policy).commands  # noqa: B023
                dropped = counters.dropped + counters.turned_away
                return counters.delivered + dropped + len(told)  # noqa: B023

            serve(one, lambda: accounted() == count + 1, "all are read or dropped")  # noqa: B023
            numbers = [each for each in holder.got if each != "hold"]
            assert numbers == sorted(set(numbers))
            kept = numbers[-1] if policy == "drop-oldest" else numbers[0]
            assert kept == (count - 1 if policy == "drop-oldest" else 0)
            assert all(isinstance(each.error, BusFullError) for each in told)


@clause("BUS-FLOW-6")
def test_a_plain_thread_waits_for_a_reader_elsewhere(small: tuple[Bus, Bus]) -> None:
    one, two = small
    with Holder.holding(two, name="doer", overflow="block") as holder:
        sender = one.register("sender", thread=one.thread())
        sender.command("doer", 0)
        until(lambda: info(two, "doer").commands.unread == 1, "the first is there")
        holder.let_go()

        for number in range(1, 500):
            sender.command("doer", number)

        until(lambda: len(holder.got) == 501, "all have arrived")
        assert holder.got == ["hold", *range(500)]


# Notifications.


@clause("BUS-RELAY-7", "BUS-RELAY-8", "AMO-28")
@far_apart
def test_a_subscriber_with_several_patterns_gets_a_remote_notification_once(
    bus: Bus, there: There
) -> None:
    heard: list[tuple[Any, int]] = []
    hearer = bus.register("hearer", thread=bus.here())
    for pattern in ("bells/*", "bells/one", "**"):
        hearer.subscribe(
            there.at(pattern),
            lambda one: heard.append((one.payload, len(one.subscriptions))),
        )
    bell = there.register("bells/one", on_command=echo)
    other = there.register("bells/two")
    # This answer comes after all subscriptions, which were sent before the question.
    hearer.call(there.at("bells/one"), 0)

    bell.notify("one")
    other.notify("two")

    serve(bus, lambda: len(heard) == 2, "both are heard")
    assert heard == [("one", 3), ("two", 2)]


@clause("BUS-MSG-9")
@far_apart
def test_a_subscriber_can_answer_a_notification(bus: Bus, there: There) -> None:
    answers: list[Response] = []
    bell = bus.register("bell", thread=bus.here(), on_command=echo)
    hearer = there.register("hearer", on_command=echo)
    hearer.subscribe(there.back("bell"), lambda one: one.respond("heard"))
    assert bell.call(there.at("hearer"), 1) == 1  # by then the subscription is known

    bell.notify("ring", on_response=answers.append, timeout=0.2)

    serve(bus, lambda: answers and answers[-1].final, "its time is up")
    assert [(one.payload, one.final) for one in answers] == [
        ("heard", False),
        (1, True),
    ]


# Presence.


@clause("BUS-DEREG-2", "BUS-INIT-8")
@far_apart
def test_a_watch_reports_remote_tasks_that_register_and_deregister(
    bus: Bus, there: There
) -> None:
    seen: list[tuple[str, bool]] = []
    there.register("bells/early")
    watcher = bus.register("watcher", thread=bus.here())

    def note(one: Presence) -> None:
        seen.append((one.address.module, one.here))

    watcher.watch(there.at("bells/*"), note)
    serve(bus, lambda: seen, "it sees who was there before")
    late = there.register("bells/late")
    serve(bus, lambda: len(seen) == 2, "it sees who comes")
    late.deregister()
    serve(bus, lambda: len(seen) == 3, "it sees who goes")
    watcher.watch(there.at("bells/early"), note)
    serve(bus, lambda: len(seen) == 4, "a second watch reports the present tasks")

    assert seen == [
        ("bells/early", True),
        ("bells/late", True),
        ("bells/late", False),
        ("bells/early", True),
    ]


@clause("BUS-DEREG-9")
@far_apart
def test_a_watch_reports_the_departure_of_a_task_when_its_process_ends(
    bus: Bus, distance: str
) -> None:
    seen: list[bool] = []
    watcher = bus.register("watcher", thread=bus.here())
    with There(bus, distance) as there:
        watcher.watch(there.at("doer"), lambda one: seen.append(one.here))
        there.register("doer")
        serve(bus, lambda: seen, "it is there")

    serve(bus, lambda: len(seen) == 2, "it is gone")
    assert seen == [True, False]


@clause("BUS-INIT-8")
@far_apart
def test_a_waiter_for_a_name_wakes_when_another_process_registers_it(
    bus: Bus, there: There
) -> None:
    with Threads() as threads:
        waiting = threads.start(bus.wait_for, there.at("doer"))
        doer = there.register("doer")

        assert waiting.result() == doer.address


# Processes.


@clause("BUS-ENT-11")
def test_a_relay_is_invisible_to_users(bus: Bus) -> None:
    with There(bus, "other process") as there:
        there.register("doer", on_command=echo)
        assert bus.call("doer", 1) == 1

        assert [each.address.module for each in bus.tasks()] == ["_script1"]
        with pytest.raises(NameTakenError):
            bus.register("doer")
        assert bus.call("doer", 2) == 2


@clause("BUS-RELAY-2", "BUS-RELAY-6", "BUS-MSG-10")
def test_to_send_does_not_wait_for_the_comm_thread(bus: Bus) -> None:
    got: list[Any] = []
    with There(bus, "other process") as there:
        there.register("doer", on_command=lambda one: got.append(one.payload))
        bus.call("doer", "first")
        sender = bus.register("sender", thread=bus.here())
        with held_comm_thread(bus):
            for number in range(100):
                sender.command("doer", number)
            assert got == ["first"]

        until(lambda: len(got) == 101, "all have arrived")
        assert got == ["first", *range(100)]


@clause("BUS-INIT-3")
def test_the_next_process_is_master_when_the_first_leaves() -> None:
    with ExitStack() as stack:
        with memory_bus(process="one") as one:
            two = stack.enter_context(memory_bus(process="two", beside=one))
            three = stack.enter_context(memory_bus(process="three", beside=one))
            three.register("doer", on_command=echo)
            assert two.call("doer", 1) == 1
        with memory_bus(process="four", beside=two) as four:
            assert four.call("doer", 2) == 2
            assert two.call("doer", 3) == 3


@clause("BUS-DEREG-9", "BUS-FLOW-5")
@pytest.mark.parametrize("seed", range(4))
def test_each_command_has_one_outcome_whatever_tasks_do(seed: int) -> None:
    """Two machines, five processes: tasks come, go and answer, by the seed."""
    random = Random(seed)
    config = BusConfig(
        window=8, stream_window=64, task_fifo_messages=8, resolve_timeout_s=0.2
    )
    taken: Counter[int] = Counter()
    outcomes: defaultdict[int, list[Any]] = defaultdict(list)
    with ExitStack() as stack:
        first = stack.enter_context(memory_bus(config=config))
        buses = [first] + [
            stack.enter_context(
                memory_bus(process=name, machine=machine, beside=first, config=config)
            )
            for machine, name in (
                *(("machine", "two"), ("machine", "three")),
                *(("far", "four"), ("far", "five")),
            )
        ]
        threads = [each.thread() for each in buses]

        def asked(message: Incoming) -> Any:
            taken[message.payload] += 1
            return message.payload

        senders = [
            each.register(f"sender{at}", thread=threads[at])
            for at, each in enumerate(buses)
        ]
        tasks: dict[str, Any] = {}
        sent = 0
        for _ in range(1500):
            name = f"task{random.randrange(4)}"
            if random.random() < 0.05:
                if name in tasks:
                    tasks.pop(name).deregister(final=random.random() < 0.2)
                    continue
                at = random.randrange(len(buses))
                try:
                    tasks[name] = buses[at].register(
                        name, thread=threads[at], on_command=asked
                    )
                except NameTakenError:
                    continue
                continue
            sent += 1
            machine = random.choice(["machine", "far"])
            try:
                random.choice(senders).command(
                    f"ism://{machine}/{name}",
                    sent,
                    on_response=outcomes[sent].append,
                    timeout=2.0,
                )
            except BusFullError as error:
                outcomes[sent].append(error)
        until(lambda: all(outcomes.values()), "each has its outcome")

        assert {len(each) for each in outcomes.values()} == {1}
        assert set(taken.values()) == {1}
        for number, [outcome] in outcomes.items():
            if getattr(outcome, "error", outcome) is None:
                assert outcome.payload == number
                assert taken[number] == 1
            elif isinstance(outcome, BusFullError):
                assert taken[number] == 0
        for each in buses:
            assert unbalanced(each.inspect()) == []


# Under the explorer.


@clause("BUS-CHAN-1")
def test_a_call_is_answered_by_another_process_in_every_schedule() -> None:
    # A deadline that passes early counts as a preemption; with these, none does.
    config = BusConfig(
        resolve_timeout_s=1e6, connect_timeout_s=1e6, relink_timeout_s=1e6
    )

    def program(_run: Run) -> None:
        with (
            memory_bus(config=config) as one,
            memory_bus(process="two", beside=one, config=config) as two,
        ):
            two.register("doer", on_command=echo)
            assert one.call("doer", 3, timeout=None) == 3

    explore(program, bound=1, limit=400, random=0)


@clause("BUS-CHAN-1", "BUS-FLOW-5")
def test_a_call_has_one_outcome_in_every_schedule() -> None:
    """Even if time passes at any moment, and the addressee leaves."""

    def program(run: Run) -> None:
        with memory_bus() as one, memory_bus(process="two", beside=one) as two:
            doer = two.register("doer", on_command=echo)
            leaving = run.spawn(lambda: doer.deregister(final=True))
            with suppress(AddresseeGoneError, UnresolvedError, CommandTimeoutError):
                assert one.call("doer", 3, timeout=1.0) == 3
            leaving.join()

    explore(program, bound=0, limit=50, random=150)


@clause("BUS-RELAY-8", "BUS-FLOW-3", "BUS-ENT-13")
def test_a_reader_misses_nothing_when_the_master_closes() -> None:
    """The master forwarded the subscription; the two others have their own link."""
    count = 300
    with (
        memory_bus(process="m") as master,
        memory_bus(process="n", beside=master) as near,
        memory_bus(process="r", beside=master) as far,
    ):
        news, reader = near.register("news"), far.register("reader")
        got: list[Any] = []
        gaps: list[int] = []

        def read(message: Incoming) -> None:
            gaps.append(message.gap)
            got.append(message.payload)

        reader.subscribe("news", read)

        def is_heard(number: int) -> bool:
            return got[-1:] == [number]

        def begins() -> bool:
            news.notify(-2)
            return bool(got)

        until(begins, "it hears")
        news.notify(-1)
        until(lambda: is_heard(-1), "it hears")
        got.clear()
        gaps.clear()
        for number in range(count):
            if number == 100:
                master.close()
            news.notify(number)
            if number % 20 == 0:  # keep the queue of the link below its bound
                until(partial(is_heard, number), "it hears")
        until(lambda: is_heard(count - 1), "it hears the last one")
        assert got == [*range(count)]
        assert set(gaps) == {0}
