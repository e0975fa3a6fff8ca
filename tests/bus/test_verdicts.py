"""OPEN-3: a slave asks its master whether a name is free, and waits for the verdict."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from bus import NameTakenError
from bus.api import bus as bus_module
from bus.process.verdict import Verdict
from specs.clauses import clause
from tests.bus.support import There
from tests.kit.comm_threads import comm_of, held
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus


@contextmanager
def joined(bus: Bus) -> Iterator[There]:
    """Yield another process that has found its master."""
    with There(bus, "other process") as there:
        until(lambda: comm_of(there.bus).remote.topology.has_master, "it has joined")
        yield there


@clause("OPEN-3", "BUS-NAME-7", "BUS-INIT-15")
def test_registering_a_taken_name_raises_on_the_verdict_of_the_master(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """The name is unknown in this process; a rejected registration leaves no trace."""
    bus.register("doer", on_command=lambda _: "ours")
    with joined(bus) as there:
        with pytest.raises(NameTakenError, match="'doer'"):
            there.register("doer")

        until(lambda: not there.bus.tasks(), "it has left")
        assert there.bus.call("doer") == "ours"
    assert caplog.text == ""


@clause("OPEN-3")
def test_registering_within_a_callback_does_not_wait_for_the_verdict(
    bus: Bus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "_VERDICT_S", 10 * LIMIT_S)
    bus.register("doer", on_command=lambda _: "ours")
    with joined(bus) as there:
        there.register("maker", on_command=lambda _: bool(there.register("doer")))

        with held(there.bus):
            assert there.bus.call("maker") is True
        until(lambda: "'doer' is deregistered" in caplog.text, "it is reported")


@clause("OPEN-3")
def test_commands_sent_before_a_registration_are_read_after_the_verdict(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback usually uses its own task, which is returned by then."""
    seen: list[Any] = []
    waits = Verdict.wait

    def wait(verdict: Verdict, deadline: float) -> None:
        waits(verdict, deadline)
        behind = Event()
        there.thread._manager.ask(behind.set)
        assert behind.wait(LIMIT_S)
        assert seen == []

    with joined(bus) as there:
        bus.command("doer", 1)
        there.bus.command("doer", 1)
        monkeypatch.setattr(Verdict, "wait", wait)

        there.register("doer", on_command=lambda message: seen.append(message.payload))

        until(lambda: seen == [1, 1], "both are read")


@clause("OPEN-3")
def test_an_interrupt_while_waiting_for_a_verdict_registers_no_task(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with joined(bus) as there:
        monkeypatch.setattr(Verdict, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            there.register("doer")

        until(lambda: not there.bus.tasks(), "it has left")
        bus.register("doer")


@clause("BUS-MOVE-7")
def test_a_task_that_registered_too_late_raises_name_taken_when_used(
    bus: Bus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "_VERDICT_S", 0.0)
    with There(bus, "other process") as there:
        with held(there.bus):
            bus.register("doer", on_command=lambda _: "ours")
            late = there.register("doer", on_command=lambda _: "theirs")

        until(lambda: "'doer' is deregistered" in caplog.text, "it is reported")
        with pytest.raises(NameTakenError, match="'doer'"):
            late.command("nobody")
        assert there.bus.call("doer") == "ours"
