"""`OutgoingStream`: the messages one process has sent another and cannot forget yet.

The sender's part (specs/at-most-once.md), for one epoch and one incarnation of the
receiver. A message gets its number here and is kept until the receiver has it, or until
it is given up; what is kept is what a new link has to carry again. It decides and does
nothing else: time comes in as an argument, and one thread at a time calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from bus.core.incoming_stream import NUMBERS
from bus.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Collection

    from bus.core.incoming_stream import Acknowledgement

__all__ = ["OutgoingStream"]

M = TypeVar("M")


class OutgoingStream(Generic[M]):
    """Messages numbered from ``first`` on, each kept until its fate is known.

    Args:
        epoch: names this numbering; greater than all earlier ones (AMO-16).
        first: the number of the first message, as the opening of the stream names it.
        window: how many numbers may lie between the floor and the next (AMO-13).

    Attributes:
        next: the number that the next message gets.
        floor: no number below it will ever be sent again (AMO-12).

    Invariants:
    I1. ``first <= floor <= next <= floor + window``, and ``next <= 2**64``.
    I2. what is outstanding has numbers in ``floor..next - 1``, and ``floor`` is one of
        them unless nothing is.
    """

    __slots__ = ("_deadlines", "_outstanding", "_window", "epoch", "floor", "next")

    def __init__(self, epoch: int, *, first: int = 1, window: int) -> None:
        self.epoch: Final = epoch
        self._window: Final = window
        # In rising order of numbers, as they are given: a dict keeps it.
        self._outstanding: dict[int, M] = {}
        # Of those that have one, in the same order.
        self._deadlines: dict[int, float] = {}
        self.next: int = first
        self.floor: int = first

    def __len__(self) -> int:
        """How many messages are outstanding."""
        return len(self._outstanding)

    @property
    def room(self) -> int:
        """How many messages may be sent before something is acknowledged."""
        return min(self.floor + self._window, NUMBERS) - self.next

    @property
    def spent(self) -> bool:
        """Whether all numbers are given: the rest needs a new epoch (AMO-15)."""
        return self.next == NUMBERS

    def send(self, message: M, deadline: float | None = None) -> int:
        """Give a message its number, and keep it.

        deadline: when it is not worth sending again, on the caller's clock in seconds;
          None for never.

        Raises:
            ValueError: there is no ``room``; nothing is changed.
        """
        number = self.send_all((message,))
        if deadline is not None:
            self._deadlines[number] = deadline
        return number

    def send_all(self, messages: Collection[M]) -> int:
        """Give messages their numbers, in order; return that of the first, or ``next``.

        Raises:
            ValueError: there is no ``room`` for all; nothing is changed.
        """
        first, stop = self.next, self.next + len(messages)
        if len(messages) > self.room:
            msg = f"cannot send: {first - self.floor} numbers are outstanding"
            raise ValueError(msg)
        self._outstanding.update(zip(range(first, stop), messages, strict=True))
        self.next = stop
        return first

    def outstanding(self) -> list[tuple[int, M]]:
        """Return what a new link to the same receiver has to carry again, in order."""
        return list(self._outstanding.items())

    def acknowledge(self, has: Acknowledgement) -> list[M]:
        """Forget what the receiver has; return it, in order (AMO-23).

        An acknowledgement that was overtaken by a later one changes nothing.

        Raises:
            WireError: it speaks of numbers that were never given. Nothing is changed.
        """
        if has.next > self.next:
            msg = f"acknowledged up to {has.next - 1}, sent up to {self.next - 1}"
            raise WireError(msg)
        if not has.missing and has.next == self.next:
            return self.abandon()  # all there is
        missing = iter(has.missing)
        start, stop = next(missing, (has.next, has.next))
        received = []
        for number in self._outstanding:
            if number >= has.next:
                break
            while number >= stop and stop < has.next:
                start, stop = next(missing, (has.next, has.next))
            if not start <= number < stop:
                received.append(number)
        return self._forget(received)

    def expire(self, now: float) -> list[M]:
        """Give up what is past its deadline; return it, in order.

        It was sent, and may have arrived: its sender is told so, not that it failed.
        """
        late = [
            number for number, deadline in self._deadlines.items() if deadline <= now
        ]
        return self._forget(late)

    def abandon(self) -> list[M]:
        """Give up everything, since the receiver is gone; return it, in order (AMO-19).

        Each of these messages is in doubt, and must not be sent to anybody again.
        """
        forgotten = list(self._outstanding.values())
        self._outstanding.clear()
        self._deadlines.clear()
        self.floor = self.next
        return forgotten

    def _forget(self, numbers: list[int]) -> list[M]:
        forgotten = [self._outstanding.pop(number) for number in numbers]
        if self._deadlines:
            for number in numbers:
                self._deadlines.pop(number, None)
        self.floor = next(iter(self._outstanding), self.next)
        return forgotten
