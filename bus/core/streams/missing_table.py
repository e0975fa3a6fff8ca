"""`MissingTable`: the numbers of one stream that were skipped and have not arrived.

The table holds sorted disjoint ranges (AMO-11): a jump of any width costs one entry,
and bisection finds a number to look up or remove. It grows only at its upper end, where
the stream continues, and shrinks anywhere. It has no notion of epochs or windows.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MissingTable"]


class MissingTable:
    """Numbers below `next` of a stream that may still be accepted.

    Invariants:
    I1. ``starts[i] < stops[i] < starts[i + 1]``: no range is empty or touches the next.
    I2. ``count`` is the total of the numbers in all ranges.
    """

    __slots__ = ("_starts", "_stops", "count")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []  # the first number after each range
        self.count: int = 0

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __len__(self) -> int:
        """Return how many ranges there are."""
        return len(self._starts)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._stops[place]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges, lowest first: first missing, first not missing."""
        return zip(self._starts, self._stops, strict=True)

    @property
    def lowest(self) -> int | None:
        """The lowest missing number; None if none is missing."""
        return self._starts[0] if self._starts else None

    def append(self, start: int, stop: int) -> None:
        """Add ``start..stop - 1``, which were skipped and lie above all others."""
        if start >= stop:
            return
        if self._stops and self._stops[-1] == start:
            self._stops[-1] = stop
        else:
            self._starts.append(start)
            self._stops.append(stop)
        self.count += stop - start

    def remove(self, number: int) -> bool:
        """Remove a number that has arrived; return False if it was not missing."""
        place = bisect_right(self._starts, number) - 1
        if place < 0 or number >= self._stops[place]:
            return False
        start, stop = self._starts[place], self._stops[place]
        # Assign each slice once, with the parts of the range that remain, if any.
        left = [(start, number)] if start < number else []
        right = [(number + 1, stop)] if number + 1 < stop else []
        rest = left + right
        self._starts[place : place + 1] = [each[0] for each in rest]
        self._stops[place : place + 1] = [each[1] for each in rest]
        self.count -= 1
        return True

    def drop_below(self, floor: int) -> int:
        """Forget the numbers below ``floor``; return how many there were."""
        before = self.count
        while self._starts and self._starts[0] < floor:
            start, stop = self._starts[0], self._stops[0]
            if stop <= floor:
                del self._starts[0], self._stops[0]
                self.count -= stop - start
            else:
                self._starts[0] = floor
                self.count -= floor - start
        return before - self.count

    def drop_lowest(self) -> int:
        """Forget the lowest range; return how many numbers it had."""
        width = self._stops[0] - self._starts[0]
        del self._starts[0], self._stops[0]
        self.count -= width
        return width
