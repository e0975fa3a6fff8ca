"""One small run of an implementation, to find its driver and its members.

It passes no judgement: a fault here fails again in a scenario, which reports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from specs.conformance import explored, real
from specs.conformance.members import has
from specs.conformance.stage import Driver, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Trial", "try_out"]

# A larger buffer is not measured by filling it: every scenario that needs a full one
# would fill it anew in each schedule.
CAPACITY_MAX = 128


@attrs.frozen
class Trial:
    """The findings of the run.

    explored: True if the explorer controls every primitive the implementation uses.
    met: the needs that the implementation meets.
    capacity: number of messages that fit by default, None if it never became full.
    """

    explored: bool
    met: frozenset[str]
    capacity: int | None

    @property
    def driver(self) -> str:
        """The name of the driver that runs it."""
        return explored.NAME if self.explored else real.NAME


class _Findings:
    """The findings of the program, filled while it runs and kept if it then fails."""

    def __init__(self) -> None:
        self.met: set[str] = set()
        self.capacity: int | None = None


def try_out(factory: Callable[[], Any], needs: frozenset[str]) -> Trial:
    """Run the trial under the explorer, or on real threads if that is impossible."""
    findings = _Findings()

    def program(driver: Driver) -> None:
        _look_around(Stage(factory, driver), needs, findings)

    controlled = explored.controls(program)
    if not controlled:
        findings = _Findings()
        real.try_program(program)
    met = findings.met | ({"explorer"} if controlled else set())
    if findings.capacity is not None or "broker.accept(capacity)" in met:
        met.add("bounded")
    return Trial(controlled, frozenset(met), findings.capacity)


def _look_around(stage: Stage, needs: frozenset[str], findings: _Findings) -> None:
    objects = {"factory()": stage.world, "broker": stage.broker("b")}
    look = [need for need in needs if "." in need]

    def note() -> None:
        findings.met.update(need for need in look if has(objects, need))

    note()
    left, right = stage.pair()
    left.send(b"m")
    right.receive()
    objects["queue"] = left
    note()
    findings.capacity = _capacity(stage, left, right)
    for end in (left, right):
        end.disconnect()
    if hasattr(stage.world, "channels"):
        objects["channels"] = server = stage.world.channels("server")
        note()
        accept = stage.spawn(server.accept, 1)
        client = stage.world.channels("client")
        stage.value(stage.spawn(client.connect, "server", 1))
        objects["channel"] = stage.value(accept)
        note()
    stage.strike()


def _capacity(stage: Stage, left: Any, right: Any) -> int | None:
    """Return the number of messages sent before a send waits."""
    sent = 0
    enough = False

    def fill() -> None:
        nonlocal sent
        while sent <= CAPACITY_MAX and not enough:
            left.send(b"m")
            sent += 1

    sender = stage.spawn(fill)
    stage.settle()
    found = None if sender.done else sent
    enough = True
    if not sender.done:
        right.receive()
        stage.join(sender)
    return found
