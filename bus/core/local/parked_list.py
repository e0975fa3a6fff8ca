"""`ParkedList`: messages whose addressee has no route yet, in order, by name.

It is bounded for each name and in total (BUS-FLOW-1). It uses deadlines but no clock:
time is an argument.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

from bus.core.local.actions import Fail
from bus.errors import BusFullError, UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.core.local.actions import Action, Bind
    from bus.errors import BusError
    from bus.message import Incoming

__all__ = ["Parked", "ParkedList", "Removal"]


@attrs.frozen
class Parked:
    """A parked message, with its parking time and deadline on the caller's clock.

    turn: orders the message among the departures of the name's holders. A message that
      a departed holder returns has the turn of that departure. If a holder departs
      before it is opened, messages without a turn get one just before that departure.
      Until then the turn is infinite.
    """

    message: Incoming
    deadline: float
    since: float
    turn: float = math.inf


@attrs.frozen
class Removal:
    """Messages removed for actions that are not queued yet.

    waited: all messages of the name before the removal, in order.
    resumed, given_up: how many of them the counters of the list have counted.
    """

    name: str
    waited: deque[Parked]
    resumed: int = 0
    given_up: int = 0


class ParkedList:
    """Messages that wait for a name.

    Args:
        per_name: how many may wait for one name.
        in_all: how many may wait in total.

    Attributes:
        parked, resumed, given_up: how many messages were ever added, taken, and
          expired or withdrawn.

        removals: the removals of the present decision; None if the driver keeps no
            record of them. A driver that may be interrupted sets it to ``()`` before a
            decision, and to None once the actions of the decision are queued. If an
            interrupt comes in between, these actions are lost, and `restore` puts
            their messages back.

    Invariant: ``parked == resumed + given_up + len(self)``.
    """

    __slots__ = (
        "_by_name",
        "_in_all",
        "_per_name",
        "given_up",
        "parked",
        "removals",
        "resumed",
    )

    def __init__(self, *, per_name: int, in_all: int) -> None:
        self._per_name: Final = per_name
        self._in_all: Final = in_all
        self._by_name: dict[str, deque[Parked]] = {}
        self.parked: int = 0
        self.resumed: int = 0
        self.given_up: int = 0
        self.removals: tuple[Removal, ...] | None = None

    def __len__(self) -> int:
        return self.parked - self.resumed - self.given_up

    def waiting(self) -> dict[str, int]:
        """Return how many messages wait for each name."""
        return {name: len(queue) for name, queue in self._by_name.items()}

    def of(self, name: str) -> Sequence[Parked]:
        """Return the messages that wait for a name, in order."""
        return self._by_name.get(name, ())

    def full(self, name: str) -> bool:
        """Return True if no more messages may wait for this name."""
        waiting = len(self._by_name.get(name, ()))
        return waiting >= self._per_name or len(self) >= self._in_all

    def error(self, name: str) -> BusFullError:
        """Return the error to raise if there is no room for another message."""
        if len(self._by_name.get(name, ())) >= self._per_name:
            return BusFullError(f"the parked list of {name!r}", self._per_name)
        return BusFullError("the parked list", self._in_all)

    def append(self, name: str, message: Parked) -> None:
        """Add a message behind all others of that name."""
        queue = self._by_name.get(name)
        # Counted before the last call: an interrupt comes before both or after both.
        if queue is None:
            first = deque((message,))
            self.parked += 1
            self._by_name[name] = first
        else:
            self.parked += 1
            queue.append(message)

    def prepend(self, name: str, messages: Sequence[Parked]) -> None:
        """Put back messages of one turn, in order, before all messages of later turns.

        The bounds do not apply, since these messages were accepted once (BUS-DEREG-4).
        The holder that departed first may return its messages last.
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

    def date(self, name: str, turn: float) -> None:
        """Assign a turn to the messages of a name that have none yet.

        turn: greater than those of all earlier departures.
        """
        if name in self._by_name:
            self._by_name[name] = deque(
                attrs.evolve(each, turn=min(each.turn, turn))
                for each in self._by_name[name]
            )

    def take(self, name: str) -> list[Incoming]:
        """Remove and return the messages that wait for a name, in order."""
        waited = self._by_name.get(name)
        if waited is None:
            return []
        taken, count = [one.message for one in waited], len(waited)
        removal = Removal(name, waited, resumed=count)
        # No call between these lines: an interrupt finds all changes or none.
        if self.removals is not None:
            self.removals = (*self.removals, removal)
        self.resumed += count
        del self._by_name[name]
        return taken

    def fail(self, name: str, error: BusError, todo: list[Action]) -> None:
        """Remove the messages that wait for a name, and let each one fail.

        todo: receives the actions; it outlasts an interrupt of the decision.
        """
        waited = self._by_name.get(name)
        if waited is None:
            return
        fails, count = [Fail(one.message, error) for one in waited], len(waited)
        # No call between these lines: an interrupt finds all changes or none.
        todo += fails
        self.resumed += count
        del self._by_name[name]

    def restore(self) -> None:
        """Put back the messages whose actions were lost to an interrupt.

        Nothing was added since their removal. Another interrupt may end this call; the
        next one continues.
        """
        while self.removals:
            *earlier, last = self.removals
            # No call between these lines: an interrupt finds all changes or none.
            self.removals = (*earlier,)
            self._by_name[last.name] = last.waited
            self.resumed -= last.resumed
            self.given_up -= last.given_up

    def move(self, name: str, bind: Bind) -> None:
        """Remove the messages that wait for a name, and let a `Bind` send them.

        All earlier messages of the action are sent.
        """
        waiting = self._by_name[name]
        taken, count = deque([one.message for one in waiting]), len(waiting)
        # No call between these lines: an interrupt finds all changes or none.
        bind.messages = taken
        self.resumed += count
        del self._by_name[name]

    def withdraw(self, name: str, message: Incoming) -> bool:
        """Remove one message that waits for a name; False if it does not wait."""
        queue = self._by_name.get(name, deque())
        kept = deque(one for one in queue if one.message is not message)
        if len(kept) == len(queue):
            return False
        if kept:
            self._by_name[name] = kept
        else:
            del self._by_name[name]
        self.given_up += 1
        return True

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None if no message waits."""
        return min(
            (one.deadline for queue in self._by_name.values() for one in queue),
            default=None,
        )

    def expire(self, now: float) -> list[Fail]:
        """Remove and fail the messages whose deadline has passed (BUS-ROUTE-19)."""
        late = self._give_up(lambda one: one.deadline <= now)
        return [_unresolved(one, one.deadline) for one in late]

    def fail_those_of_others(self, bus: str, now: float) -> list[Fail]:
        """Remove and fail the messages that tasks of other buses have parked.

        bus: the name of this bus, which is closed. Its own tasks have left, and need no
          report.
        """
        theirs = self._give_up(lambda one: one.message._source.address.bus != bus)
        return [_unresolved(one, now) for one in theirs]

    def _give_up(self, is_over: Callable[[Parked], bool]) -> list[Parked]:
        """Remove and return the messages for which a pure function returns True."""
        late: list[Parked] = []
        for name, queue in list(self._by_name.items()):
            kept = deque(one for one in queue if not is_over(one))
            if len(kept) == len(queue):
                continue
            late += [one for one in queue if is_over(one)]
            count = len(queue) - len(kept)
            removal = Removal(name, queue, given_up=count)
            # No call between these lines: an interrupt finds all changes or none.
            if self.removals is not None:
                self.removals = (*self.removals, removal)
            self.given_up += count
            if kept:
                self._by_name[name] = kept
            else:
                del self._by_name[name]
        return late


def _unresolved(parked: Parked, now: float) -> Fail:
    name = str(parked.message._name)
    # The name of an addressee contains a machine only if that is another machine.
    elsewhere = name.startswith("ism://")
    error = UnresolvedError(name, now - parked.since, elsewhere=elsewhere)
    return Fail(parked.message, error)
