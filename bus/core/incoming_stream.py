"""`IncomingStream`: what one process has accepted of another's messages, each once.

The receiver's algorithm (specs/at-most-once.md), for one epoch of one sender. Messages
come in runs of consecutive numbers, as a batch frame carries them. A run is tested and
recorded in one call, before any of it is handed over (AMO-7, AMO-8): whatever happens
to a message afterwards, it is never handed over again. This decides and does nothing
else: no clock, no link, no lock; one thread at a time calls it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from msgspec import Struct

from bus.core.missing_table import MissingTable
from bus.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NUMBERS", "Acknowledgement", "IncomingStream"]

M = TypeVar("M")

NUMBERS: Final = 2**64  # numbers are unsigned 64 bit and end below this (AMO-15)


class Acknowledgement(Struct, frozen=True):
    """What a receiver has: all below ``next`` but ``missing`` (AMO-23).

    next: the smallest number above all accepted and all given up so far.
    missing: ranges of numbers that may still be sent, lowest first: the first of each
      and the first after it.
    """

    next: int
    missing: tuple[tuple[int, int], ...] = ()


class IncomingStream(Generic[M]):
    """One sender's numbers in one epoch: accepted, missing, or given up (AMO-9).

    Args:
        first: the number the sender named when it opened the stream (AMO-6).
        window: how many numbers a correct sender has outstanding at most (AMO-13).
        ranges_max: how many ranges may be missing (AMO-14).
        ordered: hand over in rising order; what came above a gap waits until the gap
          is filled or given up (AMO-10).
        strict: refuse a jump that no correct sender makes, instead of giving up.

    Attributes:
        next: the smallest number above all accepted and all given up so far.
        accepted, given_up: how many numbers, from ``first`` on.
        refused: messages that were not accepted, duplicates and late ones alike.

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
        """How many messages were accepted."""
        return self.next - self._first - self.given_up - self._missing.count

    @property
    def held(self) -> int:
        """How many accepted messages wait for a gap below them."""
        return len(self._held)

    @property
    def acknowledgement(self) -> Acknowledgement:
        """What the sender is to be told, after duplicates too (AMO-24)."""
        return Acknowledgement(self.next, tuple(self._missing))

    def accept(self, first: int, messages: Sequence[M], floor: int) -> list[M]:
        """Record a run of messages numbered from ``first``; return what to hand over.

        floor: the sender's promise that no number below it will be sent again.

        Raises:
            WireError: the numbers leave the 64 bits (AMO-15), or no correct sender of a
              ``strict`` stream sends them (AMO-14). Nothing is changed.
        """
        stop = first + len(messages)
        if first < 1 or stop > NUMBERS or floor > NUMBERS:
            msg = f"numbers {first} to {stop - 1}, floor {floor}, leave the 64 bits"
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
        return self._released()

    def accept_next(self, first: int, count: int, floor: int) -> bool:
        """Record a run that follows what came without a gap, to be handed over whole.

        False if it does not, or anything is held or missing, or it is to be refused;
        then nothing is changed, and `accept` says what becomes of it.
        """
        stop = first + count
        if (
            first != self.next
            or self._missing
            or self._held
            or not floor <= first <= stop <= NUMBERS
            or (self._strict and count > self._span)
        ):
            return False
        self.next = stop
        return True

    def give_up_below(self, floor: int) -> list[M]:
        """Do as a floor says that came without messages; return what to hand over."""
        return self.accept(self.next, (), floor)

    def _is_new(self, number: int) -> bool:
        """Record one number; whether it had not been accepted nor given up before."""
        if number < self.next:
            if self._missing.remove(number):
                return True
            self.refused += 1
            return False
        self._missing.append(self.next, number)
        self.next = number + 1
        # Against a sender that is not correct: the right to deliver is forgotten, never
        # that something was delivered (AMO-14).
        self.given_up += self._missing.drop_below(self.next - self._span)
        while len(self._missing) > self._ranges_max:
            self.given_up += self._missing.drop_lowest()
        return True

    def _give_up_below(self, floor: int) -> None:
        self.given_up += self._missing.drop_below(floor)
        if floor > self.next:
            self.given_up += floor - self.next
            self.next = floor

    def _released(self) -> list[M]:
        """Take out what is held with no gap below it any more, in order."""
        lowest = self._missing.lowest
        gap = self.next if lowest is None else lowest
        released = []
        while self._held and self._held[0][0] < gap:
            released.append(heappop(self._held)[1])
        return released
