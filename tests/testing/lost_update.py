"""A counter without a lock: right between lines, wrong between instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queuebroker.testing import Run

__all__ = ["Counter", "LostUpdateError", "counting"]


class LostUpdateError(Exception):
    """One of two updates was lost."""


class Counter:
    """Counts without a lock."""

    def __init__(self) -> None:
        self.n = 0

    def add(self) -> None:
        self.n += 1

    def add_twice(self) -> None:
        self.add()
        self.add()


def counting(run: Run) -> None:
    """Two tasks count one each."""
    counter = Counter()
    run.spawn(counter.add)
    run.spawn(counter.add)
    run.join()
    if counter.n != 2:
        raise LostUpdateError
