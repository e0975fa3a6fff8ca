"""`Notices`: each `Condition.notify` of a run, and the ones that came too early.

A bare ``wait()`` has no predicate. Suppose it never ends, and its condition was
notified while no task slept there. That may be the cause, or it may be normal, as in
every loop around a wait. A second run decides: it keeps the notify for the next task
that waits. If that run succeeds, the wake-up was lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection

    from queuebroker.testing.places import Place
    from queuebroker.testing.task import Task

__all__ = ["Notice", "Notices"]


@attrs.frozen
class Notice:
    """One notify of a condition, with the task that made it.

    waiters: the condition's own collection of waiters. in_vain: True if no task slept
      there.
    """

    waiters: Collection[object]
    task: str
    place: Place | None
    in_vain: bool


class Notices:
    """The notifies of one run.

    keeping: if True, a notify without a sleeper is kept for the next bare wait in the
    user's code, which then ends at once. A real condition never does this.
    """

    def __init__(self, *, keeping: bool = False) -> None:
        self._keeping = keeping
        self._all: list[Notice] = []

    def add(self, notice: Notice) -> None:
        """Record the notify of a condition."""
        self._all.append(notice)

    def last(self, sleeper: Task) -> Notice | None:
        """Return the last notify of the condition at which a task sleeps."""
        mine = (n for n in reversed(self._all) if sleeper.obstacle in n.waiters)
        return next(mine, None)

    def take(self, waiters: Collection[object]) -> bool:
        """Take the notify kept for a task about to wait; False if there is none."""
        if not self._keeping:
            return False
        for notice in self._all:
            if notice.waiters is waiters and notice.in_vain:
                self._all.remove(notice)
                return True
        return False
