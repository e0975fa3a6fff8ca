"""Names of any machine, ``ism://*/log``, through the public calls."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import attrs
import pytest

import bus as package
from bus import (
    Address,
    BusConfig,
    BusFullError,
    CommandTimeoutError,
    MovedError,
    Specification,
    UnknownTaskError,
    UnresolvedError,
    Visibility,
)
from bus.features.machines.any_machine import AnyMachineNames, Bind
from bus.features.machines.binding import send_bound, use_any_machine
from bus.kernel.tasks.remote import AnyMachine
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT, bindings
from tests.kit.tasks import Reader, unwanted
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Response, Undelivered

LOG = "ism://*/log"


@contextmanager
def machines(names: str, config: BusConfig = PATIENT) -> Iterator[list[Bus]]:
    """Yield one process, the master, on each machine."""
    buses: list[Bus] = []
    with ExitStack() as stack:
        for name in names.split():
            bus = memory_bus(
                process=f"master-{name}",
                machine=name,
                beside=buses[0] if buses else None,
                config=config,
            )
            buses.append(stack.enter_context(bus))
        yield buses


def is_quiet(bus: Bus) -> bool:
    """Return True if a process keeps no parked message and no search."""
    comm, manager = bus._node.comm, bus._exchange.manager
    searches = 0 if comm is None else len(comm.remote.resolver.ledger)
    return len(manager.parked) == searches == len(bindings(bus))


# Sending.


@clause("BUS-NAME-8", "BUS-ROUTE-21")
def test_calls_commands_and_answers_reach_a_name_of_any_machine() -> None:
    with machines("m1 m2 m3") as (one, two, three):
        reader = Reader(three, "log")
        address = Address.parse(LOG)

        assert one.call(LOG, 1) == 1
        assert one.call(address, 2) == 2
        assert two.call("ism://bus1@*/log", 3) == 3
        assert three.call(LOG, 4) == 4
        sender = two.register("sender", on_undelivered=unwanted)
        for number in range(5, 40):
            sender.command(address if number % 2 else LOG, bytes([number]))
        assert sender.call(LOG, "last") == "last"

        sent = [1, 2, 3, 4, *(bytes([each]) for each in range(5, 40)), "last"]
        assert reader.got == sent
        assert all(is_quiet(each) for each in (one, two, three))


@clause("BUS-NAME-8", "BUS-MSG-8")
def test_one_command_goes_to_names_of_any_machine_and_others() -> None:
    answers: list[Response] = []
    with machines("m1 m2") as (one, two):
        near, far = Reader(one, "near"), Reader(two, "log")
        sender = one.register("sender")

        sender.command(["near", LOG], "both", on_response=answers.append)

        until(lambda: len(answers) == 2, "both answer")
        assert (near.got, far.got) == (["both"], ["both"])
        responders = {str(each.responder) for each in answers}
        assert responders == {"ism://bus1@m1/near", "ism://bus1@m2/log"}


@clause("BUS-NAME-8")
def test_a_process_that_is_alone_is_any_machine() -> None:
    with memory_bus(config=PATIENT) as bus:
        sender = bus.register("sender", on_undelivered=unwanted)
        sender.command(LOG, 1)
        reader = Reader(bus, "log")
        sender.command(LOG, 2)
        assert bus.call(LOG, 3) == 3

        until(lambda: reader.got == [1, 2, 3], "all arrive in order")
        bus.register("own", visibility=Visibility.PRIVATE)
        with pytest.raises(UnresolvedError):
            bus.call("ism://*/own", timeout=0.0)


@clause("BUS-NAME-8", "BUS-ROUTE-19")
def test_a_name_that_no_machine_has_fails_with_an_error_that_says_so() -> None:
    undelivered: list[Undelivered] = []
    config = attrs.evolve(PATIENT, resolve_timeout_s=0.1)
    with machines("m1 m2", config) as (one, two):
        sender = one.register("sender", on_undelivered=undelivered.append)

        sender.command(LOG, 1)
        with pytest.raises(UnresolvedError, match="neither this machine nor any"):
            one.call(LOG, 2)

        until(lambda: len(undelivered) == 1, "it is reported")
        assert isinstance(undelivered[0].error, UnresolvedError)
        assert undelivered[0].to == LOG
        until(lambda: is_quiet(one) and is_quiet(two), "nothing is left")


@clause("BUS-NAME-8", "BUS-MOVE-9")
@pytest.mark.parametrize("follows", [True, False])
def test_after_the_task_has_moved_the_next_command_finds_it(follows: bool) -> None:
    with machines("m1 m2 m3", attrs.evolve(PATIENT, follow_moved_tasks=follows)) as (
        one,
        two,
        three,
    ):
        old = Reader(two, "log")
        assert one.call(LOG, 1) == 1
        new = Reader(three, "log")

        old.task.deregister(moved_to="ism://m3/log")
        until(lambda: one._exchange.find(LOG) is None, "the departure ends the binding")
        try:
            assert one.call("ism://m2/log", 2) == 2
        except MovedError:
            assert not follows
        assert one.call(LOG, 3) == 3

        assert new.got == ([2, 3] if follows else [3])
        assert old.got == [1]


@clause("BUS-NAME-8", "BUS-FLOW-1")
def test_a_message_without_room_at_the_task_fails_like_any_other() -> None:
    undelivered: list[Undelivered] = []
    with memory_bus(config=PATIENT) as bus:
        sender = bus.register("sender", on_undelivered=undelivered.append)
        for number in range(4):
            sender.command(LOG, number)
        log = bus.register("log", thread=bus.here(), capacity=2)

        until(lambda: len(undelivered) == 2, "two have no room")
        assert [each.payload for each in undelivered] == [2, 3]
        assert all(isinstance(each.error, BusFullError) for each in undelivered)
        assert [log.receive(0).payload for _ in range(2)] == [0, 1]
        assert is_quiet(bus)


@clause("BUS-NAME-8")
def test_a_process_knows_no_such_name_before_the_first_is_used() -> None:
    """So a process that uses none loads nothing for them."""
    with memory_bus(config=PATIENT) as bus:
        sender = bus.register("sender")
        sender.command("other", 1)
        assert type(bus._exchange.manager.any_machine) is AnyMachine

        sender.command(LOG, 1)

        names = bus._exchange.manager.any_machine
        assert type(names) is AnyMachineNames
        use_any_machine(bus._exchange)  # by another thread, at the same time
        assert bus._exchange.manager.any_machine is names


# Waiting for a name.


@clause("BUS-NAME-8")
def test_wait_for_returns_the_full_address_of_the_task() -> None:
    with machines("m1 m2") as (one, two):
        Reader(two, "log")
        assert str(one.wait_for(LOG)) == "ism://bus1@m2/log"
        assert str(one.wait_for(Address.parse(LOG))) == "ism://bus1@m2/log"
        assert str(two.wait_for(LOG)) == "ism://bus1@m2/log"
        assert is_quiet(one)


@clause("BUS-NAME-8")
@pytest.mark.parametrize("at", [0, 1])
def test_wait_for_waits_until_a_task_takes_the_name(at: int) -> None:
    """Longer than a message would wait for its addressee."""
    config = attrs.evolve(PATIENT, resolve_timeout_s=0.02)
    with machines("m1 m2", config) as buses, Threads() as threads:
        waiting = threads.start(buses[0].wait_for, LOG, LIMIT_S)
        parked = buses[0]._exchange.manager.parked
        until(lambda: parked.parked >= 3, "it has searched three times")

        Reader(buses[at], "log")

        assert waiting.result(LIMIT_S).machine == f"m{at + 1}"
        until(lambda: all(map(is_quiet, buses)), "nothing is left")


@clause("BUS-NAME-8")
def test_wait_for_still_takes_a_pattern_of_one_machine() -> None:
    with memory_bus(config=PATIENT) as bus:
        Reader(bus, "log/a")
        assert bus.wait_for("log/*").module == "log/a"
        assert bus.wait_for("ism://bus1@*/log/a").module == "log/a"
        with pytest.raises(ValueError, match="is no address"):
            bus.wait_for("ism://*/log/*")
        with pytest.raises(
            CommandTimeoutError, match=r"no task found under .* 'log/b'"
        ):
            bus.wait_for("log/b", timeout=0.01)


@clause("BUS-NAME-8")
def test_a_wait_that_times_out_leaves_nothing() -> None:
    with machines("m1 m2") as (one, two):
        with pytest.raises(
            CommandTimeoutError, match=r"no task found under .* 'ism://\*/log"
        ):
            one.wait_for(LOG, timeout=0.05)

        assert len(one._exchange.manager.parked) == 0
        until(lambda: is_quiet(one) and is_quiet(two), "no search is left")
        assert one._exchange.manager.parked.given_up == 1


@clause("BUS-NAME-8")
def test_a_wait_that_an_interrupt_ends_leaves_no_search() -> None:
    """Not even one that would go on for long."""

    def interrupt(_: package.Incoming) -> None:
        raise KeyboardInterrupt

    with machines("m1 m2") as (one, two):
        one.register("own", thread=one.here(), on_command=interrupt)
        one.command("own", 1)

        with pytest.raises(KeyboardInterrupt):
            one.wait_for(LOG, timeout=None)

        assert is_quiet(one)
        until(lambda: is_quiet(two), "the search is cancelled")


@clause("BUS-NAME-8", "BUS-DEREG-12")
def test_a_wait_ends_when_its_bus_is_closed() -> None:
    with machines("m1 m2") as (one, two), Threads() as threads:
        waiting = threads.start(one.wait_for, LOG, None)
        until(lambda: len(one._exchange.manager.parked) == 1, "it waits")

        one.close(drain=0)

        with pytest.raises(UnknownTaskError):
            waiting.result(LIMIT_S)
        assert len(one._exchange.manager.parked) == 0
        until(lambda: is_quiet(two), "the search is cancelled")


@clause("BUS-NAME-8", "BUS-DEREG-10")
def test_a_task_that_leaves_takes_its_search_along() -> None:
    with machines("m1 m2", attrs.evolve(PATIENT, resolve_timeout_s=0.2)) as (one, two):
        sender = one.register("sender")
        sender.command(LOG, 1)
        comm = two._node.comm
        assert comm is not None
        until(lambda: len(comm.remote.resolver.ledger) == 1, "it searches")

        sender.deregister()

        until(lambda: len(comm.remote.resolver.ledger) == 0, "it is cancelled")
        until(lambda: is_quiet(one), "nothing is left")


# What takes no such name.


@clause("BUS-NAME-8")
def test_subscriptions_and_watches_name_their_machine() -> None:
    with memory_bus() as bus:
        task = bus.register("task")
        for act in (task.subscribe, task.watch):
            with pytest.raises(ValueError, match="must name one machine, or none"):
                act(LOG, unwanted)
        with pytest.raises(ValueError, match="must name one machine, or none"):
            Specification.parse("ism://*/log/*")
        with pytest.raises(ValueError, match="moved_to must be an address of another"):
            task.deregister(moved_to=LOG)


@clause("BUS-NAME-8", "BUS-NAME-1")
@pytest.mark.parametrize("text", ["ism://*/log", "ism://bus1@*/a/b"])
def test_an_address_of_any_machine_is_parsed_and_written(text: str) -> None:
    address = Address.parse(text)
    assert address.machine == "*"
    assert str(address) == text
    assert Address.parse(str(address)) == address


@clause("BUS-NAME-1", "BUS-NAME-6")
@pytest.mark.parametrize("text", ["ism://**/log", "ism://m*/log", "ism://*/l*g"])
def test_no_other_star_is_part_of_an_address(text: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        Address.parse(text)


@clause("BUS-NAME-8")
def test_a_message_is_taken_out_before_it_is_sent() -> None:
    """So that an interrupt, after which the action begins again, doubles none."""
    with memory_bus(config=PATIENT) as bus:
        sender = bus.register("sender")
        for number in range(3):
            sender.command(LOG, number)
        manager, entry = bus._exchange.manager, sender._entry
        [bind] = manager.any_machine.on_found(LOG, entry)
        assert isinstance(bind, Bind)
        sent: list[int] = []

        def send(message: package.Incoming) -> None:
            sent.append(message.payload)
            if message.payload == 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            send_bound(bind, send)
        send_bound(bind, send)

        assert sent == [0, 1, 2]
