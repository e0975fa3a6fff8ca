"""`Receipts`: the messages from one process that a task has extracted, cumulatively.

An acknowledgement names one number, and covers all up to it. A task does not always
extract in order: the newest message may be dropped while older ones are unread. So the
acknowledged number is the last one below which no message is unread.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias

from msgspec import Struct

__all__ = ["Receipt", "Receipts", "Taken"]


class Receipts:
    """The numbers received for one task from one process, until they are extracted.

    extracted: all numbers up to this one were extracted; 0 for none.
    unread: ranges of the numbers received and not extracted, in order: the first of
      each, and the first after it. Only this class modifies them.
    """

    __slots__ = ("_taken", "extracted", "unread")

    def __init__(self) -> None:
        self.unread: deque[list[int]] = deque()
        self._taken: set[int] = set()
        self.extracted: int = 0

    def expect(self, number: int, count: int = 1) -> None:
        """Record received messages with consecutive numbers, from `number` on.

        They are above all those received before. The call may be repeated for the last
        ones, after an interrupt.
        """
        unread = self.unread
        if unread and unread[-1][1] >= number:
            unread[-1][1] = number + count
        else:
            unread.append([number, number + count])

    def take(self, number: int, count: int = 1) -> bool:
        """Record extracted messages; return True if `extracted` has risen.

        True as well if the call is repeated: it may not have been acknowledged.
        """
        unread = self.unread
        if not unread or (first := unread[0])[0] != number:
            # The rare case: messages extracted out of order.
            if number <= self.extracted:
                return True  # repeated, after an interrupt
            self._taken.update(range(number, number + count))
            return False
        while True:  # move the lower bound of the unread numbers up
            number += count
            self.extracted = number - 1
            if number == first[1]:
                del unread[0]
            else:
                first[0] = number
            if not (unread and (first := unread[0])[0] in self._taken):
                return True
            number, count = first[0], 1
            self._taken.discard(number)

    def take_all(self) -> None:
        """Record that no received message is unread."""
        self.extracted = self.unread[-1][1] - 1
        self.unread.clear()
        self._taken.clear()


class Receipt(Struct, frozen=True, eq=False):
    """The process to inform when messages are extracted, and their task (BUS-RELAY-9).

    Messages that arrived together share one receipt.

    peer: the sender's process, a `bus.kernel.peer.peer.Peer`; epoch: of its stream.
    relay: the number by which that process knows the task.
    receipts: of the task, while the process has this epoch.
    """

    peer: Any
    epoch: int | None
    relay: int
    receipts: Receipts


# Extracted messages: their receipt, the first number, how many, and their total bytes.
Taken: TypeAlias = tuple[Receipt, int, int, int]
