"""`Wire`: the effect of `Conditions` on the frames of one direction; pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.network.conditions import GOOD, Conditions

if TYPE_CHECKING:
    from random import Random

__all__ = ["Wire"]

# Extra delay of a reordered frame, and of the second copy of a frame, in seconds.
_BEHIND_S: Final = 0.02


class Wire:
    """One direction between two machines.

    conditions: the present conditions, which may change between any two frames.
    counts: the number of frames by outcome.
    """

    def __init__(self, random: Random, conditions: Conditions = GOOD) -> None:
        self._random: Final = random
        self.conditions = conditions
        self.counts: Final[Counter[str]] = Counter()
        # When the last frame has left, and when the last frame in order arrives.
        self._free_at = 0.0
        self._last_at = 0.0

    def arrivals(self, length: int, now: float) -> list[float]:
        """Return when the copies of a frame arrive: none if it is lost.

        The draws depend on the order of the calls only, so a seed repeats the faults.
        """
        present, random = self.conditions, self._random
        if present.cut:
            return self._count("cut", [])
        if length > present.bytes_max:
            return self._count("too long", [])
        if random.random() < present.loss:
            return self._count("lost", [])
        begins = max(now, self._free_at)
        if begins - now > present.queue_s:
            return self._count("no room", [])
        self._free_at = begins + length / present.bytes_per_s
        spread = present.jitter_s * (2 * random.random() - 1)
        at = self._free_at + max(0.0, present.delay_s + spread)
        if random.random() < present.reordering:
            return self._count("reordered", [at + _BEHIND_S])
        # Jitter alone does not reorder frames: a queue delays all later ones, too.
        self._last_at = at = max(at, self._last_at)
        if random.random() < present.duplication:
            return self._count("duplicated", [at, at + _BEHIND_S])
        return self._count("passed", [at])

    def _count(self, fate: str, arrivals: list[float]) -> list[float]:
        self.counts[fate] += 1
        return arrivals
