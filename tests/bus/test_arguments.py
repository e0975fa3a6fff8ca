"""A wrong argument raises one clear error that names it, without side effects."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    Bus,
    BusConfig,
    CommandTimeoutError,
    Incoming,
    MessageTooLargeError,
    PayloadError,
    open_bus,
)
from bus.testing import memory_bus
from tests.kit.inspection import info
from tests.kit.serving import settle
from tests.kit.tasks import ignore

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import BusThread, Task

NAN = float("nan")


def register(**wrong: Any) -> Callable[[Bus, Task], object]:
    def act(bus: Bus, _: Task) -> object:
        right: dict[str, Any] = {"name": "x", "thread": bus.here()}
        return bus.register(**right | wrong)

    return act


def command(to: Any = "task", **wrong: Any) -> Callable[[Bus, Task], object]:
    return lambda _, task: task.command(to, **wrong)


def call(to: Any = "task", **wrong: Any) -> Callable[[Bus, Task], object]:
    return lambda _, task: task.call(to, **wrong)


def notify(**wrong: Any) -> Callable[[Bus, Task], object]:
    return lambda _, task: task.notify(**wrong)


def subscribe(
    to: Any = "task", callback: Any = ignore, **wrong: Any
) -> Callable[[Bus, Task], object]:
    return lambda _, task: task.subscribe(to, callback, **wrong)


def on_task(act: Callable[[Any], object]) -> Callable[[Bus, Task], object]:
    return lambda _, task: act(task)


def on(act: Callable[[Any], object]) -> Callable[[Bus, Task], object]:
    return lambda bus, _: act(bus)


WRONG_CONFIG: Any = {}


WHOM = "to must be a name, an Address or a sequence of these, got "
WRONG: list[tuple[Callable[[Bus, Task], object], type[Exception], str]] = [
    (register(name=5), TypeError, "module name must be a str, got int"),
    (register(name="a b"), ValueError, "module name must match"),
    (register(name="a/*"), ValueError, "module name must match"),
    (register(name="a//b"), ValueError, "module name must have no empty segment"),
    (register(thread=5), TypeError, "thread must be a .*BusThread, got int"),
    (register(visibility="public"), TypeError, "visibility must be a .*, got str"),
    (register(on_command=5), TypeError, "on_command must be callable, got int"),
    (register(on_undelivered=5), TypeError, "on_undelivered must be callable, got int"),
    (register(capacity=0), ValueError, "capacity must be >= 1, got 0"),
    (register(capacity=1.5), TypeError, "capacity must be an int, got float"),
    (register(capacity=True), TypeError, "capacity must be an int, got bool"),
    (register(overflow="drop"), ValueError, "overflow must be one of .*, got 'drop'"),
    (register(overflow=["x"]), ValueError, "overflow must be one of .*, got \\['x'"),
    (command(5), TypeError, f"{WHOM}int"),
    (command(b"task"), TypeError, f"{WHOM}bytes"),
    (command(["task", 5]), TypeError, f"{WHOM}int"),
    (command([]), ValueError, "to must name at least one addressee"),
    (command("a b"), ValueError, "'a b' is no address: module name must match"),
    (command("**"), ValueError, "'\\*\\*' is no address"),
    (command(["task", "a b"]), ValueError, "'a b' is no address"),
    (command("ism://bus1@machine"), ValueError, "must have a module"),
    (command(bus=5), TypeError, "bus name must be a str, got int"),
    (command(bus="a b"), ValueError, "bus name must match"),
    (command(timeout=-1), ValueError, "timeout must be >= 0, got -1"),
    (command(timeout=NAN), ValueError, "timeout must be >= 0, got nan"),
    (command(timeout="1"), TypeError, "timeout must be a number or None, got str"),
    (command(on_response=5), TypeError, "on_response must be callable, got int"),
    (command(payload={1: 2}), PayloadError, "keys must be str, got int"),
    (command(payload=object()), PayloadError, "cannot send payload"),
    (command(payload=bytes(101)), MessageTooLargeError, "payload is above 100 bytes"),
    (call(5), TypeError, "to must be a name or an Address, got int"),
    (call(["task"]), TypeError, "to must be a name or an Address, got list"),
    (call(timeout=-1), ValueError, "timeout must be >= 0, got -1"),
    (call(payload=object()), PayloadError, "cannot send payload"),
    (notify(on_response=5), TypeError, "on_response must be callable, got int"),
    (notify(on_response=ignore), ValueError, "notify requires a timeout"),
    (
        notify(on_response=ignore, timeout=NAN),
        ValueError,
        "timeout must be >= 0, got nan",
    ),
    (notify(payload=object()), PayloadError, "cannot send payload"),
    (subscribe(5), TypeError, "to must be a name, an Address or a Specification"),
    (subscribe("a*"), ValueError, "a segment with a star must be"),
    (subscribe("a b"), ValueError, "'a b' is no specification"),
    (subscribe(callback=5), TypeError, "callback must be callable, got int"),
    (subscribe(overflow="drop"), ValueError, "overflow must be one of"),
    (subscribe(capacity=0), ValueError, "capacity must be >= 1, got 0"),
    (subscribe(bus=5), TypeError, "bus name must be a str, got int"),
    (
        on_task(lambda t: t.watch(5, ignore)),
        TypeError,
        "to must be a name, an Address or a",
    ),
    (
        on_task(lambda t: t.watch("x", 5)),
        TypeError,
        "callback must be callable, got int",
    ),
    (
        on_task(lambda t: t.on_command(5)),
        TypeError,
        "callback must be callable, got int",
    ),
    (on_task(lambda t: t.receive(-1)), ValueError, "timeout must be >= 0, got -1"),
    (
        on_task(lambda t: t.respond(5)),
        TypeError,
        "message must be a .*Incoming, got",
    ),
    (on_task(lambda t: t.move(5)), TypeError, "thread must be a .*BusThread, got int"),
    (on(lambda bus: bus.call(5)), TypeError, "to must be a name or an Address"),
    (on(lambda bus: bus.command(5)), TypeError, WHOM),
    (on(lambda bus: bus.subscribe("a*", ignore)), ValueError, "a segment with a star"),
    (on(lambda bus: bus.subscribe("a", 5)), TypeError, "callback must be callable"),
    (on(lambda bus: bus.listen("a*")), ValueError, "a segment with a star"),
    (on(lambda bus: bus.listen("a", timeout=-1)), ValueError, "timeout must be >= 0"),
    (on(lambda bus: bus.wait_for(5)), TypeError, "to must be a name, an Address or"),
    (on(lambda bus: bus.wait_for("a", NAN)), ValueError, "timeout must be >= 0"),
    (on(lambda bus: bus.thread(5)), TypeError, "name of a thread must be a str"),
    (on(lambda bus: bus.here(5)), TypeError, "name of a thread must be a str"),
    (on(lambda bus: bus.thread("a\udcff")), ValueError, "lone surrogate: at 1"),
    (on(lambda bus: bus.here("\udcff")), ValueError, "lone surrogate: at 0"),
    (on(lambda bus: bus.close(-1)), ValueError, "drain must be >= 0, got -1"),
    (on(lambda bus: bus.here().poll(-1)), ValueError, "timeout must be >= 0"),
    (on(lambda bus: bus.here().stop(drain=NAN)), ValueError, "drain must be >= 0"),
    (on(lambda bus: bus.here().call_soon(5)), TypeError, "function must be callable"),
    (on(lambda _: open_bus("a b")), ValueError, "bus name must match"),
    (on(lambda _: open_bus("a", machine="-")), ValueError, "machine name must match"),
    (on(lambda _: open_bus("a", process="-")), ValueError, "process name must match"),
    (
        on(lambda _: open_bus("a", config=WRONG_CONFIG)),
        TypeError,
        "config must be a .*, got dict",
    ),
]


@pytest.mark.parametrize(("act", "error", "text"), WRONG)
def test_a_wrong_argument_is_named_and_nothing_is_done(
    act: Any, error: type[Exception], text: str
) -> None:
    with memory_bus(config=BusConfig(message_bytes_max=100)) as bus:
        got: list[Incoming] = []
        task = bus.register("task", thread=bus.here())
        task.subscribe("task", got.append)
        settle(bus)

        with pytest.raises(error, match=text):
            act(bus, task)

        settle(bus)
        seen = info(bus, "task")
        assert seen.commands.accepted == seen.questions == 0
        assert len(seen.subscriptions) == 1
        assert (got, dict(bus.inspect().parked)) == ([], {})
        public = [each for each in bus.tasks() if each.visibility.value == "public"]
        assert [each.address.module for each in public] == ["task"]
        # The bus still works.
        task.on_command(lambda message: message.payload)
        assert bus.call("task", 1) == 1


def test_a_thread_of_another_bus_hosts_nothing_of_this_one(bus: Bus) -> None:
    task = bus.register("task", thread=bus.here())
    with memory_bus("bus2") as other:
        theirs: BusThread = other.thread()
        with pytest.raises(ValueError, match="thread must be one of bus 'bus1', got"):
            bus.register("x", thread=theirs)
        with pytest.raises(ValueError, match="thread must be one of bus 'bus1', got"):
            task.move(theirs)

    assert task.thread is bus.here()


@pytest.mark.parametrize("error", [5, b"x", ValueError("x")])
def test_the_error_of_a_response_must_be_a_str(bus: Bus, error: Any) -> None:
    def asked(message: Incoming) -> str:
        with pytest.raises(TypeError, match="error must be a str or None, got"):
            message.respond(error=error)
        return "answered all the same"

    bus.register("task", thread=bus.here(), on_command=asked)

    assert bus.call("task") == "answered all the same"


def test_a_name_for_a_thread_may_be_anything_that_people_read(bus: Bus) -> None:
    thread = bus.here("my own, the first one!")
    bus.register("task", thread=thread, on_command=lambda _: "fine")

    assert bus.call("task") == "fine"
    assert bus.inspect().threads[0].name == "my own, the first one!"


def test_only_its_own_thread_serves_a_thread(bus: Bus) -> None:
    thread = bus.thread()
    task = bus.register("task", thread=thread, on_command=ignore)
    for act in (thread.poll, thread.run, task.receive):
        with pytest.raises(RuntimeError, match="only the thread that serves"):
            act()
    mine = bus.register("mine", thread=bus.here(), on_command=ignore)
    with pytest.raises(RuntimeError, match="its commands go to a callback"):
        mine.receive(0)


def test_a_receive_that_times_out_names_the_receiving_task(bus: Bus) -> None:
    reader = bus.register("reader", thread=bus.here())
    with pytest.raises(CommandTimeoutError) as caught:
        reader.receive(0)
    assert str(caught.value) == "no command for 'reader': waited for 0 s"
    assert str(copy(caught.value)) == str(caught.value)
