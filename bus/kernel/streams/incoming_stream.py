"""`IncomingStream`: the messages one process has accepted from another, each once.

This is the receiver's algorithm (specs/at-most-once.md), for one epoch of one sender.
Messages arrive in runs of consecutive numbers, as a batch frame carries them. A run is
tested and recorded in one call, before any of it is handed over (AMO-7, AMO-8). So a
message is never handed over again, whatever happens to it afterwards. This class only
takes decisions: it uses no clock, no link and no lock. One thread at a time calls it.

`MissingTable` has the numbers of the stream that were skipped and have not arrived, as
sorted disjoint ranges (AMO-11): a jump of any width costs one entry, and bisection
finds a number to look up or remove. It grows only at its upper end, where the stream
continues, and shrinks anywhere. It has no notion of epochs or windows.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from msgspec import Struct

from bus.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["NUMBERS", "Acknowledgement", "IncomingStream", "MissingTable"]


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


M = TypeVar("M")

NUMBERS: Final = 2**64  # numbers are unsigned 64 bit and end below this (AMO-15)


class Acknowledgement(Struct, frozen=True):
    """The receiver's state: it has all numbers below ``next`` but ``missing`` (AMO-23).

    next: the smallest number above all those accepted or given up so far.
    missing: ranges of numbers that may still be sent, lowest first; of each, the first
      number and the first one after it.
    """

    next: int
    missing: tuple[tuple[int, int], ...] = ()


class IncomingStream(Generic[M]):
    """One sender's numbers in one epoch: accepted, missing, or given up (AMO-9).

    Args:
        first: the number the sender named when it opened the stream (AMO-6).
        window: the most numbers a correct sender has outstanding (AMO-13).
        ranges_max: the most ranges that may be missing (AMO-14).
        ordered: hand over in rising order; messages above a gap are held until the gap
          is filled or given up (AMO-10).
        strict: refuse a jump that no correct sender makes, instead of giving up.

    Attributes:
        next: the smallest number above all those accepted or given up so far.
        accepted, given_up: how many numbers, counted from ``first``.
        refused: messages not accepted, both duplicates and late ones.

    Invariants:
    I1. ``accepted + given_up + missing.count == next - first``.
    I2. every number missing or held is at least ``next - 2 * window``; at most
        ``ranges_max`` ranges are missing.
    I3. a number is held only while one below it is missing.
    """

    __slots__ = (
        "_first",
        "_held",
        "_missing",
        "_ordered",
        "_ranges_max",
        "_span",
        "_strict",
        "given_up",
        "next",
        "refused",
    )

    def __init__(
        self,
        first: int = 1,
        *,
        window: int,
        ranges_max: int,
        ordered: bool = True,
        strict: bool = False,
    ) -> None:
        self._first = first
        self._span = 2 * window
        self._ranges_max = ranges_max
        self._ordered = ordered
        self._strict = strict
        self._missing = MissingTable()
        self._held: list[tuple[int, M]] = []  # a heap: accepted, and above a gap
        self.next: int = first
        self.given_up: int = 0
        self.refused: int = 0

    @property
    def accepted(self) -> int:
        """The number of accepted messages."""
        return self.next - self._first - self.given_up - self._missing.count

    @property
    def held(self) -> int:
        """The number of accepted messages held above a gap."""
        return len(self._held)

    @property
    def acknowledgement(self) -> Acknowledgement:
        """The acknowledgement for the sender, also after duplicates (AMO-24)."""
        return Acknowledgement(self.next, tuple(self._missing))

    def accept(self, first: int, messages: Sequence[M], floor: int) -> list[M]:
        """Record messages numbered from ``first``; return those to hand over.

        floor: the sender will never again send a number below this one.

        Raises:
            WireError: the numbers exceed 64 bits (AMO-15), or no correct sender of a
              ``strict`` stream sends them (AMO-14). Nothing is changed.
        """
        stop = first + len(messages)
        if first < 1 or stop > NUMBERS or floor > NUMBERS:
            msg = f"numbers {first} to {stop - 1}, floor {floor}, exceed 64 bits"
            raise WireError(msg)
        if self._strict and stop > max(self.next, floor) + self._span:
            msg = f"number {stop - 1} is too far above {max(self.next, floor)}"
            raise WireError(msg)
        self._give_up_below(floor)
        if first == self.next and not self._missing:
            self.next = stop
            fresh = list(enumerate(messages, first))
        else:
            run = enumerate(messages, first)
            fresh = [numbered for numbered in run if self._is_new(numbered[0])]
        if not self._ordered or not (self._missing or self._held):
            return [message for _, message in fresh]
        for numbered in fresh:
            heappush(self._held, numbered)  # by number, which no two share
        return self._take_in_order()

    def accept_next(self, first: int, count: int, floor: int) -> bool:
        """Record the next run, to be handed over as a whole; return True on success.

        False if the run does not start at ``next``, the stream is ordered and any
        message is held or missing, or the run is to be refused. Then nothing is
        changed, and `accept` handles the run.
        """
        stop = first + count
        if (
            first != self.next
            or (self._ordered and (self._missing or self._held))
            or not floor <= first <= stop <= NUMBERS
            or (self._strict and count > self._span)
        ):
            return False
        self.next = stop
        if self._missing:
            self.given_up += self._missing.drop_below(max(floor, stop - self._span))
        return True

    def give_up_below(self, floor: int) -> list[M]:
        """Apply a floor that came without messages; return those to hand over."""
        return self.accept(self.next, (), floor)

    def _is_new(self, number: int) -> bool:
        """Record a number; return True if it was neither accepted nor given up."""
        if number < self.next:
            if self._missing.remove(number):
                return True
            self.refused += 1
            return False
        self._missing.append(self.next, number)
        self.next = number + 1
        # Bound the memory that an incorrect sender can use. The stream forgets that a
        # number may be accepted, never that it was (AMO-14).
        self.given_up += self._missing.drop_below(self.next - self._span)
        while len(self._missing) > self._ranges_max:
            self.given_up += self._missing.drop_lowest()
        return True

    def _give_up_below(self, floor: int) -> None:
        self.given_up += self._missing.drop_below(floor)
        if floor > self.next:
            self.given_up += floor - self.next
            self.next = floor

    def _take_in_order(self) -> list[M]:
        """Remove and return the held messages with no gap below them, in order."""
        lowest = self._missing.lowest
        gap = self.next if lowest is None else lowest
        released = []
        while self._held and self._held[0][0] < gap:
            released.append(heappop(self._held)[1])
        return released
