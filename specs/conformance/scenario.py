"""A scenario: a small program over a stage that fails if a clause is broken.

A program is written once and runs under the explorer and on real threads. It must
therefore order its threads by `Stage.settle`, never by time, and leave no thread
waiting at its end: the explorer would report a deadlock.

Scenarios register themselves when their module is imported; none is run.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from specs.conformance.stage import Stage

    Program = Callable[[Stage], None]

__all__ = ["Scenario", "Style", "enter", "registered", "scenario"]


class Style(enum.Enum):
    """The way in which a scenario can fail, and so how it is run."""

    STEPS = "steps"  # one thing after the other, waiters apart
    RACE = "race"  # several at once: only some schedules show the fault
    CROWD = "crowd"  # many threads or many bytes: on real threads, always


@attrs.frozen
class Scenario:
    """One program and the clauses that it checks.

    needs: the optional members it uses, in the notation of `members.has`; it is not run
      on an implementation that lacks one.
    spurious: number of spurious wake-ups that the explorer adds to each schedule.
    channels: True if the program runs over the byte channels, one byte a message.
    """

    name: str
    clauses: tuple[str, ...]
    program: Program
    needs: tuple[str, ...] = ()
    style: Style = Style.STEPS
    spurious: int = 0
    channels: bool = False

    @property
    def text(self) -> str:
        """The expectation, in one line."""
        return (self.program.__doc__ or "").strip().partition("\n")[0]

    @property
    def groups(self) -> frozenset[str]:
        """The groups of its clauses: ``QB-RDV-3`` is of ``RDV``."""
        return frozenset(clause.split("-")[1] for clause in self.clauses)


_registry: dict[str, Scenario] = {}


def scenario(
    *needs: str, style: Style = Style.STEPS, spurious: int = 0
) -> Callable[[Program], Program]:
    """Register the decorated program, which `specs.clauses.clause` decorated first."""

    def register(program: Program) -> Program:
        clauses: Any = getattr(program, "__clauses__", ())
        group = program.__module__.rpartition(".")[2]
        name = f"{group}.{program.__name__}"
        assert clauses, f"scenario {name} names no clause"
        enter(Scenario(name, tuple(clauses), program, needs, style, spurious))
        return program

    return register


def enter(entry: Scenario) -> None:
    """Put a scenario into the registry; its name must be new."""
    assert entry.name not in _registry, f"two scenarios are called {entry.name}"
    _registry[entry.name] = entry


def registered() -> tuple[Scenario, ...]:
    """Return all scenarios of the modules imported so far, in their order."""
    return tuple(_registry.values())
