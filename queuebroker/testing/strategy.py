"""Who decides at a switch point: the `Strategy` that a scheduler asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queuebroker.testing.task import Task

__all__ = ["DivergenceError", "Strategy"]


class Strategy(Protocol):
    """Says which option is taken, by its number; asked only if there are several.

    An option is a task that would run. Option 0 is the one that runs already, if it
    can go on; then come the others that can, oldest first. Options from number
    ``odd_from`` on are what only a slow or odd machine does: the earliest deadline
    passes early, a sleeper wakes spuriously. Those from ``preempts_from`` on count as
    a preemption.

    Both methods raise `DivergenceError` if the options cannot be those they know.
    """

    def choose(self, options: Sequence[Task], preempts_from: int, odd_from: int) -> int:
        """Choose where a task is about to take something, to wait, to start another."""

    def choose_after_release(
        self, options: Sequence[Task], preempts_from: int, odd_from: int
    ) -> int:
        """Choose where a task has just released something, and could go on."""


class DivergenceError(Exception):
    """The options are others than the last time the same choices were made."""
