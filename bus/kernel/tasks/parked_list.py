"""`ParkedList`: messages whose addressee has no route yet, in order, by name.

It is bounded for each name and in total (BUS-FLOW-1). It uses deadlines but no clock:
time is an argument. The cost of parking, expiring or withdrawing a message does not
grow with the number of others.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from bus.errors import BusFullError, UnresolvedError
from bus.kernel.tasks.actions import Fail
from bus.kernel.timers import Deadlines
from bus.model.message import Incoming

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from bus.errors import BusError
    from bus.kernel.tasks.actions import Action, ActionQueue
    from bus.kernel.timers import Alarm

__all__ = ["Carrier", "Parked", "ParkedList", "Removal"]


class Carrier(Protocol):
    """An action that sends messages which were parked."""

    messages: deque[Incoming]


class Parked(Struct, frozen=True):
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


# The messages that wait for one name, in order; any of them is removed in O(1).
_Queue: TypeAlias = "OrderedDict[Incoming, Parked]"


class Removal(Struct, frozen=True):
    """Messages removed for actions that are not queued yet.

    waited: all messages of the name before the removal, in order.
    """

    name: str
    waited: _Queue


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

        alarm: is set for each deadline; None while this process is alone on the bus.

    Invariant: ``parked == resumed + given_up + len(self)``.
    """

    __slots__ = (
        "_by_name",
        "_deadlines",
        "_in_all",
        "_per_name",
        "alarm",
        "given_up",
        "parked",
        "removals",
        "resumed",
    )

    def __init__(self, *, per_name: int, in_all: int) -> None:
        self._per_name: Final = per_name
        self._in_all: Final = in_all
        self._by_name: dict[str, _Queue] = {}
        self._deadlines: Final[Deadlines[tuple[str, Incoming]]] = Deadlines(
            self._deadline_of
        )
        self.parked: int = 0
        self.resumed: int = 0
        self.given_up: int = 0
        self.removals: tuple[Removal, ...] | None = None
        self.alarm: Alarm | None = None

    def __len__(self) -> int:
        return self.parked - self.resumed - self.given_up

    def waiting(self) -> dict[str, int]:
        """Return how many messages wait for each name."""
        return {name: len(queue) for name, queue in self._by_name.items()}

    def of(self, name: str) -> Collection[Parked]:
        """Return the messages that wait for a name, in order."""
        queue = self._by_name.get(name)
        return () if queue is None else queue.values()

    def full(self, name: str) -> bool:
        """Return True if no more messages may wait for this name."""
        waiting = len(self._by_name.get(name, ()))
        return waiting >= self._per_name or len(self) >= self._in_all

    def error(self, name: str) -> BusFullError:
        """Return the error to raise if there is no room for another message."""
        if len(self._by_name.get(name, ())) >= self._per_name:
            return BusFullError(f"the parked list of {name!r}", self._per_name)
        return BusFullError("the parked list", self._in_all)

    def append(self, name: str, parked: Parked) -> None:
        """Add a message behind all others of that name."""
        message = parked.message
        self._add_deadlines(name, (parked,))
        queue = self._by_name.get(name)
        if queue is None:
            first = OrderedDict({message: parked})
            # No call between these lines: an interrupt finds all changes or none.
            self.parked += 1
            self._by_name[name] = first
        else:
            self.parked += 1
            queue[message] = parked

    def prepend(
        self, name: str, messages: Sequence[Parked], unread: list[Incoming]
    ) -> None:
        """Put back messages of one turn, in order, before all messages of later turns.

        The bounds do not apply, since these messages were accepted once (BUS-DEREG-4).
        The holder that departed first may return its messages last.

        unread: where the messages come from; emptied in the same step.
        """
        if not messages:
            del unread[:]
            return
        self._add_deadlines(name, messages)
        waiting = [*self.of(name)]
        turn, count = messages[0].turn, len(messages)
        at = sum(each.turn <= turn for each in waiting)
        waiting[at:at] = messages
        queue = OrderedDict((each.message, each) for each in waiting)
        # No call between these lines: an interrupt finds all changes or none.
        self.parked += count
        self._by_name[name] = queue
        del unread[:]

    def date(self, name: str, turn: float) -> None:
        """Assign a turn to the messages of a name that have none yet.

        turn: greater than those of all earlier departures.
        """
        if name in self._by_name:
            self._by_name[name] = OrderedDict(
                (message, replace(each, turn=min(each.turn, turn)))
                for message, each in self._by_name[name].items()
            )

    def take(self, name: str) -> list[Incoming]:
        """Remove and return the messages that wait for a name, in order."""
        waited = self._by_name.get(name)
        if waited is None:
            return []
        taken, count = list(waited), len(waited)
        removal = Removal(name, waited)
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
        fails, count = [Fail(message, error) for message in waited], len(waited)
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
            self._add_deadlines(last.name, last.waited.values())
            count = len(last.waited)
            # No call between these lines: an interrupt finds all changes or none.
            self.removals = (*earlier,)
            self._by_name[last.name] = last.waited
            self.resumed -= count

    def move(self, name: str, to: Carrier) -> None:
        """Remove the messages that wait for a name, and let an action send them.

        All earlier messages of the action are sent.
        """
        waiting = self._by_name[name]
        taken, count = deque(waiting), len(waiting)
        # No call between these lines: an interrupt finds all changes or none.
        to.messages = taken
        self.resumed += count
        del self._by_name[name]

    def withdraw(self, name: str, message: Incoming) -> bool:
        """Remove one message that waits for a name; False if it does not wait."""
        waits = message in self._by_name.get(name, ())
        if waits:
            self._give_up(name, message, (), [])
        return waits

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None if no message waits."""
        return self._deadlines.next()

    def _add_deadlines(self, name: str, messages: Collection[Parked]) -> None:
        if self.alarm is not None:
            self.alarm.by(min([each.deadline for each in messages], default=None))
        self._deadlines.add(
            *(((name, each.message), each.deadline) for each in messages)
        )

    def _deadline_of(self, place: tuple[str, Incoming]) -> float | None:
        name, message = place
        queue = self._by_name.get(name)
        parked = None if queue is None else queue.get(message)
        return None if parked is None else parked.deadline

    def expire(self, now: float, todo: ActionQueue) -> list[str]:
        """Remove and fail the messages whose deadline has passed (BUS-ROUTE-19).

        todo: receives the actions; it outlasts an interrupt of the decision.

        Return the name of each of these messages.
        """
        names = []
        for name, message in self._deadlines.due(now):
            parked = self._by_name[name][message]
            fail = _unresolved(parked, parked.deadline)
            self._give_up(name, message, (fail,), todo)
            names.append(name)
        return names

    def fail_those_of_others(
        self, bus: str, now: float, todo: ActionQueue
    ) -> list[str]:
        """Remove and fail the messages that tasks of other buses have parked.

        bus: the name of this bus, which is closed. Its own tasks have left, and need no
          report.
        todo, and the result: as for `expire`.
        """
        names = []
        for name, queue in list(self._by_name.items()):
            for message, parked in list(queue.items()):
                if message._source.address.bus != bus:
                    self._give_up(name, message, (_unresolved(parked, now),), todo)
                    names.append(name)
        return names

    def _give_up(
        self,
        name: str,
        message: Incoming,
        fails: tuple[Fail, ...],
        todo: ActionQueue,
    ) -> None:
        """Remove a message that waits for a name, and queue its failure."""
        queue = self._by_name[name]
        last = len(queue) == 1
        # No call between these lines: an interrupt finds all changes or none.
        todo += fails
        self.given_up += 1
        if last:
            del self._by_name[name]
        else:
            del queue[message]


def _unresolved(parked: Parked, now: float) -> Fail:
    name = str(parked.message._name)
    # The name of an addressee contains a machine only if that is another machine.
    elsewhere = name.startswith("ism://")
    error = UnresolvedError(name, now - parked.since, elsewhere=elsewhere)
    return Fail(parked.message, error)
