"""The next call completes one that an interrupt has ended.

It deregisters a task, closes the bus, or sets the callback of a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import bus as package
from bus import NOREPLY, CommandTimeoutError, UnknownTaskError
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT, join_both
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from bus import Bus, Incoming, Task
    from tests.strikes import Blow
    from tests.support import Running

BESIDE = [pytest.param(each, marks=pytest.mark.deep) for each in ("master", "slave")]


class Waits:
    """Threads that wait for something of a task: for an answer, for a subscriber."""

    def __init__(self, bus: Bus, threads: Threads) -> None:
        self._awaited = subscriptions_of(bus._exchange.manager)._awaited
        self._threads = threads
        self._running: list[Running[Any]] = []
        self._bus = bus

    def begin(self, task: Task) -> None:
        start, questions = self._threads.start, task._receiver.questions
        self._running = [
            start(lambda: task.call("deaf", timeout=None)),
            start(task.wait_for_subscribers),
        ]
        until(lambda: bool(questions) and bool(self._awaited), "they wait")

    def end(self) -> list[type]:
        """Wait until each has ended; return the types of their errors."""
        return [type(each.error()) for each in self._running]


@clause("BUS-DEREG-1", "BUS-DEREG-2", "BUS-DEREG-8", "BUS-DEREG-10", "BUS-MSG-19")
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("place", ["alone", *BESIDE])
def test_the_next_deregistration_completes_an_interrupted_one(
    place: str, *, elsewhere: bool
) -> None:
    """Watchers get one report, waiting threads an error, the next task its command.

    place: of the process, on its bus. elsewhere: True if another thread hosts the task.
    """

    def strikes(bus: Bus, other: Bus | None, threads: Threads) -> None:
        here = bus.here()
        thread = bus.thread() if elsewhere else here
        seen: list[bool] = []
        seen_far: list[bool] = []
        watcher = bus.register("watcher", thread=here)
        watcher.watch("log", lambda each: seen.append(each.here))
        bus.register("deaf", thread=bus.thread(), on_command=lambda _: NOREPLY)
        if other is not None:
            far = other.register("far", thread=other.thread())
            far.watch("log", lambda each: seen_far.append(each.here))
        waits = Waits(bus, threads)

        def reported(*expected: bool) -> None:
            def are_here() -> bool:
                here.poll(0)
                seen_there = [] if other is None else seen_far
                return seen == [*expected] and seen_there in (seen, [])

            until(are_here, "the watchers get their reports")
            if other is not None:
                until(lambda: seen_far == seen, "the watchers get their reports")

        def case(interrupted: Blow) -> None:
            seen.clear()
            seen_far.clear()
            log = bus.register("log", thread=thread)
            log.subscribe("watcher", print)
            watcher.command("log", 1)
            reported(True)
            waits.begin(log)

            interrupted(log.deregister)

            log.deregister()
            assert waits.end() == [UnknownTaskError, UnknownTaskError]
            reported(True, False)
            assert not watcher.wait_for_subscribers(timeout=0)
            assert all(each.address != log.address for each in bus.tasks())
            successor = bus.register("log", thread=here)
            assert successor.receive(LIMIT_S).payload == 1
            with pytest.raises(CommandTimeoutError):
                successor.receive(0)
            reported(True, False, True)
            successor.deregister()
            reported(True, False, True, False)

        everywhere(case, packages=(package,))

    def run(threads: Threads) -> None:
        with memory_bus(process="first", config=PATIENT) as first:
            if place == "alone":
                strikes(first, None, threads)
                return
            with memory_bus(process="second", beside=first, config=PATIENT) as second:
                one, other = (first, second) if place == "master" else (second, first)
                strikes(one, other, threads)

    with Threads() as threads:
        threads.start(run, threads).join(4 * LIMIT_S)


@pytest.mark.deep
@clause("BUS-DEREG-1", "BUS-DEREG-12")
def test_a_close_completes_an_interrupted_deregistration() -> None:
    def run(threads: Threads) -> None:
        def case(interrupted: Blow) -> None:
            with memory_bus(config=PATIENT) as bus:
                bus.register("deaf", thread=bus.thread(), on_command=lambda _: NOREPLY)
                log = bus.register("log", thread=bus.here())
                waits = Waits(bus, threads)
                waits.begin(log)
                interrupted(log.deregister)

            assert waits.end() == [UnknownTaskError, UnknownTaskError]
            assert (bus.inspect().threads, bus.tasks()) == ((), ())

        everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run, threads).join(4 * LIMIT_S)


@pytest.mark.deep
@clause("BUS-DEREG-12")
@pytest.mark.parametrize("place", ["alone", "master", "slave"])
def test_the_next_close_completes_an_interrupted_one(place: str) -> None:
    """It ends the tasks and threads of the bus, and what tasks of other buses want."""
    points = range(0, 10**6, 1 if place == "alone" else 5)

    def strikes(bus: Bus, third: Bus, interrupted: Blow) -> None:
        join_both(bus, third)
        mine = bus.register("mine", thread=bus.here())
        others = [bus.register("a", thread=bus.thread()), bus.register("b")]
        foreign = third.register("foreign", thread=third.here())
        subscription = foreign.subscribe("a", print, bus=bus.name)
        mine.subscribe("a", print)
        mine.command("b", 1)

        interrupted(bus.close)

        bus.close()
        assert (bus.inspect().threads, bus.tasks()) == ((), ())
        assert not subscription.active
        for each in (mine, *others):
            with pytest.raises(UnknownTaskError):
                each.command("a", 1)

    def run() -> None:
        def case(interrupted: Blow) -> None:
            with (
                memory_bus("other", config=PATIENT) as third,
                memory_bus(process="first", config=PATIENT) as first,
            ):
                if place == "alone":
                    strikes(first, third, interrupted)
                    return
                with memory_bus(process="second", beside=first) as second:
                    one, other = first, second
                    if place == "slave":
                        one, other = second, first
                    other.register("far", thread=other.here())
                    strikes(one, third, interrupted)

        everywhere(case, points, packages=(package,))

    with Threads() as threads:
        threads.start(run).join(4 * LIMIT_S)


@clause("BUS-MSG-3", "BUS-DEREG-12")
def test_the_next_call_completes_an_interrupted_change_of_the_callback() -> None:
    """The new callback gets the commands that waited for it, and the bus closes."""

    def run() -> None:
        def case(interrupted: Blow) -> None:
            with memory_bus(config=PATIENT) as bus:
                here = bus.here()
                late, sender = (bus.register(each, thread=here) for each in "ab")
                for number in range(3):
                    sender.command("a", number)
                while here.poll(0):
                    pass
                read: list[int] = []

                def callback(message: Incoming) -> None:
                    read.append(message.payload)

                interrupted(lambda: late.on_command(callback))

                late.on_command(callback)
                while here.poll(0):
                    pass
                assert read == [0, 1, 2]

        everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run).result(LIMIT_S)
