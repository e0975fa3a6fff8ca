"""The receiver of a stream: the smallest machine that accepts each number once (AMO).

Numbers are kept in plain sets, one by one. The model is slow and forgets nothing; the
receiver under test keeps ranges and forgets every number it can.
"""

from __future__ import annotations

__all__ = ["Stream"]


class Stream:
    """The accepted, missing and abandoned numbers of a stream from ``first``.

    window, ranges_max: see AMO-13 and AMO-14.
    ordered: True if numbers above a gap wait (AMO-10).
    """

    def __init__(
        self, first: int, window: int, ranges_max: int, *, ordered: bool
    ) -> None:
        self.next = first
        self.window = window
        self.ranges_max = ranges_max
        self.ordered = ordered
        self.accepted: set[int] = set()
        self.missing: set[int] = set()
        self.given_up: set[int] = set()
        self.waiting: set[int] = set()

    def accept(self, first: int, count: int, floor: int) -> list[int]:
        """Accept a run of numbers; return those handed over, in order."""
        self._give_up({number for number in self.missing if number < floor})
        while self.next < floor:
            self.given_up.add(self.next)
            self.next += 1
        new = [number for number in range(first, first + count) if self._take(number)]
        if not self.ordered:
            return new
        self.waiting.update(new)
        ready = sorted(
            number
            for number in self.waiting
            if not any(gap < number for gap in self.missing)
        )
        self.waiting.difference_update(ready)
        return ready

    def gaps(self) -> list[tuple[int, int]]:
        """Return the missing ranges: first number, and first number after the range."""
        found: list[tuple[int, int]] = []
        for number in sorted(self.missing):
            if found and found[-1][1] == number:
                found[-1] = (found[-1][0], number + 1)
            else:
                found.append((number, number + 1))
        return found

    def _take(self, number: int) -> bool:
        if number in self.accepted or number in self.given_up:
            return False
        if number < self.next and number not in self.missing:
            return False  # below the first
        self.missing.update(range(self.next, number))
        self.missing.discard(number)
        self.next = max(self.next, number + 1)
        self.accepted.add(number)
        far = self.next - 2 * self.window
        self._give_up({gap for gap in self.missing if gap < far})
        while len(self.gaps()) > self.ranges_max:
            self._give_up(set(range(*self.gaps()[0])))
        return True

    def _give_up(self, numbers: set[int]) -> None:
        self.missing -= numbers
        self.given_up |= numbers
