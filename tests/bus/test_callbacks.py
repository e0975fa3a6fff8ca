"""BUS-MSG-11, 12, 13: the operations, threads and exceptions of callbacks."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from bus import NOREPLY, BusConfig, Incoming, RemoteError
from bus.model.error_text import ERROR_TEXT_BYTES_MAX
from bus.testing import memory_bus
from specs.clauses import clause
from tests.bus.support import DISTANCES, There
from tests.kit.inspection import info
from tests.kit.serving import serve, settle
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus


def added(message: Any) -> int:
    return sum(message.payload)


@clause("BUS-MSG-11")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_caller_waits_for_the_answer(bus: Bus, there: There) -> None:
    there.register("adder", on_command=added)
    caller = bus.register("caller", thread=bus.here())

    assert caller.call(there.at("adder"), [1, 2]) == 3
    assert bus.call(there.at("adder"), [3, 4], timeout=None) == 7


@clause("BUS-MSG-11")
def test_a_plain_thread_waits_as_a_task_of_another_thread(bus: Bus) -> None:
    bus.register("adder", thread=bus.thread(), on_command=added)
    caller = bus.register("caller", thread=bus.thread())

    assert caller.call("adder", [1, 2], timeout=LIMIT_S) == 3


WAITING: dict[str, Callable[[Any, Any], object]] = {
    "Bus.call": lambda bus, _: bus.call("doer"),
    "Task.call": lambda _, task: task.call("doer"),
    "Task.receive": lambda _, task: task.receive(),
    "Bus.wait_for": lambda bus, _: bus.wait_for("doer"),
    "Bus.listen": lambda bus, _: bus.listen("doer"),
    "BusThread.poll": lambda bus, _: bus.here().poll(),
    "BusThread.run": lambda bus, _: bus.here().run(),
}


@clause("BUS-MSG-11")
@pytest.mark.parametrize("wait", WAITING)
@pytest.mark.parametrize("within", ["command", "response", "timeout", "call_soon"])
def test_to_wait_within_a_callback_is_refused(bus: Bus, wait: str, within: str) -> None:
    errors: list[str] = []
    thread = bus.thread()

    def waits(_: object = None) -> None:
        with pytest.raises(RuntimeError, match="within a callback") as caught:
            WAITING[wait](bus, silent)
        errors.append(str(caught.value))

    silent = bus.register("silent", thread=thread)
    doer = bus.register("doer", thread=thread, on_command=waits)
    if within == "command":
        bus.command("doer")
    elif within == "response":
        silent.command("doer", on_response=waits)
    elif within == "timeout":
        doer.command("silent", on_response=waits, timeout=0)
    else:
        thread.call_soon(waits)

    serve(bus, lambda: errors, "it was refused")
    assert info(bus, "doer").failures == info(bus, "silent").failures == 0


@clause("BUS-MSG-11")
def test_to_wait_within_a_callback_of_another_bus_is_refused(bus: Bus) -> None:
    errors: list[type] = []
    with memory_bus("bus2") as other:
        bus._others = other._others = {"bus1": bus, "bus2": other}

        def waits(_: Incoming) -> None:
            with pytest.raises(RuntimeError) as caught:
                bus.call("adder")
            errors.append(caught.type)

        other.register("doer", thread=other.here(), on_command=waits)
        other.command("doer")
        settle(other)

    assert errors == [RuntimeError]


@clause("BUS-MSG-11")
def test_to_wait_is_refused_in_a_callback_that_has_ended_another_thread(
    bus: Bus,
) -> None:
    """The thread of the callback has served the tasks of the other one."""
    errors, idle = list[type](), bus.here()

    def waits(_: Incoming) -> None:
        idle.stop()
        try:
            bus.call("nobody", timeout=0)
        except Exception as error:
            errors.append(type(error))
            raise

    bus.register("doer", thread=bus.thread(), on_command=waits)
    bus.register("sender").command("doer")

    until(lambda: bool(errors), "the callback has called")
    assert errors == [RuntimeError]


@clause("BUS-MSG-12")
def test_callbacks_run_in_the_thread_that_hosts_the_task(bus: Bus) -> None:
    threads: dict[str, int] = {}

    def note(what: str) -> None:
        threads[what] = threading.get_ident()

    def asked(_: Incoming) -> None:
        note("command")

    there = bus.thread()
    doer = bus.register("doer", thread=there, on_command=asked)
    bus.register("notifier", thread=bus.here())
    there.call_soon(lambda: note("thread"))
    doer.subscribe("notifier", lambda _: note("notification"))
    doer.watch("notifier", lambda _: note("news"))
    doer.command("doer", on_response=lambda _: note("response"))
    doer.command("nobody", on_response=lambda _: note("timeout"), timeout=0)
    doer.notify(on_response=lambda _: note("end"), timeout=0)
    notifier = bus.register("late", thread=bus.here())
    doer.subscribe("late", lambda _: note("notification"))
    notifier.notify()

    serve(bus, lambda: len(threads) == 7, "all callbacks ran")
    assert len(set(threads.values())) == 1
    assert threads["thread"] != threading.get_ident()


@clause("BUS-MSG-12")
def test_callbacks_of_a_task_run_one_at_a_time(bus: Bus) -> None:
    inside = 0
    most: list[int] = []

    def asked(_: object) -> None:
        nonlocal inside
        inside += 1
        most.append(inside)
        # Every call of the bus that might run a callback inside itself.
        doer.command("doer", on_response=asked, timeout=0)
        doer.on_command(asked if len(most) < 40 else lambda _: None)
        doer.notify(len(most))
        inside -= 1

    doer = bus.register("doer", thread=bus.here())
    doer.subscribe("doer", asked)
    for _ in range(3):
        bus.command("doer")
    settle(bus)
    doer.on_command(asked)
    for _ in range(200):
        bus.here().poll(0)

    assert len(most) > 40
    assert set(most) == {1}


@clause("BUS-MSG-13")
@pytest.mark.parametrize("distance", DISTANCES)
def test_an_exception_in_a_callback_is_reported_to_the_caller(
    bus: Bus, there: There, caplog: pytest.LogCaptureFixture
) -> None:
    def asked(message: Incoming) -> Any:
        if message.payload == "bad":
            raise LookupError("no such thing")
        return message.payload

    there.register("doer", on_command=asked)

    with pytest.raises(RemoteError) as caught:
        bus.call(there.at("doer"), "bad")

    assert (caught.value.name, caught.value.text) == (
        "doer",
        "LookupError: no such thing",
    )
    assert bus.call(there.at("doer"), "good") == "good"
    assert info(there.bus, "doer").failures == 1
    assert "no such thing" in caplog.text


@clause("BUS-MSG-13")
def test_every_sort_of_callback_may_raise_and_the_task_goes_on(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(_: object = None) -> None:
        raise LookupError("contained")

    here = bus.here()
    task = bus.register(
        "task", thread=here, on_command=raises, on_undelivered=raises, capacity=1
    )
    task.subscribe("task", raises)
    task.watch("task", raises)
    task.notify()
    task.command("task", on_response=raises)
    oldest = bus.register("oldest", thread=here, capacity=1, overflow="drop-oldest")
    task.command("oldest")
    task.command("oldest")
    here.call_soon(raises)
    settle(bus)

    # # command, its response, notification, presence, undelivered; call_soon has no
    # task
    assert info(bus, "task").failures == 5
    assert caplog.text.count("Traceback") == 6
    assert oldest.receive(0).payload is None


@clause("BUS-MSG-13")
def test_a_callback_that_raised_is_named_in_the_log_as_it_is_written(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """Not by its memory address; a callable without a name is shown by its repr."""

    class Worker:
        def ordered(self, _: object) -> None:
            raise LookupError("contained")

    here = bus.here()
    worker = Worker()
    bus.register("worker", thread=here, on_command=worker.ordered)
    bus.register("part", thread=here, on_command=partial(Worker.ordered, worker))
    bus.command("worker")
    bus.command("part")
    settle(bus)

    named, shown = [record.getMessage() for record in caplog.records]
    assert named.endswith("<locals>.Worker.ordered of task 'worker' raised")
    assert "<" not in named.removeprefix(f"{Worker.ordered.__qualname__} ")
    assert shown.startswith("functools.partial(")
    assert shown.endswith(" of task 'part' raised")


@clause("BUS-MSG-13")
def test_an_answer_that_cannot_be_encoded_is_reported_to_the_caller(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    bus.register("doer", thread=bus.here(), on_command=lambda _: object())

    with pytest.raises(RemoteError, match="PayloadError: cannot send payload"):
        bus.call("doer")

    assert info(bus, "doer").failures == 1
    assert "PayloadError" in caplog.text


@clause("BUS-MSG-13")
def test_a_task_may_say_that_it_failed(bus: Bus) -> None:
    def asked(message: Incoming) -> None:
        message.respond(error="not today")

    bus.register("doer", thread=bus.here(), on_command=asked)

    with pytest.raises(RemoteError, match="'doer' failed: not today"):
        bus.call("doer")
    assert info(bus, "doer").failures == 0


class TextlessError(Exception):
    def __str__(self) -> str:
        raise LookupError("no text")


class OwnText(str):
    """A subclass that no link carries as it is."""

    __slots__ = ()


TOO_LONG = "x" * (2 * ERROR_TEXT_BYTES_MAX)


def answered(text: str) -> Callable[[Incoming], Any]:
    """Return a callback that replies with an error."""

    def asked(message: Incoming) -> Any:
        message.respond(error=text)
        return NOREPLY

    return asked


def raising(error: Exception) -> Callable[[Incoming], Any]:
    """Return a callback that raises."""

    def asked(_: Incoming) -> Any:
        raise error

    return asked


FAILING: dict[str, tuple[Callable[[Incoming], Any], str]] = {
    "a surrogate": (raising(ValueError("bad \ud800")), r"ValueError: bad \ud800"),
    "no text": (
        raising(TextlessError()),
        "TextlessError: its text cannot be had: LookupError",
    ),
    "too long": (
        raising(ValueError(TOO_LONG)),
        f"ValueError: {TOO_LONG}"[: ERROR_TEXT_BYTES_MAX - 3] + "...",
    ),
    "a surrogate, said": (answered("bad \ud800"), r"bad \ud800"),
    "too long, said": (
        answered(TOO_LONG),
        TOO_LONG[: ERROR_TEXT_BYTES_MAX - 3] + "...",
    ),
    "a text of its own, said": (answered(OwnText("bad")), "bad"),
}


@clause("BUS-MSG-13")
@pytest.mark.parametrize("what", FAILING)
@pytest.mark.parametrize("distance", DISTANCES)
def test_an_error_with_any_text_reaches_the_caller_and_the_process_goes_on(
    bus: Bus, there: There, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A text that cannot be sent is escaped or cut; the process stays on the bus."""
    # The logged text is not encodable, so pytest processes cannot exchange it.
    caplog.set_level(logging.CRITICAL, "bus")
    callback, text = FAILING[what]
    there.register("doer", on_command=callback)
    there.register("adder", on_command=added)

    with pytest.raises(RemoteError) as caught:
        bus.call(there.at("doer"))

    assert (caught.value.name, caught.value.text) == ("doer", text)
    assert type(caught.value.text) is str
    assert bus.call(there.at("adder"), [1, 2]) == 3


@clause("BUS-MSG-13", "BUS-MSG-16")
def test_an_error_is_no_longer_than_a_message_may_be() -> None:
    with memory_bus(config=BusConfig(message_bytes_max=20)) as bus:
        bus.register("doer", thread=bus.here(), on_command=answered("x" * 100))

        with pytest.raises(RemoteError) as caught:
            bus.call("doer")

    assert caught.value.text == "x" * 14 + "..."


@clause("BUS-MSG-13")
def test_an_error_that_is_no_text_is_refused_where_it_is_given(bus: Bus) -> None:
    def asked(message: Incoming) -> Any:
        message.respond(error=b"bad")  # type: ignore[arg-type]

    bus.register("doer", thread=bus.here(), on_command=asked)

    with pytest.raises(RemoteError, match="TypeError: error must be a str or None"):
        bus.call("doer")
