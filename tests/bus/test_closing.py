"""BUS-DEREG-12: closing a bus ends all its tasks and threads."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import bus as bus_package
from bus import (
    NOREPLY,
    Bus,
    BusyError,
    UnknownTaskError,
    open_bus,
)
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.process.exchange import Exchange
from bus.process.mailbox import Mailbox
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.inspection import unbalanced
from tests.kit.tasks import Holder, echo, unwanted
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus import BusThread, Incoming
    from tests.strikes import Blow


@clause("BUS-DEREG-12")
def test_closing_a_bus_ends_its_threads_tasks_and_subscriptions() -> None:
    with memory_bus() as bus:
        threads = [bus.thread(), bus.here()]
        tasks = [bus.register(f"t{n}", thread=each) for n, each in enumerate(threads)]
        tasks.append(bus.register("by default"[3:]))
        hears = tasks[0].subscribe("**", print)

    bus.close()  # does nothing
    assert not hears.active
    seen = bus.inspect()
    assert (seen.threads, seen.tasks, dict(seen.parked)) == ((), (), {})
    for act in (
        lambda: bus.register("x"),
        lambda: tasks[0].command("t1"),
        bus.here,
        bus.thread,
        lambda: bus.call("t1"),
        lambda: bus.subscribe("t1", print),
        threads[1].poll,
        lambda: threads[0].call_soon(print),
    ):
        with pytest.raises(UnknownTaskError):
            act()
    threads[1].run()  # returns at once


@clause("BUS-DEREG-12")
def test_closing_a_bus_delivers_unread_commands_if_there_is_time() -> None:
    got: list[Any] = []
    for drain in (60.0, 0.0):
        with Holder.holding(bus := Bus("bus1")) as holder:
            for number in range(10):
                bus.command("holder", number)
            with Threads() as threads:
                closer = threads.start(bus.close, drain)
                inbox = holder.thread._manager.inbox
                until(lambda: len(inbox.items) == 11, "it is told to stop")  # noqa: B023
                holder.let_go()
                closer.result()
        got.append(len(holder.got))

    assert got == [11, 1]


@clause("BUS-DEREG-12")
def test_a_bus_can_be_closed_within_a_callback() -> None:
    with memory_bus() as bus:
        thread = bus.thread()
        bus.register("ends", thread=thread, on_command=lambda _: bus.close())
        bus.register("other", thread=bus.thread())
        bus.command("ends")
        until(lambda: not bus.inspect().threads, "all have ended")
        assert bus.tasks() == ()


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("waits", ["call", "receive", "listen", "wait_for", "run"])
def test_closing_a_bus_wakes_a_waiter_in_a_plain_thread(
    waits: str,
) -> None:
    bus = Bus("bus1")
    bus.register("silent", thread=bus.thread(), on_command=lambda _: NOREPLY)
    waiting: list[BusThread] = []

    def waiter() -> None:
        thread = bus.here()
        task = bus.register("waiter", thread=thread)
        acts: dict[str, Callable[[], object]] = {
            "call": lambda: task.call("silent", timeout=None),
            "receive": task.receive,
            "listen": lambda: list(bus.listen("silent")),
            "wait_for": lambda: bus.wait_for("nobody", timeout=None),
            "run": thread.run,
        }
        thread.call_soon(lambda: waiting.append(thread))
        acts[waits]()

    with Threads() as threads:
        running = threads.start(waiter)
        until(lambda: bool(waiting), "it waits")
        bus.close()
        error = running.error()

    if waits in {"run", "listen"}:
        assert error is None
    else:
        assert isinstance(error, UnknownTaskError)


@clause("BUS-DEREG-12")
def test_the_tasks_of_a_plain_thread_leave_with_it(bus: Bus) -> None:
    with Threads() as threads:
        threads.start(lambda: bus.register("short", thread=bus.here())).result()
        for _ in range(3):
            threads.start(lambda: bus.command("short")).join()

    assert bus.tasks() == ()
    assert bus.inspect().threads == ()
    assert unbalanced(bus.inspect()) == []


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("drain", [60.0, 0.0])
def test_closing_a_bus_drains_a_thread_driven_by_its_author_too(
    drain: float,
) -> None:
    bus = Bus("bus1")
    got: list[Any] = []
    bus.register("task", thread=bus.here(), on_command=got.append)
    for _ in range(10):
        bus.command("task")

    bus.close(drain)

    # Work in progress when the stop arrives is not aborted.
    assert len(got) == 10 if drain else len(got) < 10


@clause("BUS-DEREG-12")
def test_a_callback_that_stops_a_thread_does_not_wait_for_its_end(bus: Bus) -> None:
    """Otherwise two threads that stop each other would wait for ever."""
    stopped = Event()
    waited: list[bool] = []
    one, two = bus.thread(), bus.thread()

    def stops(_: Incoming) -> None:
        two.stop()
        stopped.set()

    bus.register("stops", thread=one, on_command=stops)
    bus.register(
        "waits", thread=two, on_command=lambda _: waited.append(stopped.wait(LIMIT_S))
    )
    bus.command("waits")
    bus.command("stops")

    until(lambda: bool(waited), "the other one's callback has returned")
    assert waited == [True]


@clause("BUS-DEREG-12")
def test_a_thread_that_ends_waits_for_no_task_that_does_not_come(bus: Bus) -> None:
    """The expected task never arrives: its registration fails, as the name is taken."""
    thread = bus.thread()
    manager = thread._manager
    client: Any = SimpleNamespace()
    task = Mailbox(client)
    assert manager.expect(task)

    with Threads() as threads:
        stopping = threads.start(thread.stop)
        waits = manager.inbox.arrived
        until(lambda: manager.stop_at is not None and waits.asleep, "it waits")
        manager.cancel_expect(task)
        try:
            stopping.result()
        finally:
            manager.ask(int)  # if it is not woken, the test fails instead of hanging

    assert manager.ended


@pytest.mark.deep
@clause("BUS-DEREG-12")
@pytest.mark.parametrize("what", ["registers", "moves"])
def test_an_interrupt_keeps_no_bus_from_closing(what: str) -> None:
    """At every point: no thread waits for a task that never arrives."""

    def case(interrupted: Blow) -> None:
        with memory_bus() as bus:
            here, there = bus.here(), bus.thread()
            if what == "registers":
                interrupted(lambda: bus.register("interrupted", thread=there))
            else:
                task = bus.register("interrupted", thread=here)
                interrupted(lambda: task.move(there))

    everywhere(case, packages=(bus_package,))


@clause("BUS-DEREG-12")
def test_to_close_a_bus_again_leaves_its_successor_alone(
    own_run_directory: Path,
) -> None:
    """The process has joined that bus again, and must not be able to join it twice."""
    assert own_run_directory is not None
    first = open_bus()
    first.close()
    with open_bus():
        first.close()

        with pytest.raises(BusyError, match="which this process has joined"):
            open_bus()


@clause("BUS-INIT-7")
def test_a_task_is_hosted_by_a_new_default_thread_once_that_is_stopped(
    bus: Bus,
) -> None:
    bus.register("one", on_command=lambda _: None).thread.stop()

    bus.register("echo", on_command=echo)

    assert bus.call("echo", 1) == 1


@clause("BUS-DEREG-10")
@pytest.mark.parametrize("what", ["subscribe", "watch"])
def test_a_task_that_deregisters_as_it_subscribes_or_watches_keeps_neither(
    bus: Bus, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its departure ends all its subscriptions but the one not yet registered."""
    task = bus.register("task", thread=bus.thread())
    original = Exchange.decide

    def leaves_first(exchange: Exchange, event: Callable[[], Any]) -> None:
        monkeypatch.setattr(Exchange, "decide", original)
        # In another thread: in this one it would be a call within a call.
        with Threads() as threads:
            threads.start(task.deregister)
        until(lambda: task._entry.host is None, "it has left")
        original(exchange, event)

    monkeypatch.setattr(Exchange, "decide", leaves_first)
    interest = getattr(task, what)("**", unwanted)

    assert not interest.active
    local = subscriptions_of(bus._exchange.manager)
    kept = local.watches if what == "watch" else local.subscriptions
    assert kept.of(task._entry) == []
