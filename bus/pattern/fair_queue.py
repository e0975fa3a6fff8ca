"""`FairQueue`: received messages, taken from one peer after the other (BP-18)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from bus.pattern.message_run import MessageRun

__all__ = ["FairQueue"]

P = TypeVar("P")


class FairQueue(Generic[P]):
    """The messages of each peer in order, bounded for each; pure.

    A peer that floods fills its own share only, and `take` serves all peers in turn.

    Args:
        messages_max, bytes_max: the bounds for each peer. One message always fits.
    """

    __slots__ = ("_bytes_max", "_messages_max", "_shares", "_turns")

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        # The peers with messages; each of them has one turn.
        self._shares: Final[dict[P, _Share]] = {}
        self._turns: Final[deque[P]] = deque()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __len__(self) -> int:
        return sum(share.count for share in self._shares.values())

    @property
    def peers(self) -> int:
        """The number of peers with messages."""
        return len(self._turns)

    def is_full(self, peer: P) -> bool:
        """Return True if there is no room for another message of a peer."""
        share = self._shares.get(peer)
        return share is not None and (
            share.count >= self._messages_max or share.size >= self._bytes_max
        )

    def offer(self, peer: P, run: MessageRun, *, forced: bool = False) -> int:
        """Append messages, as many as there is room for; return how many.

        forced: append all of them, also without room.
        """
        share = self._shares.get(peer)
        if share is None:
            share = _Share()
        count, size = len(run.bodies), run.size
        if not forced and (
            share.count + count > self._messages_max
            or share.size + size > self._bytes_max
        ):
            count, size = self._fitting(share, run)
            if not count:
                return 0
            run = run.part(0, count)
        # No call comes between these, and so no interrupt and no signal handler.
        share.count += count
        share.size += size
        share.runs.append(run)
        # Afterwards: a signal handler that takes finds no share without messages.
        if self._shares.get(peer) is not share and share.count:
            self._shares[peer] = share
            self._turns.append(peer)
        return count

    def _fitting(self, share: _Share, run: MessageRun) -> tuple[int, int]:
        """Return how many of the first messages fit, and their length."""
        count = size = 0
        for body in run.bodies:
            if share.count + count and (
                share.count + count >= self._messages_max
                or share.size + size + len(body) > self._bytes_max
            ):
                break
            count += 1
            size += len(body)
        return count, size

    def take(self, most: int = 1) -> tuple[P, MessageRun]:
        """Remove and return up to ``most`` consecutive messages of the next peer.

        Raises:
            IndexError: there is none.
        """
        peer = self._turns.popleft()
        run = self._shares[peer].take(most)
        self._end_turn(peer)
        return peer, run

    def take_bodies(self, most: int) -> tuple[P, list[bytes]]:
        """Remove and return the next ``most`` messages of the next peer, or fewer.

        Raises:
            IndexError: there is none.
        """
        peer = self._turns.popleft()
        share, bodies = self._shares[peer], list[bytes]()
        while share.count and len(bodies) < most:
            bodies += share.take(most - len(bodies)).bodies
        self._end_turn(peer)
        return peer, bodies

    def _end_turn(self, peer: P) -> None:
        if self._shares[peer].count:
            self._turns.append(peer)
        else:
            del self._shares[peer]

    def repair(self) -> None:
        """Count the messages again, after an exception within a call."""
        for peer, share in [*self._shares.items()]:
            share.recount()
            if not share.count:
                del self._shares[peer]
        self._turns.clear()
        self._turns.extend(self._shares)

    def clear(self) -> dict[P, int]:
        """Remove all messages; return how many there were of each peer."""
        counts = {peer: share.count for peer, share in self._shares.items()}
        self._shares.clear()
        self._turns.clear()
        return counts


class _Share:
    """The messages of one peer: of the first run, those before ``at`` are taken."""

    __slots__ = ("at", "count", "runs", "size")

    def __init__(self) -> None:
        self.runs: Final[deque[MessageRun]] = deque()
        self.at: int = 0
        self.count: int = 0
        self.size: int = 0

    def take(self, most: int) -> MessageRun:
        """Remove up to ``most`` messages of the first run."""
        run, start = self.runs[0], self.at
        stop = min(start + most, len(run.bodies))
        if stop == len(run.bodies):
            self.at = 0
            self.runs.popleft()
        else:
            self.at = stop
        if start or self.at:
            run = run.part(start, stop)
        self.count -= len(run.bodies)
        self.size -= run.size
        return run

    def recount(self) -> None:
        """Count the messages again."""
        bodies = [body for run in self.runs for body in run.bodies][self.at :]
        self.count, self.size = len(bodies), sum(map(len, bodies))
