"""`Deadlines`: a heap of deadlines, so that one item costs little among many."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Deadlines"]

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
