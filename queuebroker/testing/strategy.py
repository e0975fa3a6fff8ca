"""`Strategy`: the decisions of a scheduler at its switch points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queuebroker.testing.task import Task

__all__ = ["DivergenceError", "Strategy"]


class Strategy(Protocol):
    """An object that selects an option by its number, if there are several.

    An option is a task that could run next. Option 0 is the running task, if it can go
    on; the other tasks that can go on follow, oldest first. Options from number
    ``odd_from`` on occur only on a slow or odd machine: the earliest deadline passes
    early, or a sleeper wakes spuriously. Options from ``preempts_from`` on count as a
    preemption.

    Both methods raise `DivergenceError` if the options differ from the expected ones.
    """

    def choose(self, options: Sequence[Task], preempts_from: int, odd_from: int) -> int:
        """Choose where a task is about to take a lock, to wait, or to start a task."""

    def choose_after_release(
        self, options: Sequence[Task], preempts_from: int, odd_from: int
    ) -> int:
        """Choose where a task has just released a lock, and could go on."""


class DivergenceError(Exception):
    """The options differ from those of an earlier run with the same choices."""
