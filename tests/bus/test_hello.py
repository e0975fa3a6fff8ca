"""The first lines of a new user: they work, and need nothing else."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import pytest

import bus as package
from bus import Bus, BusThread, Incoming, UnknownTaskError, errors, open_bus
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.serving import settle
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from tests.strikes import Blow


def added(message: Any) -> int:
    return sum(message.payload)


def test_the_package_exports_the_objects_of_its_modules() -> None:
    assert len(set(package.__all__)) == len(package.__all__)
    for name in package.__all__:
        value = getattr(package, name)
        home = getattr(value, "__module__", "")
        if inspect.isclass(value) and home.startswith("bus."):
            assert getattr(importlib.import_module(home), name) is value
    tools = {"DemoError", "JournalError", "PipelineError"}
    assert {name for name in package.__all__ if name.endswith("Error")} == (
        set(errors.__all__) - tools
    )
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="module 'bus' has no attribute 'Nothing'"):
        package.Nothing  # noqa: B018


def test_names_that_are_not_given_are_chosen() -> None:
    with open_bus() as bus:
        assert bus.machine
        assert bus.process.startswith("p")
        assert [bus.thread().name, bus.here().name] == ["thread1", "here2"]
        assert repr(bus).startswith("<Bus 'bus1' of 'p")
    assert repr(bus).endswith("closed>")


def test_each_repr_names_the_object_and_its_state(bus: Bus) -> None:
    here = bus.here("mine")
    task = bus.register("task", thread=here)
    hears = task.subscribe("a/*", print)
    watch = task.watch("a/*", print)

    assert repr(bus) == "<Bus 'bus1' of 'process' on 'machine'>"
    assert repr(here) == "<BusThread 'mine' of bus 'bus1'>"
    assert repr(task) == "<Task ism://bus1@machine/task>"
    assert repr(hears) == "<Subscription of 'task' to a/*>"
    assert repr(watch) == "<Watch of 'task' on a/*>"
    task.deregister()
    settle(bus)
    assert repr(task) == "<Task ism://bus1@machine/task deregistered>"
    assert repr(hears) == "<Subscription of 'task' to a/* cancelled>"
    assert repr(watch) == "<Watch of 'task' on a/* cancelled>"
    here.stop()
    assert repr(here) == "<BusThread 'mine' of bus 'bus1' stopped>"


def test_memory_buses_know_nothing_of_one_another() -> None:
    with memory_bus() as one, memory_bus() as two, open_bus("bus1") as real:
        for number, bus in enumerate((one, two, real)):
            _register_one_who_says(number, bus)

        assert [bus.call("who") for bus in (one, two, real)] == [0, 1, 2]


def _register_one_who_says(number: int, bus: Bus) -> None:
    bus.register("who", thread=bus.here(), on_command=lambda _: number)


def test_a_thread_is_given_the_same_thread_each_time(bus: Bus) -> None:
    here = bus.here()
    assert bus.here() is here
    with Threads() as threads:
        assert threads.start(bus.here).result() is not here

    # In a callback, it is the thread that hosts the task.
    seen: list[BusThread] = []
    thread = bus.thread()
    bus.register("task", thread=thread, on_command=lambda _: seen.append(bus.here()))
    bus.call("task")
    assert seen == [thread]

    here.stop()
    assert bus.here() is not here


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_ends_its_thread_lets_its_tasks_leave(bus: Bus) -> None:
    def ends(_: Incoming) -> None:
        raise SystemExit

    thread = bus.thread()
    bus.register("ends", thread=thread, on_command=ends)
    bus.register("neighbour", thread=thread)

    bus.command("ends")

    until(lambda: not any(each.thread == thread.name for each in bus.tasks()), "gone")
    until(lambda: thread.stopped, "it has stopped")
    with pytest.raises(UnknownTaskError):
        bus.register("late", thread=thread)


@clause("BUS-FLOW-5")
def test_a_call_that_is_interrupted_anywhere_leaves_nothing_to_wait_for(
    bus: Bus,
) -> None:
    """Even before the call knows the number of its question."""
    bus.register("doer", on_command=lambda message: message.payload)

    def strikes() -> None:
        here = bus.here()
        asker = bus.register("asker", thread=here)

        def case(interrupted: Blow) -> None:
            interrupted(lambda: asker.call("doer", 1))
            assert len(asker._receiver.questions) == 0
            assert asker.call("doer", 2) == 2

        everywhere(case, packages=(package,))

    # Not in this thread, for the reason given in `tests.sockets.test_interrupts`.
    with Threads() as threads:
        threads.start(strikes).result(LIMIT_S)


def test_a_call_raises_when_the_calling_task_deregisters(bus: Bus) -> None:
    got: list[Incoming] = []
    doer = bus.register("doer", thread=bus.here())
    caller = bus.register("caller", thread=bus.thread())
    with Threads() as threads:
        calling = threads.start(caller.call, "doer", timeout=None)
        until(lambda: _unread(bus) > 0, "it has asked")
        caller.deregister()
        with pytest.raises(UnknownTaskError, match="'caller'"):
            calling.result()
    assert got == []
    assert doer.receive(0).payload is None


def _unread(bus: Bus) -> int:
    return sum(each.commands.unread for each in bus.tasks())
