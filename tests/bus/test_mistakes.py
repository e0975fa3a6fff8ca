"""The errors for mistakes of a caller: raised at once, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import Bus, Undelivered, UnknownTaskError, UnresolvedError
from bus.journal.writer import Journal
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.serving import serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def _coroutine(_: object) -> None:
    """Be a callback that would never run."""


class _Awaited:
    """A callable object that is called like a coroutine function."""

    async def __call__(self, _: object) -> None:
        """Never run."""


@clause("BUS-DEREG-12")
def test_a_closed_bus_says_that_it_is_closed() -> None:
    with memory_bus("mist") as bus:
        here = bus.here()
        task = bus.register("task", thread=here)
    acts: list[Callable[[], object]] = [
        lambda: bus.command("x"),
        lambda: bus.call("x"),
        lambda: bus.register("x"),
        bus.thread,
        bus.here,
        lambda: list(bus.listen("x")),
        lambda: bus.wait_for("x"),
    ]
    for act in acts:
        with pytest.raises(UnknownTaskError, match="task: bus 'mist' is closed") as it:
            act()
        assert it.value.ended == "bus 'mist' is closed"
    with pytest.raises(UnknownTaskError, match=f"thread {here.name!r} is stopped"):
        here.poll()
    with pytest.raises(UnknownTaskError, match="it is not registered: 'task'"):
        task.command("x")


@clause("BUS-DEREG-12")
def test_a_waiting_caller_gets_an_error_when_the_bus_is_closed() -> None:
    with memory_bus("mist") as bus:
        bus.register("closes", on_command=lambda _: bus.close())
        bus.command("closes")

        with pytest.raises(UnknownTaskError, match="bus 'mist' is closed"):
            bus.call("nobody", timeout=None)


@clause("BUS-INIT-7")
@pytest.mark.parametrize("callback", [_coroutine, _Awaited()])
def test_a_coroutine_function_as_callback_is_refused(callback: Any) -> None:
    """And nothing changes: the name stays free."""
    with memory_bus() as bus:
        other = bus.register("other", thread=bus.here())
        acts: list[Callable[[], object]] = [
            lambda: bus.register("x", on_command=callback),
            lambda: bus.register("x", on_undelivered=callback),
            lambda: bus.task("x")(callback),
            lambda: other.on_command(callback),
            lambda: other.subscribe("x", callback),
            lambda: other.watch("x", callback),
            lambda: other.command("other", on_response=callback),
            lambda: bus.here().call_soon(callback),
        ]
        for act in acts:
            with pytest.raises(TypeError, match="is a coroutine function: a thread"):
                act()
        assert [each.address.module for each in bus.tasks()] == ["other"]


@clause("BUS-INIT-7")
def test_a_decorator_without_a_name_says_so() -> None:
    with memory_bus() as bus:
        for wrong, why in ((_Awaited(), r"needs a name: use @bus\.task"), (5, "name")):
            name: Any = wrong
            with pytest.raises(TypeError, match=why):
                bus.task(name)
        assert not bus.tasks()


def test_a_journal_that_is_closed_records_no_bus(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.close()
    with pytest.raises(ValueError, match="open until the bus is closed, got <Journal"):
        Bus("b", journal=journal)


@clause("BUS-ROUTE-19")
def test_a_name_of_another_machine_is_refused_since_a_bus_has_no_network(
    bus: Bus,
) -> None:
    """At the timeout of the call, and at that of the name's resolution."""
    lost: list[Undelivered] = []
    sender = bus.register("sender", thread=bus.here(), on_undelivered=lost.append)
    with pytest.raises(UnresolvedError, match="have opened the bus with a network"):
        sender.call("ism://far/doer", timeout=0.01)

    sender.command("ism://far/doer", timeout=0.01)
    serve(bus, lambda: lost, "it is reported")

    assert isinstance(lost[0].error, UnresolvedError)
    assert lost[0].error.elsewhere
