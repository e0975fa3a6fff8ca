"""A scenario: a small program for the explorer, and the clauses it holds to account.

A program makes all it works with, spawns tasks, and asserts. It leaves nobody waiting
at its end, which would be a deadlock. Programs register themselves when their module
is imported; nothing is run.
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

    spurious: wake-ups for no reason that may come in each schedule.
    wide: so many schedules that the level quick takes one preemption less.
    """

    name: str
    clauses: tuple[str, ...]
    program: Callable[[Run], object] = attrs.field(repr=False)
    spurious: int = 0
    wide: bool = False


_registry: dict[str, list[Scenario]] = {}


def scenario(
    *,
    spurious: int = 0,
    wide: bool = False,
    variants: Mapping[str, tuple[Any, ...]] | None = None,
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register the program beneath, which `specs.clauses.clause` has decorated.

    variants: by name, what the program is called with after the run; one scenario each.
    """

    def register(program: Callable[..., object]) -> Callable[..., object]:
        clauses: tuple[str, ...] = getattr(program, "__clauses__", ())
        module = program.__module__
        name = f"{module.rpartition('.test_')[2]}.{program.__name__}"
        assert clauses, f"scenario {name} names no clause"
        entries = _registry.setdefault(module, [])
        for variant, given in (variants or {"": ()}).items():
            full = f"{name}[{variant}]" if variant else name
            assert all(one.name != full for one in entries), f"two scenarios: {full}"
            bound = _bind(program, given)
            entries.append(Scenario(full, clauses, bound, spurious, wide))
        return program

    return register


def of_module(module: str) -> tuple[Scenario, ...]:
    """Give the scenarios of one module, in their order."""
    return tuple(_registry[module])


def _bind(
    program: Callable[..., object], given: tuple[Any, ...]
) -> Callable[[Run], object]:
    """Fix what comes after the run."""
    if not given:
        return program

    def bound(run: Run) -> object:
        return program(run, *given)

    return bound
