"""Who decides at a switch point: the `Strategy` that a scheduler asks."""

from __future__ import annotations

from typing import Protocol

__all__ = ["DivergenceError", "Strategy"]


class Strategy(Protocol):
    """Answers with the number of an option; asked only if there are several.

    Option 0 is the task that runs, if it can go on; then come the others that can,
    oldest first. From ``calm`` on it is what only a slow or odd machine does: the
    earliest deadline passes early, a sleeper wakes for no reason. Options from ``free``
    on count as a preemption.

    Both methods raise `DivergenceError` if the options cannot be those they know.
    """

    def choose(self, options: int, free: int, calm: int) -> int:
        """Choose where a task is about to take something, to wait, to start another."""

    def choose_after_release(self, options: int, free: int, calm: int) -> int:
        """Choose where a task has just released something, and could go on."""


class DivergenceError(Exception):
    """The options are others than the last time the same choices were made."""
