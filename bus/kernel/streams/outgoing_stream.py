"""`OutgoingStream`: the messages sent to another process that must still be kept.

This is the sender's algorithm (specs/at-most-once.md), for one epoch and one
incarnation of the receiver. Here a message gets its number; it is kept until the
receiver has it or is lost. A new link must carry all kept messages again; the receiver
drops those that are too late. Messages sent together are kept together, each under its
own number. This class only takes decisions, and one thread at a time calls it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from bus.errors import WireError
from bus.kernel.streams.incoming_stream import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.kernel.streams.incoming_stream import Acknowledgement

__all__ = ["OutgoingStream"]

M = TypeVar("M")

_NO_NUMBER: Final = NUMBERS + 1  # above all numbers


class OutgoingStream(Generic[M]):
    """Messages numbered from ``first``, each kept until its outcome is known.

    Args:
        epoch: names this numbering; greater than all earlier ones (AMO-16).
        first: the number of the first message, as named when the stream is opened.
        window: how many numbers may lie between the floor and the next (AMO-13).

    Attributes:
        next: the number that the next message gets.
        floor: no number below it will ever be sent again (AMO-12).
        kept: the outstanding messages, in rising order, each with its first number and
            the first number after it.

    Invariants:
    I1. ``first <= floor <= next <= floor + window``, and ``next <= 2**64``.
    I2. outstanding messages have numbers in ``floor..next - 1``; ``floor`` is one of
        them unless none is outstanding.
    """

    __slots__ = ("epoch", "floor", "kept", "next", "window")

    def __init__(self, epoch: int, *, first: int = 1, window: int) -> None:
        self.epoch: Final = epoch
        self.window: Final = window
        self.kept: deque[tuple[int, int, M]] = deque()
        self.next: int = first
        self.floor: int = first

    def __len__(self) -> int:
        """Return how many messages are outstanding."""
        return sum([stop - first for first, stop, _ in self.kept])

    @property
    def room(self) -> int:
        """The number of messages that may be sent before one is acknowledged."""
        return min(self.floor + self.window, NUMBERS) - self.next

    @property
    def spent(self) -> bool:
        """True if all numbers are used up: only a new epoch can send (AMO-15)."""
        return self.next == NUMBERS

    def send(self, message: M, *, count: int = 1) -> int:
        """Assign a message its number, and keep it; return the number.

        count: the number of messages that ``message`` represents. They get consecutive
          numbers. Other methods return ``message`` once for each of them that is
          outstanding or forgotten.

        Raises:
            ValueError: there is no ``room`` for all of it; nothing is changed.
        """
        if count > self.room:
            msg = f"cannot send: {self.next - self.floor} numbers are outstanding"
            raise ValueError(msg)
        first, self.next = self.next, self.next + count
        self.kept.append((first, self.next, message))
        return first

    def outstanding(self) -> list[tuple[int, M]]:
        """Return the messages a new link to the same receiver must carry, in order."""
        return [
            (number, message)
            for first, stop, message in self.kept
            for number in range(first, stop)
        ]

    def acknowledge(self, has: Acknowledgement) -> list[M]:
        """Forget the messages the receiver has; return them, in order (AMO-23).

        An acknowledgement overtaken by a later one changes nothing.

        Raises:
            WireError: it names numbers that were never assigned. Nothing is changed.
        """
        if has.next > self.next:
            msg = f"acknowledged up to {has.next - 1}, sent up to {self.next - 1}"
            raise WireError(msg)
        if not has.missing and has.next == self.next:
            return self.abandon()  # all outstanding ones
        return self._keep_only((*has.missing, (has.next, _NO_NUMBER)))

    def abandon(self) -> list[M]:
        """Give up all messages of a lost receiver; return them, in order (AMO-19).

        Each of these messages is in doubt, and must not be sent to any process again.
        """
        forgotten: list[M] = []
        for first, stop, message in self.kept:
            forgotten += (message,) * (stop - first)
        self.kept.clear()
        self.floor = self.next
        return forgotten

    def _keep_only(self, ranges: Iterable[tuple[int, int]]) -> list[M]:
        """Forget the messages outside the given ranges; return them, in order.

        ranges: the ranges of numbers to keep, lowest first; the last one has no end.
        """
        to_come = iter(ranges)
        start, end = next(to_come)
        kept: deque[tuple[int, int, M]] = deque()
        forgotten: list[M] = []
        for first, stop, message in self.kept:
            at = first
            while at < stop:
                while end <= at:
                    start, end = next(to_come)
                if at < start:
                    until = min(stop, start)
                    forgotten += (message,) * (until - at)
                else:
                    until = min(stop, end)
                    kept.append((at, until, message))
                at = until
        self.kept = kept
        self.floor = kept[0][0] if kept else self.next
        return forgotten
