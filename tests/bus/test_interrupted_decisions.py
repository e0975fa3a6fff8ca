"""An interrupt of a decision loses no parked message and no report of a failure."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import bus as package
from bus import (
    NOREPLY,
    CommandTimeoutError,
    InDoubtError,
    MovedError,
    NameTakenError,
    UnresolvedError,
)
from bus.features.machines.any_machine import Bind
from bus.features.machines.binding import send_bound
from bus.kernel.tasks.actions import Fail
from bus.kernel.tasks.parked_list import Parked, ParkedList
from bus.model.message import Incoming, Kind
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT, bindings, join_both
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus, BusThread, Response, Task, Undelivered
    from bus.process.exchange import Exchange
    from tests.strikes import Blow

LOG = "ism://*/log"
NUMBERS = [0, 1, 2]


class Sender:
    """A task whose failures are kept, whether its commands ask for answers or not.

    errors: the errors by payload, in the order of the reports.
    """

    def __init__(self, bus: Bus, *, asks: bool = False) -> None:
        self.here = bus.here()
        self.errors: list[tuple[Any, Exception]] = []
        self.task: Task = bus.register(
            "sender", thread=self.here, on_undelivered=self._on_undelivered
        )
        self._asks = asks

    def _on_undelivered(self, each: Undelivered) -> None:
        self.errors.append((each.payload, each.error))

    def send(self, to: str, payload: Any, **more: Any) -> None:
        def on_response(response: Response) -> None:
            if response.error is not None:
                self.errors.append((payload, response.error))

        if self._asks:
            more["on_response"] = on_response
        self.task.command(to, payload, **more)

    def failed(self) -> list[Any]:
        """Serve the task, and return the payloads reported since the last call."""
        while self.here.poll(0):
            pass
        failed = [payload for payload, _ in self.errors]
        self.errors.clear()
        return failed

    @property
    def counted(self) -> int:
        return self.task._receiver.delivery_failures.undelivered

    @property
    def late(self) -> int:
        return self.task._receiver.asker.late


def interrupt_everywhere(run: Callable[[], None]) -> None:
    """Run a test in a thread of its own, which serves the bus."""
    with Threads() as threads:
        threads.start(run).result(LIMIT_S)


def read_all(task: Task) -> list[Any]:
    got: list[Any] = []
    with suppress(CommandTimeoutError):
        while True:
            got.append(task.receive(0).payload)
    return got


def expire_all(exchange: Exchange) -> None:
    def expire() -> list[Any]:
        exchange.manager.expire(math.inf, exchange._todo)
        return []

    exchange.decide(expire)


asks_or_not = pytest.mark.parametrize("asks", [False, True])


# Messages that are given up.


@pytest.mark.deep
@clause("BUS-ROUTE-19")
@asks_or_not
def test_an_interrupt_of_an_expiry_loses_no_report(*, asks: bool) -> None:
    """Wherever it comes, each sender gets one report, after the next expiry."""

    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            sender, exchange = Sender(bus, asks=asks), bus._exchange

            def expire() -> None:
                expire_all(exchange)

            def case(interrupted: Blow) -> None:
                before = sender.counted
                for number in NUMBERS:
                    sender.send(f"nobody{number % 2}", number)

                interrupted(expire)

                assert len(exchange.manager.parked) == sum(
                    exchange.manager.parked.waiting().values()
                )
                expire()
                assert sorted(sender.failed()) == NUMBERS
                assert len(exchange.manager.parked) == 0
                assert sender.counted - before == (0 if asks else len(NUMBERS))
                assert sender.late == 0

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)


@pytest.mark.deep
@clause("BUS-DEREG-12")
@asks_or_not
def test_an_interrupted_close_fails_the_messages_of_other_buses_once(
    *, asks: bool
) -> None:
    def run() -> None:
        with (
            memory_bus("one", config=PATIENT) as one,
            memory_bus("two", config=PATIENT) as two,
        ):
            join_both(one, two)
            sender, expiry = Sender(one, asks=asks), two._exchange.parked_expiry

            def case(interrupted: Blow) -> None:
                for number in NUMBERS:
                    sender.send("nobody", number, bus="two", timeout=None)

                interrupted(lambda: expiry.close("two"))

                expiry.close("two")
                assert sender.failed() == NUMBERS
                assert sender.late == 0
                expiry._closed_bus = None  # open for the next case

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)


@pytest.mark.deep
@clause("BUS-ROUTE-19")
def test_an_interrupted_timer_fires_again() -> None:
    """All parked messages have expired after the next two rounds."""

    def run() -> None:
        brief = attrs.evolve(PATIENT, resolve_timeout_s=1e-9)
        with memory_bus(config=brief) as bus:
            sender, parked = Sender(bus), bus._exchange.manager.parked

            def case(interrupted: Blow) -> None:
                before = sender.counted
                for number in NUMBERS:
                    sender.send("nobody", number)

                interrupted(lambda: sender.here.poll(0))

                sender.failed()
                sender.failed()
                assert len(parked) == 0
                assert sender.counted - before == len(NUMBERS)

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)


@clause("BUS-FLOW-5")
def test_an_interrupted_timer_ends_each_question_that_is_past_its_deadline() -> None:
    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            bus.register("silent", thread=bus.here(), on_command=lambda _: NOREPLY)
            sender = Sender(bus, asks=True)
            scheduler = sender.here._manager.scheduler

            def case(interrupted: Blow) -> None:
                for number in NUMBERS:
                    sender.send("silent", number, timeout=1e-9)

                interrupted(scheduler.fire)

                assert sender.failed() + sender.failed() == NUMBERS
                assert not scheduler.timers

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)


@clause("BUS-FLOW-5")
def test_an_interrupt_as_a_question_ends_spares_the_deadlines_of_the_others() -> None:
    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            bus.register("silent", thread=bus.here(), on_command=lambda _: NOREPLY)
            sender = Sender(bus, asks=True)

            def case(interrupted: Blow) -> None:
                cancelled = sender.task.command(
                    "silent", on_response=bool, timeout=1e-9
                )
                for number in NUMBERS:
                    sender.send("silent", number, timeout=1e-9)

                interrupted(cancelled.cancel)

                assert sender.failed() + sender.failed() == NUMBERS

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)


@clause("BUS-ROUTE-19")
def test_a_message_of_an_interrupted_command_expires() -> None:
    """If the message is parked, a timer is set for it."""

    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            sender, exchange = Sender(bus), bus._exchange
            expiry = exchange.parked_expiry

            def case(interrupted: Blow) -> None:
                expiry._check_at = None

                interrupted(lambda: sender.send("nobody", 1))

                sender.here.poll(0)
                timers = sender.here._manager.scheduler.timers
                assert not len(exchange.manager.parked) or expiry._check_at is not None
                assert not len(exchange.manager.parked) or timers
                timers.clear()
                expire_all(exchange)
                sender.failed()

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)


@clause("BUS-ROUTE-19")
def test_removed_messages_return_in_order() -> None:
    """After a second interrupt, too, which ends the first attempt to return them."""

    def parked(name: str, number: int) -> Parked:
        message = Incoming(kind=Kind.COMMAND, payload=number, _name=name)
        return Parked(message, float(number), 0.0)

    def case(interrupted: Blow) -> None:
        waiting = ParkedList(per_name=9, in_all=9)
        for number in NUMBERS:
            waiting.append("a", parked("a", number))
            waiting.append("b", parked("b", number))
        waiting.removals = ()
        waiting.take("a")
        waiting.take("b")
        assert waiting.next_deadline() is None

        interrupted(waiting.restore)

        waiting.restore()
        for name in "ab":
            assert [each.message.payload for each in waiting.of(name)] == NUMBERS
        assert (waiting.resumed, waiting.given_up, len(waiting)) == (0, 0, 6)
        assert sorted(waiting.expire(1.0, [])) == ["a", "a", "b", "b"]

    everywhere(case, packages=(package,))


@clause("BUS-FLOW-1")
def test_parked_messages_wait_or_fail_wherever_an_interrupt_comes() -> None:
    def case(interrupted: Blow) -> None:
        waiting, todo = ParkedList(per_name=9, in_all=9), list[Any]()
        for number in NUMBERS:
            message = Incoming(kind=Kind.COMMAND, payload=number, _name="a")
            waiting.append("a", Parked(message, 0.0, 0.0))

        interrupted(lambda: waiting.fail("a", UnresolvedError("a", 0.0), todo))

        waiting.fail("a", UnresolvedError("a", 0.0), todo)
        assert [each.message.payload for each in todo] == NUMBERS
        assert waiting.waiting() == {}
        assert len(waiting) == 0

    everywhere(case, packages=(package,))


@clause("BUS-ROUTE-19")
def test_expired_messages_wait_or_fail_wherever_an_interrupt_comes() -> None:
    def case(interrupted: Blow) -> None:
        waiting, todo = ParkedList(per_name=9, in_all=9), list[Any]()
        for number in NUMBERS:
            message = Incoming(kind=Kind.COMMAND, payload=number, _name="a")
            waiting.append("a", Parked(message, 0.0, 0.0))

        interrupted(lambda: waiting.expire(1.0, todo))

        waiting.expire(1.0, todo)
        assert [each.message.payload for each in todo] == NUMBERS
        assert (waiting.given_up, len(waiting)) == (3, 0)

    everywhere(case, packages=(package,))


# Reports of a failure.


@clause("BUS-NAME-8")
@asks_or_not
def test_a_message_in_doubt_is_reported_once(*, asks: bool) -> None:
    """Also if a second interrupt ends the report."""

    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            sender, manager = Sender(bus, asks=asks), bus._exchange.manager

            def interrupted_send(_message: Incoming) -> None:
                raise KeyboardInterrupt

            def case(interrupted: Blow) -> None:
                before, sent = sender.counted, list[Any]()
                for number in NUMBERS:
                    sender.send(LOG, number)
                entry = sender.task._entry
                [bind] = manager.any_machine.on_found(LOG, entry)
                assert isinstance(bind, Bind)
                with pytest.raises(KeyboardInterrupt):
                    send_bound(bind, interrupted_send)

                def send(message: Incoming) -> None:
                    sent.append(message.payload)

                def send_the_others() -> None:
                    send_bound(bind, send)

                interrupted(send_the_others)

                send_the_others()
                failed = sender.failed()
                assert failed[:1] == [0]
                assert sorted({*failed, *sent}) == NUMBERS
                assert len(failed) == len(set(failed)) <= len(NUMBERS)
                assert sent == sorted(set(sent))
                assert sender.counted - before == (0 if asks else len(failed))
                assert sender.late == 0
                bindings(bus).clear()

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)


@clause("BUS-MOVE-9")
def test_an_interrupt_sends_no_message_twice_to_the_new_address() -> None:
    got: list[int] = []
    failed: list[int] = []
    numbers = itertools.count()

    def run() -> None:
        config = attrs.evolve(PATIENT, follow_moved_tasks=True)
        with memory_bus(config=config) as bus:
            sender, exchange = Sender(bus), bus._exchange
            new = bus.register("new", thread=sender.here)

            def case(interrupted: Blow) -> None:
                before, number = sender.counted, next(numbers)
                sender.send("old", number)
                [message] = exchange.manager.parked.take("old")
                error = MovedError("old", str(new.address), bus.name)
                exchange._todo.append(Fail(message, error))

                interrupted(exchange.act)

                exchange.act()
                got.extend(read_all(new))
                errors = [each for _, each in sender.errors]
                failed.extend(sender.failed())
                assert number in (*got, *failed)
                assert all(isinstance(each, InDoubtError) for each in errors)
                assert sender.counted - before == failed.count(number) <= 1

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)
    assert len(got) == len(set(got)) > 0
    assert len(failed) == len(set(failed)) > 0


@clause("BUS-MOVE-9")
@asks_or_not
def test_a_command_that_its_new_address_refuses_is_reported_once(*, asks: bool) -> None:
    """Wherever an interrupt comes; the task there has no room."""
    numbers = itertools.count()

    def run() -> None:
        config = attrs.evolve(PATIENT, follow_moved_tasks=True)
        with memory_bus(config=config) as bus:
            sender, exchange = Sender(bus, asks=asks), bus._exchange
            new = bus.register("new", thread=sender.here, capacity=1)
            sender.send("new", "first")

            def case(interrupted: Blow) -> None:
                before, number = sender.counted, next(numbers)
                sender.send("old", number)
                [message] = exchange.manager.parked.take("old")
                error = MovedError("old", str(new.address), bus.name)
                exchange._todo.append(Fail(message, error))

                interrupted(exchange.act)

                exchange.act()
                assert sender.failed() == [number]
                assert sender.counted - before == (0 if asks else 1)
                assert sender.late == 0

            everywhere(case, packages=(package,))
            assert read_all(new) == ["first"]

    interrupt_everywhere(run)


# Registrations.


@pytest.mark.deep
@clause("BUS-INIT-7", "BUS-NAME-7", "BUS-NAME-8", "BUS-ROUTE-20")
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("place", ["alone", "master", "slave"])
def test_an_interrupted_registration_leaves_the_name_free(
    place: str, *, elsewhere: bool
) -> None:
    """The messages that waited for the name go to the task of the next attempt.

    place: of the process, on its bus. elsewhere: True if another thread hosts the task.
    """

    def strikes(bus: Bus) -> None:
        sender, manager = Sender(bus), bus._exchange.manager
        thread = bus.thread() if elsewhere else sender.here
        got: list[Any] = []

        def case(interrupted: Blow) -> None:
            got.clear()
            tasks: list[Task] = []
            sender.send("log", 1)
            sender.send(LOG, "any")
            sender.send("log", 2)

            def register() -> None:
                tasks.append(bus.register("log", thread=thread, on_command=on_command))

            interrupted(register)

            if not tasks:
                register()
            [log] = tasks
            assert bus._exchange.find("log") is log._entry
            sender.task.call("log", "last", timeout=LIMIT_S)
            sender.here.poll(0)
            failed = [payload for payload, _ in sender.errors]
            reported = [error for _, error in sender.errors]
            sender.errors.clear()
            assert [each for each in got if each != "any"] == [1, 2, "last"]
            assert (got.count("any"), failed.count("any")) in ((1, 0), (0, 1), (1, 1))
            assert all(isinstance(each, InDoubtError) for each in reported)
            assert len(manager.parked) == 0
            assert not bindings(bus)
            assert not manager.departures.unopened
            log.deregister(final=True)
            sender.here.poll(0)

        def on_command(message: Incoming) -> None:
            got.append(message.payload)

        everywhere(case, packages=(package,))

    def run() -> None:
        with memory_bus(process="first", config=PATIENT) as first:
            if place == "alone":
                strikes(first)
                return
            with memory_bus(process="second", beside=first, config=PATIENT) as second:
                strikes(first if place == "master" else second)

    interrupt_everywhere(run)


@pytest.mark.deep
@clause("BUS-NAME-7", "BUS-MOVE-5", "BUS-ROUTE-20")
def test_an_interrupted_registration_leaves_a_task_of_another_process_reachable() -> (
    None
):
    """A slave hides the relay of the name before the master refuses the name.

    If the interrupt left the relay half hidden, no later holder of the name would open.
    """

    def run() -> None:
        with (
            memory_bus(process="first", config=PATIENT) as first,
            memory_bus(process="second", beside=first, config=PATIENT) as second,
        ):
            there, here = first.thread(), second.thread()
            sender = second.register("sender", thread=second.here())

            def case(interrupted: Blow) -> None:
                log = register_when_free(first, there, "first")
                assert sender.call("log", None) == "first"

                def register() -> None:
                    with suppress(NameTakenError):
                        second.register("log", thread=here)

                interrupted(register)

                assert sender.call("log", None) == "first"
                log.deregister(final=True)
                log = register_when_free(second, here, "second")
                assert sender.call("log", None) == "second"
                log.deregister(final=True)

            everywhere(case, packages=(package,))

    interrupt_everywhere(run)


def register_when_free(bus: Bus, thread: BusThread, name: str) -> Task:
    """Register "log", which answers with a name, once no process holds that."""
    tasks: list[Task] = []

    def registers() -> bool:
        with suppress(NameTakenError):
            tasks.append(bus.register("log", thread=thread, on_command=lambda _: name))
        return bool(tasks)

    until(registers, "the name is free")
    [task] = tasks
    return task


@clause("BUS-NAME-7")
def test_a_refused_registration_leaves_nothing() -> None:
    with memory_bus(config=PATIENT) as bus:
        here = bus.here()
        task = bus.register("log", thread=here)

        with pytest.raises(NameTakenError):
            bus.register("log", thread=here)

        assert bus._exchange.find("log") is task._entry
        assert not here._manager._expected


@clause("BUS-ROUTE-20")
def test_unresolved_messages_are_no_part_of_an_undone_decision() -> None:
    """A decision that fails with an error removes nothing."""
    with memory_bus(config=PATIENT) as bus:
        sender, exchange = Sender(bus), bus._exchange
        sender.send("nobody", 1)

        def fails() -> list[Any]:
            exchange.manager.parked.take("nobody")
            raise UnresolvedError("nobody", 0.0)

        with pytest.raises(UnresolvedError):
            exchange.decide(fails)

        assert len(exchange.manager.parked) == 1
        expire_all(exchange)
        assert sender.counted == 1
