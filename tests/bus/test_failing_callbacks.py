"""Callbacks that raise repeatedly, do not return, or do not answer."""

from __future__ import annotations

import logging
import re
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from bus import Bus, CommandTimeoutError
from bus.process import failures as bus_failures
from bus.testing import memory_bus
from specs.clauses import clause
from tests.bus.support import There
from tests.kit.buses import socket_bus
from tests.kit.clock import Clock
from tests.kit.comm_threads import held
from tests.kit.constants import configured
from tests.kit.inspection import info
from tests.kit.serving import settle
from tests.kit.systems import needs_unix_sockets
from tests.kit.tasks import Holder
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable


FEW = bus_failures.TRACEBACKS_MAX


def _fails(message: Any) -> None:
    raise {"lookup": LookupError, "value": ValueError}[message.payload]("contained")


@clause("BUS-MSG-13")
def test_a_callback_that_raises_for_each_message_does_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each used to log a traceback: 3,000 failures made 24,000 lines."""
    with memory_bus() as bus:
        here = bus.here()
        bus.register("one", thread=here, on_command=_fails)
        bus.register("two", thread=here, on_command=_fails)
        for number in range(100):
            bus.command("one" if number % 2 else "two", "lookup")
        bus.command("one", "value")
        settle(bus)

        assert info(bus, "one").failures == 51
        assert caplog.text.count("Traceback") == FEW + 1

    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "_fails of task 'two' raised"
    assert said[FEW - 1].endswith("raised; more within 60 s are only counted")
    assert said[-1] == f"_fails raised LookupError {100 - FEW} more times"


@clause("BUS-MSG-13")
def test_two_callbacks_of_one_name_are_two_callbacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The tracebacks of the first one used to consume the limit of the second."""
    with memory_bus() as bus:
        here = bus.here()
        bus.register("one", thread=here, on_command=lambda _: 1 / 0)
        bus.register("two", thread=here, on_command=lambda _: 2 / 0)
        for _ in range(FEW + 2):
            bus.command("one")
            bus.command("two")
        settle(bus)
        assert caplog.text.count("Traceback") == 2 * FEW
        for name in ("one", "two"):
            assert f"<lambda> of task {name!r} raised" in caplog.text


@clause("BUS-MSG-13")
def test_a_new_period_logs_tracebacks_and_the_number_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = bus_failures.CallbackFailures()
    clock = Clock.installed(monkeypatch, 0.0)

    def fail(times: int) -> None:
        for _ in range(times):
            try:
                raise LookupError
            except LookupError:
                failures.log("callback", "task 'one'")

    fail(FEW + 3)
    clock.now = bus_failures.PERIOD_S
    fail(1)

    said = [record.getMessage() for record in caplog.records]
    assert said[FEW:] == [
        "callback raised LookupError 3 more times",
        "callback of task 'one' raised",
    ]
    assert caplog.text.count("Traceback") == FEW + 1


@clause("BUS-MSG-13")
def test_the_record_of_failing_callbacks_is_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A callback without a name may look new each time; no count is lost."""
    failures = bus_failures.CallbackFailures()

    def fail(name: str) -> None:
        try:
            raise LookupError
        except LookupError:
            failures.log(name, "task 'one'")

    for _ in range(FEW + 1):
        fail("oldest")
    for number in range(bus_failures.KINDS_MAX):
        fail(f"callback {number}")

    assert len(failures._kinds) == bus_failures.KINDS_MAX
    assert "oldest raised LookupError 1 more times" in caplog.text


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("act", ["close", "stop"])
def test_a_callback_that_keeps_a_thread_from_ending_is_named(
    act: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log used to stay silent while the callback did not return."""
    bus = Bus("bus1", config=configured(STUCK_CALLBACK_S=0.01))
    with Threads() as threads, Holder.holding(bus) as holder:
        ending = threads.start(bus.close if act == "close" else holder.thread.stop)
        until(lambda: bool(caplog.records), "it is named")
        holder.let_go()
        ending.result()
    bus.close()

    [record] = caplog.records
    assert record.levelno == logging.WARNING
    said = record.getMessage()
    assert said.startswith(
        "bus 'bus1' waits for thread 'holder' to end: Holder._read of task 'holder'"
        " has not returned for"
    )
    # First the callback's own line, then the innermost call, the wait of an `Event`.
    assert re.search(
        r"at \S+\.py:\d+ in Holder\._read, in a call to \S+threading", said
    )


@clause("BUS-DEREG-12")
def test_a_callback_for_commands_that_came_together_is_named_if_it_is_stuck(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The library's own function was named, since the scheduler calls the callback."""
    with memory_bus(config=configured(STUCK_CALLBACK_S=0.01)) as bus:
        holder = Holder(bus, holds=lambda payload: payload != b"early")
        with There(bus, "other process") as there, Threads() as threads:
            there.bus.call("holder", b"early", timeout=LIMIT_S)
            sender = there.register("sender")
            with held(there.bus):
                for _ in range(4):
                    sender.command("holder", b"late")
            assert holder.held.wait(LIMIT_S)
            ending = threads.start(holder.thread.stop)
            until(lambda: bool(caplog.records), "it is named")
            holder.let_go()
            ending.result()

    assert "Holder._read of task 'holder' has not returned" in caplog.text


@clause("BUS-DEREG-12")
def test_a_callback_that_keeps_the_thread_of_its_author_from_ending_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = Bus("bus1", config=configured(STUCK_CALLBACK_S=0.01))
    held, go = Event(), Event()

    def serves() -> None:
        bus.register("task", thread=bus.here("author's"), on_command=hold)
        bus.command("task")
        bus.here().run()

    def hold(_: object) -> None:
        held.set()
        go.wait()

    with Threads() as threads:
        threads.start(serves)
        assert held.wait(10)
        closing = threads.start(bus.close)
        until(lambda: bool(caplog.records), "it is named")
        go.set()
        closing.result()

    assert 'thread "author\'s" to end: ' in caplog.text
    assert "<locals>.hold of task 'task'" in caplog.text


@clause("BUS-DEREG-12")
def test_a_thread_that_ends_in_time_is_not_mentioned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with memory_bus(config=configured(STUCK_CALLBACK_S=0.001)) as bus:
        bus.register("task", thread=bus.thread(), on_command=lambda _: None)
        bus.command("task")

    assert not caplog.records


# The error of a call without an answer names the cause and the remedy.


@clause("BUS-FLOW-5")
def test_a_call_to_a_task_without_a_callback_names_the_remedy(bus: Bus) -> None:
    bus.register("silent", thread=bus.thread())

    with pytest.raises(CommandTimeoutError, match="with on_command=") as caught:
        bus.call("silent", timeout=0.01)

    assert caught.value.why == "it has no callback; register it with on_command="


@needs_unix_sockets
@clause("BUS-FLOW-5")
@pytest.mark.parametrize("served", [False, True], ids=["asleep", "serving"])
def test_a_call_to_a_task_in_another_process_names_the_remedy_too(
    near: Bus, served: bool
) -> None:
    """The caller sleeps, or serves the thread of the calling task."""
    with socket_bus("far") as far:
        far.register("silent", thread=far.thread())
        far.register("idle", thread=far.here("mine"), on_command=lambda _: None)
        asker = near.register("asker", thread=near.here() if served else None)
        near.wait_for("silent")
        near.wait_for("idle")

        with pytest.raises(CommandTimeoutError) as silent:
            asker.call("silent", timeout=0.2)
        with pytest.raises(CommandTimeoutError) as idle:
            asker.call("idle", timeout=0.2)

    assert silent.value.why == "it has no callback; register it with on_command="
    assert idle.value.why.startswith("its thread 'mine' is not being served; ")


@needs_unix_sockets
@clause("BUS-FLOW-5")
def test_a_call_to_a_process_that_does_not_give_the_reason_ends_nevertheless(
    near: Bus,
) -> None:
    with socket_bus("far") as far:
        far.register("silent", thread=far.thread())
        with pytest.raises(CommandTimeoutError):
            near.call("silent", timeout=0.2)  # now there is a relay
        with held(far), pytest.raises(CommandTimeoutError) as caught:
            near.call("silent", timeout=0.05)

    assert caught.value.why == ""


@clause("BUS-FLOW-5")
def test_a_call_to_a_task_in_an_unserved_thread_names_the_remedy(
    bus: Bus,
) -> None:
    bus.register("task", thread=bus.here("mine"), on_command=lambda _: None)
    with Threads() as threads:
        error = threads.start(partial(bus.call, "task", timeout=0.01)).error()

    assert "its thread 'mine' is not being served; call run() or poll()" in str(error)


@clause("BUS-FLOW-5")
def test_a_call_by_a_task_in_an_unserved_thread_names_the_remedy(
    bus: Bus,
) -> None:
    """The answer arrives, in a thread that does not read it."""
    answered = Event()

    def answer(_: object) -> None:
        answered.set()

    bus.register("task", thread=bus.thread(), on_command=answer)
    asker = bus.register("asker", thread=bus.here("mine"))
    with Threads() as threads:
        error = threads.start(partial(asker.call, "task", timeout=0.2)).error()

    assert answered.is_set()
    assert str(error) == (
        "no answer from 'task': waited for 0.2 s: an answer to task 'asker' is read in"
        " its thread 'mine', which is not being served; call run() or poll() there, or"
        " register the task with thread=bus.thread()"
    )


@clause("BUS-FLOW-5")
def test_a_call_to_a_thread_with_a_stuck_callback_names_that_callback(
    bus: Bus,
) -> None:
    with Holder.holding(bus) as holder:
        bus.register("behind", thread=holder.thread, on_command=lambda _: None)

        with pytest.raises(
            CommandTimeoutError,
            match=r"its thread 'holder' has been in a callback of task 'holder' for \d",
        ):
            bus.call("behind", timeout=0.2)


REFUSED: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "Bus.call": (
        lambda bus, _: bus.call("doer"),
        r"cannot call within a callback, .*: use Task\.command\(on_response=\)",
    ),
    "Task.call": (
        lambda _, task: task.call("doer"),
        r"cannot call 'doer' within a callback, .*: use command\(on_response=\)",
    ),
    "Bus.listen": (lambda bus, _: bus.listen("doer"), r"use Task\.subscribe"),
    "Bus.wait_for": (lambda bus, _: bus.wait_for("doer"), r"use Task\.watch"),
    "BusThread.poll": (
        lambda bus, _: bus.here().poll(),
        "cannot poll within a callback: .* return from the callback",
    ),
}


@clause("BUS-MSG-11")
@pytest.mark.parametrize("what", REFUSED)
def test_a_wait_within_a_callback_is_refused_with_its_remedy(
    bus: Bus, what: str
) -> None:
    act, words = REFUSED[what]
    here = bus.here()
    errors: list[str] = []

    def within(_: object) -> None:
        with pytest.raises(RuntimeError, match=words):
            act(bus, task)
        errors.append(what)

    task = bus.register("doer", thread=here, on_command=within)
    task.command("doer")
    settle(bus)

    assert errors == [what]


@clause("BUS-MSG-11")
def test_to_serve_in_another_thread_is_refused_with_its_remedy(bus: Bus) -> None:
    here = bus.here("mine")
    for act in (here.run, here.poll, bus.register("x", thread=here).receive):
        with Threads() as threads:
            error = threads.start(act).error()
        assert isinstance(error, RuntimeError)
        assert "only the thread that serves 'mine' may" in str(error)
        assert "thread=bus.thread(), which serves itself" in str(error)
