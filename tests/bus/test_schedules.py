"""Two threads that use one bus at the same time, in every relevant order."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    AddresseeGoneError,
    Bus,
    BusFullError,
    Response,
    UnknownTaskError,
    UnresolvedError,
)
from bus.api.receiver import Receiver
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.testing import memory_bus
from queuebroker import _sync
from queuebroker.testing import explore, replay
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.inspection import unbalanced
from tests.kit.tasks import echo, unwanted
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Incoming
    from queuebroker.testing import Run

# A deadline that passes early counts as a preemption, so no program here has one that
# affects its result.
NEVER = None


def under_every_schedule(program: Callable[[Run], object], times: int = 1) -> None:
    explore(
        program,
        bound=times,
        limit=schedules(200 * times),
        random=schedules(150 * times),
    )


def apart() -> Bus:
    """Return a bus that the program closes itself."""
    return Bus("bus1", process="process", machine="machine")


@clause("BUS-FLOW-5")
def test_a_call_is_answered_though_its_task_moves() -> None:
    def program(run: Run) -> None:
        with memory_bus() as bus:
            here, there = bus.thread(), bus.thread()
            caller = bus.register("caller", thread=here)
            bus.register("doer", thread=here, on_command=echo)
            moving = run.spawn(caller.move, there)
            assert caller.call("doer", 5, timeout=NEVER) == 5
            moving.join()
            assert unbalanced(bus.inspect()) == []

    under_every_schedule(program)


@clause("BUS-FLOW-5")
def test_each_command_has_one_outcome_though_its_addressee_leaves() -> None:
    def program(run: Run) -> None:
        with memory_bus() as bus:
            outcomes: list[Response] = []
            there = bus.thread()
            doer = bus.register("doer", thread=there, on_command=echo)
            asker = bus.register("asker", thread=bus.here())
            leaving = run.spawn(lambda: doer.deregister(final=True))
            for number in range(2):
                asker.command(
                    "doer", number, on_response=outcomes.append, timeout=NEVER
                )
            leaving.join()
            bus.register("doer", thread=there, on_command=echo)
            while len(outcomes) < 2:
                bus.here().poll(None)
            assert unbalanced(bus.inspect()) == []

    under_every_schedule(program)


@clause("BUS-FLOW-5")
def test_a_cancelled_command_has_no_outcome_and_any_other_has_one() -> None:
    def program(_run: Run) -> None:
        with memory_bus() as bus:
            outcomes: list[Response] = []
            there = bus.thread()
            bus.register("doer", thread=there, on_command=echo)
            asker = bus.register("asker", thread=there)
            handle = asker.command("doer", on_response=outcomes.append, timeout=NEVER)
            cancelled = handle.cancel()
            for _ in range(2):
                bus.call("doer", timeout=NEVER)
            there.stop(drain=60)
            assert len(outcomes) == (0 if cancelled else 1)

    under_every_schedule(program)


@clause("BUS-FLOW-6", "BUS-MSG-15")
def test_a_sender_waiting_for_room_keeps_its_order_though_the_task_moves() -> None:
    def program(run: Run) -> None:
        got: list[Any] = []
        with memory_bus() as bus:
            doer = bus.register(
                "doer",
                thread=bus.thread(),
                capacity=1,
                overflow="block",
                on_command=lambda message: got.append(message.payload),
            )
            moving = run.spawn(doer.move, bus.thread())
            for number in range(3):
                with suppress(BusFullError):
                    bus.command("doer", number)
            moving.join()
            assert unbalanced(bus.inspect()) == []
        assert got == sorted(got)

    under_every_schedule(program)


@clause("BUS-MSG-5")
def test_a_task_that_deregisters_keeps_no_subscription() -> None:
    def program(run: Run) -> None:
        with memory_bus() as bus:
            there = bus.thread()
            notifier = bus.register("notifier", thread=there)
            reader = bus.register("reader", thread=there)

            def subscribes() -> None:
                with suppress(UnknownTaskError):
                    reader.subscribe("notifier", lambda _: None)

            for each in (run.spawn(subscribes), run.spawn(reader.deregister)):
                each.join()
            there.stop(drain=60)
            assert notifier._entry.audience == ()
            subscriptions = subscriptions_of(bus._exchange.manager).subscriptions
            assert subscriptions.all() == []

    under_every_schedule(program)


def stop_a_thread_that_gets_a_task(run: Run) -> None:
    """Stop a thread while another one registers a task in it."""
    with memory_bus() as bus:
        there = bus.thread()
        reader = bus.register("reader", thread=there)
        reader.subscribe("notifier", lambda _: None)
        notifier = bus.register("notifier", thread=bus.here(), on_command=unwanted)
        stopping = run.spawn(there.stop)
        for number in range(2):
            notifier.notify(number)
        with suppress(UnknownTaskError):
            bus.register("late", thread=there)
        stopping.join()
        assert [each.address.module for each in bus.tasks()] == ["notifier"]
        assert notifier._entry.audience == ()


@clause("BUS-DEREG-12")
def test_a_thread_that_stops_takes_its_tasks_along() -> None:
    under_every_schedule(stop_a_thread_that_gets_a_task)


@clause("BUS-DEREG-12")
def test_a_thread_that_stops_does_not_wait_for_a_task_that_it_has_opened() -> None:
    """The last task arrives while the thread deregisters the others."""
    choices = [0] * 64
    for at, choice in ((22, 1), (45, 2), (50, 1), (63, 1)):
        choices[at] = choice
    replay(stop_a_thread_that_gets_a_task, choices)


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("drives", ["run", "receive", "call"])
def test_to_close_while_others_join_in(drives: str) -> None:
    """Each participant ends or gets an error; none waits for ever, nothing is left."""

    def program(run: Run) -> None:
        bus = apart()

        def serves() -> None:
            with suppress(UnknownTaskError):
                if drives == "call":
                    bus.register("x", on_command=echo)
                    return
                task = bus.register("x", thread=bus.here())
                if drives == "run":
                    task.on_command(echo)
                    task.thread.run()
                else:
                    task.receive()

        def asks() -> None:
            with suppress(UnknownTaskError, AddresseeGoneError, UnresolvedError):
                if drives == "receive":
                    bus.command("x")
                else:
                    assert bus.call("x", 1, timeout=NEVER) == 1

        run.spawn(serves)
        run.spawn(asks)
        bus.close()

    under_every_schedule(program, times=3)


@clause("BUS-DEREG-12")
def test_to_close_from_two_sides() -> None:
    def program(run: Run) -> None:
        bus = apart()
        bus.register("x", thread=bus.thread(), on_command=lambda _: bus.close())
        closing = run.spawn(bus.close)
        with suppress(UnknownTaskError):
            bus.command("x")
        bus.close()
        closing.join()
        seen = bus.inspect()
        assert (seen.tasks, seen.threads) == ((), ())

    under_every_schedule(program)


@clause("BUS-DEREG-12")
def test_the_tasks_of_a_thread_that_has_ended_are_found_and_leave() -> None:
    def program(run: Run) -> None:
        with memory_bus() as bus:

            def short() -> None:
                bus.register("short", thread=bus.here())

            def other() -> None:
                bus.command("short")

            for each in (run.spawn(short), run.spawn(other)):
                each.join()
            # The explorer ends a thread before the system does, which then finalizes
            # what the thread kept.
            while (seen := bus.inspect()).tasks or seen.threads:
                _sync.yield_processor()  # not a wait that the explorer would refuse

    under_every_schedule(program)


@clause("BUS-MSG-5")
def test_a_script_cancels_while_it_is_notified() -> None:
    def program(run: Run) -> None:
        with memory_bus() as bus:
            notifier = bus.register("notifier", thread=bus.here())
            subscription = bus.subscribe("notifier", lambda _: None)
            cancelling = run.spawn(subscription.cancel)
            notifier.notify()
            cancelling.join()
            bus.register("after", on_command=echo)
            assert bus.call("after", 1, timeout=NEVER) == 1
            assert all(not each.subscriptions for each in bus.tasks())

    under_every_schedule(program)


@clause("BUS-MSG-15")
def test_messages_sent_before_an_answer_are_handled_before_the_call_returns() -> None:
    """A caller waiting elsewhere is woken at once only if its mailbox is empty."""

    def program(run: Run) -> None:
        with memory_bus() as bus:
            received: list[Any] = []
            there = bus.thread()
            doer = bus.register("doer", thread=there)

            def tell(message: Incoming) -> Any:
                bus.command("caller", message.payload)
                doer.notify(message.payload)
                return message.payload

            doer.on_command(tell)
            caller = bus.register(
                "caller",
                thread=bus.thread(),
                on_command=lambda message: received.append(message.payload),
            )
            caller.subscribe("doer", lambda message: received.append(message.payload))
            asking = run.spawn(lambda: caller.call("doer", 5, timeout=NEVER))
            asking.join()
            assert received == [5, 5]

    under_every_schedule(program)


@clause("BUS-MSG-11")
def test_an_answer_wakes_the_calling_thread_and_not_the_host_of_its_task() -> None:
    """The thread of the asking task sleeps on."""
    with memory_bus() as bus:
        hosting = bus.thread("hosting")
        caller = bus.register("caller", thread=hosting)
        bus.register("doer", thread=bus.thread(), on_command=echo)
        assert caller.call("doer", 0) == 0
        inbox = hosting._manager.inbox
        until(lambda: inbox.idle, "all of the beginning is done")
        wakeups = inbox.wakeups
        assert [caller.call("doer", n) for n in range(1, 4)] == [1, 2, 3]
        assert inbox.wakeups == wakeups


@clause("BUS-INIT-7")
def test_two_threads_that_open_a_new_task_at_once_open_it() -> None:
    """The registering thread, and the one that executes the action."""

    def program(run: Run) -> None:
        with memory_bus() as bus:
            receiver, opened = bus.register("task")._receiver, list[bool]()

            def opens() -> None:
                opened.append(True)

            def execute() -> None:
                if not receiver.postpone(opens):
                    opens()

            receiver.postpone_openings()
            executes = run.spawn(execute)
            receiver.run_openings()
            executes.join()
            assert opened

    code = [Receiver.postpone, Receiver.run_openings]
    explore(
        program,
        bound=1,
        limit=schedules(200),
        random=schedules(300),
        bytecode=code,
        seed=1,
    )
