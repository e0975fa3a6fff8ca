"""Recorded operations, and a checker that tries every order of them.

The checker is the definition and nothing more: some order of the operations leads from
the initial state through all of them, and respects which returned before another was
called. It suits a dozen operations, and shares no code with the shipped checker.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

__all__ = ["Call", "Model", "explained", "one_by_one"]


@attrs.frozen
class Call:
    """One operation: its name, outcome, and interval.

    gives_up: True if it times out where it is not enabled, when simulated.
    """

    name: str
    args: tuple[object, ...] = ()
    result: object = None
    error: BaseException | None = None
    began: int = 0
    ended: float = math.inf
    gives_up: bool = False

    @property
    def pending(self) -> bool:
        return self.ended == math.inf


class Model(Protocol):
    """The interface of a model."""

    def initial(self) -> Any: ...
    def step(self, state: Any, operation: Any, /) -> Iterable[Any]: ...


def one_by_one(*calls: Call) -> list[Call]:
    """Return the calls, each returned before the next one was called."""
    return [
        attrs.evolve(call, began=2 * number, ended=2 * number + 1)
        for number, call in enumerate(calls)
    ]


def explained(model: Model, history: Sequence[Call]) -> bool:
    """Return whether some order explains the history; pending calls may be left out."""
    seen: set[tuple[Hashable, frozenset[int]]] = set()
    left = [(model.initial(), frozenset(range(len(history))))]
    while left:
        state, open_ = left.pop()
        if all(history[each].pending for each in open_):
            return True
        first_return = min(history[each].ended for each in open_)
        ready = (each for each in open_ if history[each].began < first_return)
        for each in ready:
            after = itertools.product(
                model.step(state, history[each]), [open_ - {each}]
            )
            for place in after:
                if place not in seen:
                    seen.add(place)
                    left.append(place)
    return False
