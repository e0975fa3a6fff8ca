"""`Receipts`: which messages of one sender's process a task has taken, cumulatively.

An acknowledgement says one number, and means all up to it. A task does not always take
in order: the newest may be dropped while older ones lie unread. So the number said is
the last one below which nothing is unread.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Receipt", "Receipts"]


class Receipts:
    """The numbers that came for one task from one process, until they are taken.

    extracted: all numbers up to this one were taken; 0 for none.
    """

    __slots__ = ("_taken", "_unread", "extracted")

    def __init__(self) -> None:
        self._unread: deque[int] = deque()
        self._taken: set[int] = set()
        self.extracted: int = 0

    def expect(self, number: int) -> None:
        """Note a message that came; its number is above all that came before."""
        self._unread.append(number)

    def take(self, numbers: Iterable[int]) -> bool:
        """Note that these were taken; whether `extracted` has risen by that."""
        unread, taken, before = self._unread, self._taken, self.extracted
        for number in numbers:
            if unread and unread[0] == number:  # mostly: they are taken as they came
                self.extracted = unread.popleft()
            else:
                taken.add(number)
        while unread and unread[0] in taken:
            self.extracted = unread.popleft()
            taken.discard(self.extracted)
        return self.extracted > before


@attrs.frozen(eq=False)
class Receipt:
    """Which process to tell when messages are taken, and of whom (BUS-RELAY-9).

    Messages that came together share one.

    peer: whose messages they are, a `bus.core.peer.Peer`; epoch: of its stream.
    relay: the number by which that process knows the task.
    """

    peer: Any
    epoch: int | None
    relay: int
