"""A scenario: a small program for the explorer, and the clauses it tests.

A program creates all its objects, spawns tasks, and asserts. It leaves no task waiting
at its end, which would be a deadlock. Programs register themselves when their module is
imported; nothing is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from queuebroker.testing import Run

__all__ = ["Scenario", "of_module", "scenario"]


@attrs.frozen
class Scenario:
    """One program.

    spurious: spurious wake-ups that may occur in each schedule.
    quick: preemptions up to which the level quick tries every schedule.
    share: its part of the random schedules, which variants of one program share.
    inside: functions and classes; each of their instructions is a switch point, at
      every level.
    """

    name: str
    clauses: tuple[str, ...]
    program: Callable[[Run], object] = attrs.field(repr=False)
    spurious: int = 0
    quick: int = 2
    share: float = 1.0
    inside: tuple[object, ...] = ()


_registry: dict[str, list[Scenario]] = {}


def scenario(
    *,
    spurious: int = 0,
    quick: int = 2,
    inside: tuple[object, ...] = (),
    variants: Mapping[str, tuple[Any, ...]] | None = None,
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register the program below, which `specs.clauses.clause` has decorated.

    variants: by name, the program's arguments after the run; one scenario each.
    spurious, quick, inside: as in `Scenario`.
    """

    def register(program: Callable[..., object]) -> Callable[..., object]:
        clauses: tuple[str, ...] = getattr(program, "__clauses__", ())
        module = program.__module__
        name = f"{module.rpartition('.test_')[2]}.{program.__name__}"
        assert clauses, f"scenario {name} names no clause"
        entries = _registry.setdefault(module, [])
        cases = variants or {"": ()}
        for variant, given in cases.items():
            full = f"{name}[{variant}]" if variant else name
            assert all(each.name != full for each in entries), f"two scenarios: {full}"
            bound = _bind(program, given)
            share = 1 / len(cases)
            one = Scenario(full, clauses, bound, spurious, quick, share, inside)
            entries.append(one)
        return program

    return register


def of_module(module: str) -> tuple[Scenario, ...]:
    """Return the scenarios of one module, in their order; most modules have none."""
    return tuple(_registry.get(module, ()))


def _bind(
    program: Callable[..., object], given: tuple[Any, ...]
) -> Callable[[Run], object]:
    """Bind the arguments after the run."""
    if not given:
        return program

    def bound(run: Run) -> object:
        return program(run, *given)

    return bound
