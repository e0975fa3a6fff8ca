"""`ParkedList`: messages whose addressee has no route yet, in order, by name.

Bounded for each name and in all (BUS-FLOW-1). It knows deadlines and no clock: time
comes in as an argument.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import BusFullError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.message import Incoming

__all__ = ["Parked", "ParkedList"]


@attrs.frozen
class Parked:
    """A message that waits: since when and until when, on the caller's clock.

    turn: which holder of the name it had been sent to, counted as they left; above all
      of them if it was sent to nobody.
    """

    message: Incoming
    deadline: float
    since: float
    turn: float = math.inf


class ParkedList:
    """Messages that wait for a name.

    Args:
        per_name: how many may wait for one name.
        in_all: how many may wait.

    Attributes:
        parked, resumed, given_up: how many messages ever came, went on, were too late.

    Invariant: ``parked == resumed + given_up + len(self)``.
    """

    __slots__ = ("_by_name", "_in_all", "_per_name", "given_up", "parked", "resumed")

    def __init__(self, *, per_name: int, in_all: int) -> None:
        self._per_name: Final = per_name
        self._in_all: Final = in_all
        self._by_name: dict[str, deque[Parked]] = {}
        self.parked: int = 0
        self.resumed: int = 0
        self.given_up: int = 0

    def __len__(self) -> int:
        return self.parked - self.resumed - self.given_up

    def waiting(self) -> dict[str, int]:
        """Return how many messages wait for each name."""
        return {name: len(queue) for name, queue in self._by_name.items()}

    def of(self, name: str) -> Sequence[Parked]:
        """Return what waits for a name, in order."""
        return self._by_name.get(name, ())

    def full(self, name: str) -> bool:
        """Whether no more messages may wait for this name."""
        waiting = len(self._by_name.get(name, ()))
        return waiting >= self._per_name or len(self) >= self._in_all

    def error(self, name: str) -> BusFullError:
        """Return what to raise where there is no room for another one."""
        if len(self._by_name.get(name, ())) >= self._per_name:
            return BusFullError(f"the parked list of {name!r}", self._per_name)
        return BusFullError("the parked list", self._in_all)

    def append(self, name: str, message: Parked) -> None:
        """Let a message wait behind all others of that name."""
        self._by_name.setdefault(name, deque()).append(message)
        self.parked += 1

    def prepend(self, name: str, messages: Sequence[Parked]) -> None:
        """Put messages of one turn back, in their order, before all of later turns.

        They were accepted once: the bounds do not hold for them (BUS-DEREG-4). Who left
        first may give back last.
        """
        if messages:
            queue = self._by_name.setdefault(name, deque())
            turn = messages[0].turn
            later = (at for at, each in enumerate(queue) if each.turn > turn)
            at = next(later, len(queue))
            queue.rotate(-at)
            queue.extendleft(reversed(messages))
            queue.rotate(at)
            self.parked += len(messages)

    def take(self, name: str) -> list[Incoming]:
        """Remove what waits for a name; return it, in order."""
        taken = [one.message for one in self._by_name.pop(name, ())]
        self.resumed += len(taken)
        return taken

    def next_deadline(self) -> float | None:
        """Return when the first of all has waited long enough; None if none waits."""
        return min(
            (one.deadline for queue in self._by_name.values() for one in queue),
            default=None,
        )

    def expire(self, now: float) -> list[Parked]:
        """Remove what has waited until its deadline; return it."""
        late: list[Parked] = []
        for name, queue in list(self._by_name.items()):
            kept = deque(one for one in queue if one.deadline > now)
            if len(kept) == len(queue):
                continue
            late += [one for one in queue if one.deadline <= now]
            if kept:
                self._by_name[name] = kept
            else:
                del self._by_name[name]
        self.given_up += len(late)
        return late
