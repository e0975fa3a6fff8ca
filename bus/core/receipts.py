"""`Receipts`: which messages of one sender's process a task has taken, cumulatively.

An acknowledgement says one number, and means all up to it. A task does not always take
in order: the newest may be dropped while older ones lie unread. So the number said is
the last one below which nothing is unread.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias

from msgspec import Struct

__all__ = ["Receipt", "Receipts", "Taken"]


class Receipts:
    """The numbers that came for one task from one process, until they are taken.

    extracted: all numbers up to this one were taken; 0 for none.
    """

    __slots__ = ("_taken", "_unread", "extracted")

    def __init__(self) -> None:
        # Ranges of numbers: the first of each, and the first after it.
        self._unread: deque[list[int]] = deque()
        self._taken: set[int] = set()
        self.extracted: int = 0

    @property
    def unread(self) -> bool:
        """Whether a message came that was not taken."""
        return bool(self._unread)

    def expect(self, number: int, count: int = 1) -> None:
        """Note messages that came, with this number and those that follow it.

        They are above all that came before.
        """
        unread = self._unread
        if unread and unread[-1][1] == number:
            unread[-1][1] += count
        else:
            unread.append([number, number + count])

    def take(self, number: int, count: int = 1) -> bool:
        """Note that these were taken; whether `extracted` has risen by that."""
        unread, taken = self._unread, self._taken
        if not unread or unread[0][0] != number:
            # Mostly they are taken as they came; these were not.
            taken.update(range(number, number + count))
            return False
        self._pass(count)
        while unread and unread[0][0] in taken:
            taken.discard(unread[0][0])
            self._pass(1)
        return True

    def _pass(self, count: int) -> None:
        """Note that nothing is unread up to a number; they are all of one range."""
        first = self._unread[0]
        first[0] += count
        self.extracted = first[0] - 1
        if first[0] == first[1]:
            self._unread.popleft()


class Receipt(Struct, frozen=True, eq=False):
    """Which process to tell when messages are taken, and of whom (BUS-RELAY-9).

    Messages that came together share one.

    peer: whose messages they are, a `bus.core.peer.Peer`; epoch: of its stream.
    relay: the number by which that process knows the task.
    """

    peer: Any
    epoch: int | None
    relay: int


# Messages that were taken: of whom, the number of the first, how many, of what size.
Taken: TypeAlias = tuple[Receipt, int, int, int]
