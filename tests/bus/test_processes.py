"""Tasks of several processes behave towards one another as in one process.

Links are in-process queues here (BUS-CHAN-1); all else is the code of real processes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    AddresseeGoneError,
    BusConfig,
    BusFullError,
    CommandTimeoutError,
    NameTakenError,
    UnresolvedError,
    Visibility,
)
from bus.testing import memory_bus
from queuebroker.testing import explore
from specs.clauses import clause
from tests.bus.support import There, far_apart
from tests.depth import schedules
from tests.kit.buses import processes
from tests.kit.comm_threads import comm_of, held
from tests.kit.constants import configured, set_constants
from tests.kit.inspection import info, unbalanced
from tests.kit.serving import serve
from tests.kit.tasks import echo
from tests.support import until

if TYPE_CHECKING:
    from bus import Bus, Incoming, Undelivered
    from queuebroker.testing import Run

# Narrow windows, with much room for unread messages.
NARROW = BusConfig(window=4, resolve_timeout_s=60.0)


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
    undelivered: list[Undelivered] = []
    sender = bus.register(
        "sender", thread=bus.here(), on_undelivered=undelivered.append
    )
    doer = there.register("doer")
    for number in range(3):
        sender.command(there.at("doer"), number)
    until(lambda: info(there.bus, "doer").commands.unread == 3, "all have arrived")

    doer.deregister(final=True)

    serve(bus, lambda: len(undelivered) == 3, "all have failed")
    assert [one.payload for one in undelivered] == [0, 1, 2]
    assert {type(one.error) for one in undelivered} == {AddresseeGoneError}


@clause("BUS-MOVE-4", "BUS-DEREG-4", "BUS-MSG-15")
@pytest.mark.parametrize("seed", range(3))
def test_commands_to_a_task_that_changes_process_arrive_once_and_in_order(
    seed: int,
) -> None:
    """Nothing is lost, repeated or overtaken, wherever the task is."""
    random, count = Random(seed), 300
    got: list[Any] = []
    set_constants(STREAM_WINDOW=16)
    with processes("one two three", NARROW) as buses:
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
    users = comm_of(buses[0]).remote.name_registry.users
    found = buses[0]._exchange.query(lambda: users.find(name))
    return found is not None


def is_free(name: str, buses: list[Bus]) -> bool:
    """Return True if no process knows an owner of the name."""
    found = [each._exchange.find(name) for each in buses]
    return not is_known(name, buses) and found == [None] * len(buses)


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
        with held(bus):
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


@pytest.mark.deep
@clause("BUS-DEREG-9", "BUS-FLOW-5")
@pytest.mark.parametrize("seed", range(4))
def test_each_command_has_one_outcome_whatever_tasks_do(seed: int) -> None:
    """Two machines, five processes: tasks come, go and answer, by the seed."""
    random = Random(seed)
    config = configured(
        window=8, task_fifo_messages=8, resolve_timeout_s=0.2, STREAM_WINDOW=64
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


@clause("BUS-CHAN-1", "BUS-FLOW-5")
def test_a_call_has_one_outcome_in_every_schedule() -> None:
    """Even if time passes at any moment, and the addressee leaves."""

    def program(run: Run) -> None:
        with processes("one two", None) as [one, two]:
            doer = two.register("doer", on_command=echo)
            leaving = run.spawn(lambda: doer.deregister(final=True))
            with suppress(AddresseeGoneError, UnresolvedError, CommandTimeoutError):
                assert one.call("doer", 3, timeout=1.0) == 3
            leaving.join()

    explore(program, bound=0, limit=schedules(50), random=schedules(150))


@clause("BUS-RELAY-8", "BUS-FLOW-3", "BUS-ENT-13")
def test_a_reader_misses_nothing_when_the_master_closes() -> None:
    """The master forwarded the subscription; the two others have their own link."""
    count = 300
    with processes("m n r", None) as [master, near, far]:
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
