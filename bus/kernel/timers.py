"""`Timers`: the work of the remote manager that time brings about.

Each part that waits for a time has one `Alarm`. An event that gives the part a deadline
sets the alarm, so that no round asks the part for one. A part with many deadlines keeps
them itself, for example in `Deadlines`, and the alarm stands for the first.

So there are as many alarms as parts, however many peers, links and tasks there are: a
list needs no heap.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Alarm", "Deadlines", "Timers"]

Item = TypeVar("Item")

_STALE_MIN: Final = 64  # fewer stale entries than this are not worth a pass over all


class Deadlines(Generic[Item]):
    """The deadlines of items that wait elsewhere, in order.

    An entry counts while the item still has that deadline. So the owner of the items
    removes one, or many at once, without a call here: an interrupt never finds an item
    that waits without its deadline. Stale entries are dropped when they reach the top,
    or once they are half of all, so that an item costs O(log n).

    Args:
        deadline_of: returns the deadline of an item, in seconds, or None if it does not
            wait any more. It must not raise.
    """

    __slots__ = ("_deadline_of", "_entries_max", "_heap", "_numbers")

    def __init__(self, deadline_of: Callable[[Item], float | None]) -> None:
        self._deadline_of: Final = deadline_of
        # The number breaks ties: items need no order.
        self._heap: list[tuple[float, int, Item]] = []
        self._numbers = itertools.count()
        self._entries_max: int = 2 * _STALE_MIN

    def add(self, *waiting: tuple[Item, float]) -> None:
        """Add items, each with its deadline; call this before they wait with it.

        Of items that begin to wait together, one call adds all: another call could
        drop the deadlines of those that do not wait yet.
        """
        if len(self._heap) >= self._entries_max:
            self._drop_stale()
        for item, deadline in waiting:
            heapq.heappush(self._heap, (deadline, next(self._numbers), item))

    def next(self) -> float | None:
        """Return the earliest deadline, in seconds; None if no item waits."""
        heap, deadline_of = self._heap, self._deadline_of
        while heap:
            deadline, _, item = heap[0]
            if deadline_of(item) == deadline:
                return deadline
            heapq.heappop(heap)
        return None

    def due(self, now: float) -> Iterator[Item]:
        """Iterate over the items whose deadline has passed, in that order.

        Before the next step the caller handles the item, which has no deadline here
        from then on. If the caller is interrupted, the item stays.
        """
        while (deadline := self.next()) is not None and deadline <= now:
            first = self._heap[0]
            yield first[2]
            if self._heap and self._heap[0] is first:
                heapq.heappop(self._heap)

    def _drop_stale(self) -> None:
        live = [each for each in self._heap if self._deadline_of(each[2]) == each[0]]
        heapq.heapify(live)
        self._heap, self._entries_max = live, 2 * (len(live) + _STALE_MIN)


class Alarm:
    """The time by which one part is called.

    It may be early: nothing sets it back when a deadline ends or moves. The part then
    finds nothing due, and returns the deadline that it has by now.

    at: when the part is called, in seconds; infinite for never. A part with a single
      deadline may set it, to postpone the call.
    on_due: handles the due work; returns the next deadline, or None for none.
    """

    __slots__ = ("at", "on_due")

    def __init__(self, on_due: Callable[[float], float | None]) -> None:
        self.on_due: Final = on_due
        self.at: float = math.inf

    def by(self, deadline: float | None) -> None:
        """Have the part called by a deadline; None for none.

        Call this before the part gets the deadline: an interrupt in between leaves an
        early alarm, never a deadline without one.
        """
        if deadline is not None and deadline < self.at:
            self.at = deadline


class Timers:
    """The alarms of one process."""

    __slots__ = ("_alarms",)

    def __init__(self) -> None:
        self._alarms: Final[list[Alarm]] = []

    def alarm(self, on_due: Callable[[float], float | None]) -> Alarm:
        """Add and return the alarm of a part; see `Alarm`."""
        alarm = Alarm(on_due)
        self._alarms.append(alarm)
        return alarm

    def next(self) -> float | None:
        """Return the earliest time of an alarm, in seconds; None for never."""
        at = min([each.at for each in self._alarms], default=math.inf)
        return None if at == math.inf else at

    def run(self, now: float) -> None:
        """Call each part that is due once, in the order of creation.

        A part that becomes due meanwhile is called, too, unless its turn has passed:
        then it is due in the next call. If a part raises, it stays due.
        """
        for alarm in self._alarms:
            if alarm.at <= now:
                at = alarm.on_due(now)
                alarm.at = math.inf if at is None else at
