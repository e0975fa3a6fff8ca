"""`Receipts`: which messages of one sender's process a task has taken, cumulatively.

An acknowledgement says one number, and means all up to it. A task does not always take
in order: the newest may be dropped while older ones lie unread. So the number said is
the last one below which nothing is unread.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs

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

    def take(self, number: int) -> bool:
        """Note that it was taken; whether `extracted` has risen by that."""
        self._taken.add(number)
        before = self.extracted
        while self._unread and self._unread[0] in self._taken:
            self.extracted = self._unread.popleft()
            self._taken.discard(self.extracted)
        return self.extracted > before


@attrs.frozen
class Receipt:
    """What to tell which process when a message is taken (BUS-RELAY-9).

    peer: whose message it is, a `bus.core.peer.Peer`; epoch: of its stream.
    relay: the number by which that process knows the task; number: the message's.
    """

    peer: Any
    epoch: int | None
    relay: int
    number: int
