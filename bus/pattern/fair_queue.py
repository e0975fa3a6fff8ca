"""`FairQueue`: received messages, taken from one peer after the other (BP-18)."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

__all__ = ["FairQueue"]

P = TypeVar("P")
M = TypeVar("M")


class FairQueue(Generic[P, M]):
    """The messages of each peer in order, bounded for each; pure.

    A peer that floods fills its own share only, and `take` serves all peers in turn.

    Args:
        messages_max, bytes_max: the bounds for each peer. One message always fits.
    """

    __slots__ = ("_bytes_max", "_messages_max", "_queues", "_size", "_turns")

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        # Of each peer with messages: these, and their length. Its turns: each such peer
        # is there once.
        self._queues: Final[dict[P, deque[tuple[M, int]]]] = {}
        self._size: Final[dict[P, int]] = {}
        self._turns: Final[deque[P]] = deque()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def count_of(self, peer: P) -> int:
        """Return how many messages of a peer wait."""
        return len(self._queues.get(peer, ()))

    def is_full(self, peer: P) -> bool:
        """Return True if there is no room for another message of a peer."""
        return (
            len(self._queues.get(peer, ())) >= self._messages_max
            or self._size.get(peer, 0) >= self._bytes_max
        )

    def offer(self, peer: P, message: M, size: int, *, forced: bool = False) -> bool:
        """Append a message of ``size`` bytes; return False if there is no room.

        forced: append it also without room.
        """
        queue = self._queues.get(peer)
        if queue is None:
            self._queues[peer] = deque([(message, size)])
            self._size[peer] = size
            self._turns.append(peer)
            return True
        total = self._size[peer] + size
        full = len(queue) >= self._messages_max or total > self._bytes_max
        if full and not forced:
            return False
        queue.append((message, size))
        self._size[peer] = total
        return True

    def take(self) -> tuple[P, M]:
        """Remove and return the next message, with its peer.

        Raises:
            IndexError: there is none.
        """
        peer = self._turns.popleft()
        queue = self._queues[peer]
        message, size = queue.popleft()
        if queue:
            self._size[peer] -= size
            self._turns.append(peer)
        else:
            del self._queues[peer], self._size[peer]
        return peer, message

    def clear(self) -> dict[P, int]:
        """Remove all messages; return how many there were of each peer."""
        counts = {peer: len(queue) for peer, queue in self._queues.items()}
        self._queues.clear()
        self._size.clear()
        self._turns.clear()
        return counts
