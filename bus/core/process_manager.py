"""`ProcessManager`: what one process decides for one bus; it does nothing itself.

Events are calls; what is to be done about them comes back as `actions`. It knows no
thread, clock, socket or file: places are what it is given, time is an argument. Whoever
drives it holds one lock around each call, and does the actions after letting go of it.
The one exception is ``table.find``, which needs no lock.

In what order things come about: a name that is given up is found no more at once, and
can be taken again at once; but who takes it receives nothing before all that was unread
by those who had it lies in front of what was sent since (BUS-DEREG-4, BUS-MOVE-5).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from bus.address import Address
from bus.core.actions import Action, Fail, Open, Settled, Tell
from bus.core.far_tasks import FarTasks
from bus.core.interests import Interests
from bus.core.parked_list import Parked, ParkedList
from bus.core.routing_table import Entry, RegistrationId, RoutingTable, Visibility
from bus.errors import (
    AddresseeGoneError,
    NameTakenError,
    UnresolvedError,
)
from bus.events import BusReason
from bus.message import Incoming, Kind, Presence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.core.interests import Interest
    from bus.core.neighbourhood import Neighbourhood
    from bus.core.routing_table import Overflow

__all__ = ["ProcessManager"]


class ProcessManager:
    """One process on one bus: its routing table, its parked list, who hears whom.

    Args:
        machine, process: whose it is.
        parked_per_name, parked_in_all: bounds of the parked list (BUS-FLOW-1).
        resolve_timeout_s: how long a message waits for its addressee (OPEN-8).
        incarnation: this life of the process, greater than all before it, as a point
          of time in nanoseconds is: registrations are numbered from there, so that no
          two lives have one in common.

    Attributes:
        remote: what is decided about other processes; None while there are none.
        far: the known public tasks of other processes.
        revision: how often anything was decided; after the next decision, a look-up of
          an earlier revision may be wrong. Counted by the driver.

    Invariants:
    I1. whoever is in the table is not leaving; who is in ``_unopened`` is in it.
    I2. while a name is open and in the table, nothing is parked for it.
    """

    __slots__ = (
        "_leaving",
        "_numbers",
        "_turns",
        "_unopened",
        "far",
        "machine",
        "parked",
        "process",
        "remote",
        "resolve_timeout_s",
        "revision",
        "subscriptions",
        "table",
        "watches",
    )

    def __init__(
        self,
        machine: str,
        process: str,
        *,
        parked_per_name: int,
        parked_in_all: int,
        resolve_timeout_s: float,
        incarnation: int = 0,
    ) -> None:
        self.machine: Final = machine
        self.process: Final = process
        self.resolve_timeout_s: Final = resolve_timeout_s
        self.table: Final = RoutingTable()
        self.parked: Final = ParkedList(per_name=parked_per_name, in_all=parked_in_all)
        self.subscriptions: Final[Interests[Any]] = Interests(machine)
        self.watches: Final[Interests[Any]] = Interests(machine)
        self.remote: Neighbourhood | None = None
        self.revision: int = 0
        self.far: Final = FarTasks(machine, self.table, self.watches)
        self._numbers = itertools.count(incarnation + 1)
        # By name: registrations that are found no more, but not yet emptied, each with
        # its place in the order in which they left. One of another process, which is
        # told of again, may be there twice.
        self._leaving: dict[str, list[tuple[Entry, int]]] = {}
        self._turns = itertools.count()
        # Those who took a name while they had to wait for those who leave.
        self._unopened: dict[str, list[Entry]] = {}

    # Who is there.

    def register(
        self,
        name: str,
        visibility: Visibility,
        bus: str,
        place: object,
        box: object,
        now: float = 0.0,
        overflow: Overflow = "error",
    ) -> tuple[Entry, list[Action]]:
        """Let a name be found from now on.

        place, box: what hosts it, and its FIFO there, which must hold back what is
          posted to it until it is opened.
        overflow: what becomes of commands that it has no room for.

        Raises:
            NameTakenError: another task has it, as far as is known here (BUS-NAME-7).
        """
        if self.table.named(name) is not None:
            raise NameTakenError(name)
        public = visibility is Visibility.PUBLIC
        actions: list[Action] = []
        if self.remote is not None and public:
            actions += self.remote.claim(name)
        entry = Entry(
            id=RegistrationId(self.machine, self.process, next(self._numbers)),
            name=name,
            visibility=visibility,
            address=Address(name, machine=self.machine, bus=bus),
            place=place,
            box=box,
            overflow=overflow,
        )
        if public:
            entry.audience = self.subscriptions.audience(name)
        actions += self._add(entry)
        if self.remote is not None and public:
            actions += self.remote.registered(entry, now)
        return entry, actions

    def awaits_verdict(self, entry: Entry) -> bool:
        """Whether the master is to say yet that a task has its name (OPEN-3)."""
        return self.remote is not None and self.remote.directory.verdicts.awaits(entry)

    def add_relay(self, entry: Entry) -> list[Action]:
        """Let what stands for a public task of another process be found."""
        return self._add(entry)

    def _add(self, entry: Entry) -> list[Action]:
        self.table.add(entry)
        actions: list[Action] = []
        if self.remote is not None and entry.visibility is Visibility.PUBLIC:
            self.remote.named(entry)
        if self._leaving.get(entry.name):
            self._unopened.setdefault(entry.name, []).append(entry)
        else:
            actions.append(self._open(entry))
        if entry.visibility is Visibility.PUBLIC and not entry.remote:
            actions += self.far.registered(entry.address)
        return actions

    def leave(self, entry: Entry, *, final: bool = False) -> list[Action]:
        """Let a registration be found no more; what it asked for is forgotten.

        Nothing happens if it has left before. Its place has to empty it, and say so by
        `left`.
        """
        if entry not in self.table:
            return []
        self.table.remove(entry)
        actions: list[Action] = []
        if entry in self._unopened.get(entry.name, ()):
            # Each registration is opened once: it cannot be emptied before.
            self._opened(entry)
            # What still waits was sent before all that it has got, and stays before it.
            actions.append(Open(entry, ()) if entry.remote else self._open(entry))
        self._leaving.setdefault(entry.name, []).append((entry, next(self._turns)))
        for interest in self.subscriptions.of(entry):
            self.unsubscribe(interest)
        for interest in self.watches.of(entry):
            self.unwatch(interest)
        if entry.visibility is Visibility.PUBLIC and not entry.remote:
            actions += self.far.left(entry.address)
        if self.remote is not None and not entry.remote:
            actions += self.remote.leaves(entry, final=final)
        return actions

    def left(
        self, entry: Entry, unread: Sequence[Incoming], now: float, *, final: bool
    ) -> list[Action]:
        """Take back what a task that left has not read, in order.

        Commands wait for whoever takes the name next, before all that were sent since,
        unless it is ``final``: then they fail (BUS-DEREG-8). Nothing else concerns
        anybody but that task.
        """
        for message in unread:
            if message._trace is not None:
                message._trace.discarded(BusReason.ADDRESSEE_GONE)
        # What came over a link is for its sender's process to send again, which is told
        # what was taken (BUS-DEREG-4): never do two send one message again.
        commands = [
            message
            for message in unread
            if message.kind is Kind.COMMAND and message._receipt is None
        ]
        others = self._leaving[entry.name]
        _, turn = departure = next(each for each in others if each[0] is entry)
        others.remove(departure)
        actions: list[Action] = []
        if final or entry.visibility is Visibility.PRIVATE:
            actions += [
                Fail(message, AddresseeGoneError(entry.name)) for message in commands
            ]
        else:
            for message in commands:
                message._to = message._account = None
            deadline = now + self.resolve_timeout_s
            again = [Parked(message, deadline, now, turn) for message in commands]
            self.parked.prepend(entry.name, again)
        if not others:
            del self._leaving[entry.name]
            for next_one in list(self._unopened.get(entry.name, ())):
                self._opened(next_one)
                actions.append(self._open(next_one))
        if self.remote is not None:
            actions += self.remote.left(entry, now, final=final)
        return actions

    # Messages without a route.

    def park(self, name: str, message: Incoming, now: float) -> Entry | None:
        """Let a message wait for a name; return who has it, if somebody has by now.

        Raises:
            BusFullError: as many wait already as may (BUS-FLOW-1).
        """
        entry = self.table.find(name)
        if entry is not None:
            return entry
        if self.parked.full(name):
            raise self.parked.error(name)
        deadline = now + self.resolve_timeout_s
        if message._deadline is not None:
            deadline = min(deadline, message._deadline)
        self.parked.append(name, Parked(message, deadline, now))
        if self.remote is not None:
            self.remote.seek(name, now)
        return None

    def expire(self, now: float) -> list[Action]:
        """Give up what has waited for its addressee long enough (BUS-ROUTE-19)."""
        actions: list[Action] = [
            Fail(
                parked.message,
                _unresolved(str(parked.message._name), parked.deadline - parked.since),
            )
            for parked in self.parked.expire(now)
        ]
        if actions and self.remote is not None:
            self.remote.review(now)
        return actions

    # Who wants to hear.

    def subscribe(self, subscription: Interest) -> None:
        """Let a task hear what others notify, present and future (AMO-27)."""
        self.subscriptions.add(subscription)
        self._review_audiences(subscription)
        if self.remote is not None:
            self.remote.subscribed(subscription)

    def confirm(
        self, subscription: Interest, settled: Callable[[], object]
    ) -> list[Action]:
        """Call a function once all processes have learned of a subscription.

        That is at once if there are no others, or if the subscription has ended.
        """
        if self.remote is None or subscription not in self.subscriptions.of(
            subscription.entry
        ):
            return [Settled(settled)]
        return self.remote.confirm(subscription, settled)

    def unsubscribe(self, subscription: Interest) -> bool:
        """End one subscription; False if it had ended."""
        known = self.subscriptions.discard(subscription)
        if known:
            self._review_audiences(subscription)
            if self.remote is not None:
                self.remote.unsubscribed(subscription)
        return known

    def watch(self, watch: Interest) -> list[Action]:
        """Tell a task who of those it asks for is here, and whenever that changes."""
        self.watches.add(watch)
        named = self.watches.named_by(watch, self.table)
        here = [entry.address for entry in named if not entry.remote]
        here += self.far.seen_by(watch)
        if self.remote is not None:
            self.remote.watched(watch)
        return [Tell(watch.entry, watch, Presence(each, here=True)) for each in here]

    def unwatch(self, watch: Interest) -> bool:
        """End one watch; False if it had ended."""
        known = self.watches.discard(watch)
        if known:
            self.far.unwatched(watch)
            if self.remote is not None:
                self.remote.unwatched(watch)
        return known

    def _opened(self, entry: Entry) -> None:
        waiting = self._unopened[entry.name]
        waiting.remove(entry)
        if not waiting:
            del self._unopened[entry.name]

    def _open(self, entry: Entry) -> Open:
        public = entry.visibility is Visibility.PUBLIC
        return Open(entry, tuple(self.parked.take(entry.name)) if public else ())

    def _review_audiences(self, subscription: Interest) -> None:
        for entry in self.subscriptions.named_by(subscription, self.table):
            address = entry.address
            entry.audience = self.subscriptions.audience(
                address.module, address.machine
            )


def _unresolved(name: str, waited_s: float) -> UnresolvedError:
    # The name of an addressee contains a machine only if that is another machine.
    elsewhere = name.startswith("ism://")
    return UnresolvedError(name, waited_s, elsewhere=elsewhere)
