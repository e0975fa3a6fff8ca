"""The parts without a lock, under every schedule of instructions up to a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.pattern.drop_ledger import Drop, DropLedger
from bus.pattern.inproc import InprocConnection, InprocRegistry
from bus.pattern.node import Node
from bus.pattern.socket_config import SocketConfig
from bus.pattern.wire import EndpointType
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def _under_schedules(program: Callable[[Run], None], part: object) -> None:
    """Switch threads also between the instructions of ``part``."""
    explore(
        program,
        bound=2,
        limit=schedules(4000),
        random=schedules(300),
        seed=1,
        bytecode=[part],
    )


@pytest.mark.deep
@clause("BP-4")
def test_each_drop_is_reported_once() -> None:
    """Two threads and their callbacks cause drops."""

    def program(run: Run) -> None:
        reported = 0

        def on_drop(drop: Drop) -> None:
            nonlocal reported
            with lock:
                reported += drop.count
                goes_on = reported < 4
            if goes_on:
                node.send(b"again")

        lock = _sync.Lock()
        node = Node(
            SocketConfig(), EndpointType.BUS, EndpointType.NATIVE_BUS, on_drop=on_drop
        )
        run.spawn(node.send, b"0")
        node.send(b"1")
        run.join()
        assert reported == sum(node.stats().dropped.values()) >= 4

    _under_schedules(program, DropLedger)


@pytest.mark.deep
@clause("BP-17")
@pytest.mark.parametrize("others", [["dial"], ["dial", "leave"], ["leave", "leave"]])
def test_a_dialler_of_the_process_finds_its_listener(others: list[str]) -> None:
    """Others enter and leave the registry meanwhile, and it keeps no empty list."""

    def program(run: Run) -> None:
        registry = InprocRegistry()
        found: list[str] = []

        class Caller:
            def __init__(self, name: str) -> None:
                self.name = name
                self.closed = False

            def dial(self) -> None:
                end: Any = self.name
                if not self.closed and registry.dial("n", end, self.dial):
                    found.append(self.name)

            def dial_and_leave(self) -> None:
                self.dial()
                self.closed = True
                registry.forget("n", self.dial)

        def accept(_: InprocConnection) -> bool:
            return True

        staying = Caller("stays")
        run.spawn(staying.dial)
        for name in others:
            caller = Caller(name)
            run.spawn(caller.dial if name == "dial" else caller.dial_and_leave)
        run.join()
        registry.listen("n", accept)
        wanted = ["stays"] + [name for name in others if name == "dial"]
        assert sorted(found) == sorted(wanted)
        assert not registry._waiting

    _under_schedules(program, InprocRegistry)


@clause("BP-17")
def test_a_listener_and_a_dialler_of_the_process_find_each_other() -> None:
    def program(run: Run) -> None:
        registry = InprocRegistry()
        found: list[object] = []
        end: Any = object()

        def dial() -> None:
            if registry.dial("n", end, dial):
                found.append(end)

        run.spawn(dial)
        registry.listen("n", lambda _: True)
        run.join()
        assert found == [end]
        assert not registry._waiting

    _under_schedules(program, InprocRegistry)
