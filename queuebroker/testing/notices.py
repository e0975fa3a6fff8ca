"""Whom each `Condition.notify` of a run reached, and which came too early: `Notices`.

A bare ``wait()`` does not say what it waits for. When it never ends, and its condition
was notified while nobody slept there, that may be why, or it may be what happens with
every loop around a wait. The run can tell: it is done once more, and this time the
notify is kept for the next who comes. If all ends well then, the wake-up was lost.
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
    """That a condition was notified, and by whom.

    waiters: those that the condition has at any time. in_vain: nobody slept there.
    """

    waiters: Collection[object]
    task: str
    place: Place | None
    in_vain: bool


class Notices:
    """The notifies of one run.

    keeping: one that reached nobody is kept for the next bare wait of a user's, which
    ends at once. Nothing in production does so.
    """

    def __init__(self, *, keeping: bool = False) -> None:
        self._keeping = keeping
        self._all: list[Notice] = []

    def add(self, notice: Notice) -> None:
        """A condition is notified."""
        self._all.append(notice)

    def last(self, sleeper: Task) -> Notice | None:
        """The last one of the condition at which a task sleeps."""
        mine = (n for n in reversed(self._all) if sleeper.obstacle in n.waiters)
        return next(mine, None)

    def take(self, waiters: Collection[object]) -> bool:
        """Whether one is kept for who is about to wait; it is so once."""
        if not self._keeping:
            return False
        for notice in self._all:
            if notice.waiters is waiters and notice.in_vain:
                self._all.remove(notice)
                return True
        return False
