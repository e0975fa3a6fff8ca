"""`ProcessManager`: the decisions of one process about one bus.

It performs no I/O. Events are calls, and each returns the `actions` to perform. It uses
no thread, clock, socket or file: hosts are opaque objects, and time is an argument. The
driver holds one lock around each call, and performs the actions after it has released
the lock. The one exception is ``table.find``, which needs no lock.

Order of events: a name that is released is no longer found, and can be claimed again,
at once. But the new holder receives nothing until all messages left unread by earlier
holders are queued in front of everything sent since (BUS-DEREG-4, BUS-MOVE-5).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from bus.errors import AddresseeGoneError, NameTakenError
from bus.kernel.tasks.actions import Action, Fail, Open
from bus.kernel.tasks.parked_list import Parked, ParkedList
from bus.kernel.tasks.remote import AnyMachine, NoAudiences
from bus.kernel.tasks.routing_table import Entry, RoutingTable
from bus.model.address import Address, name_anywhere
from bus.model.events import BusReason
from bus.model.message import Incoming, Kind
from bus.model.registration import RegistrationId, Visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.kernel.tasks.actions import ActionQueue
    from bus.kernel.tasks.remote import Audiences, Remote
    from bus.model.registration import Overflow

__all__ = ["Departures", "ProcessManager"]


class Departures:
    """The earlier holders of names, and the later ones that wait to be opened.

    A later holder is opened once all earlier ones are emptied, so that their unread
    messages precede its own (BUS-DEREG-4, BUS-MOVE-5).

    Attributes:
        leaving: by name, the registrations that have left, each with its turn. A task
            of another process that is announced again may appear twice.
        unopened: by name, the entries that wait.

    Args:
        parked: the messages that wait for names.

    Invariant: a name in ``unopened`` is in ``leaving``.

    An interrupt may end a departure between any two of its steps. The one that follows
    repeats these, until `conclude` and `end` publish the outcome in one step each.
    """

    __slots__ = ("_begun", "_parked", "_turns", "leaving", "unopened")

    def __init__(self, parked: ParkedList) -> None:
        self._parked: Final = parked
        self.leaving: Final[dict[str, list[tuple[Entry, int]]]] = {}
        self.unopened: Final[dict[str, list[Entry]]] = {}
        self._begun: Final[dict[Entry, None]] = {}  # those not concluded
        self._turns = itertools.count()

    def next_turn(self) -> int:
        """Return the next number; holders that leave are numbered in their order."""
        return next(self._turns)

    def is_leaving(self, name: str) -> bool:
        """Return True if a holder of a name has left and is not emptied yet.

        Its unread messages precede all that wait for the name by now.
        """
        return bool(self.leaving.get(name))

    def is_unopened(self, entry: Entry) -> bool:
        """Return True if an entry waits until earlier holders are emptied."""
        return entry in self.unopened.get(entry.name, ())

    def delay(self, entry: Entry) -> None:
        """Let a new holder wait until the earlier ones are emptied."""
        self.unopened.setdefault(entry.name, []).append(entry)

    def is_begun(self, entry: Entry) -> bool:
        """Return True if an interrupt has ended the departure of a registration."""
        return entry in self._begun

    def begin(self, entry: Entry) -> None:
        """Add a registration that will no longer be found."""
        others = [*self.leaving.get(entry.name, ()), (entry, self.next_turn())]
        # No call between these lines: an interrupt finds both changes or none.
        self.leaving[entry.name] = others
        self._begun[entry] = None

    def conclude(
        self, entry: Entry, actions: Iterable[Action], todo: ActionQueue
    ) -> None:
        """Queue the actions of a departure; the entry waits no longer to be opened."""
        name = entry.name
        waited = self.unopened.get(name, ())
        waiting = [each for each in waited if each is not entry]
        # No call between these lines: an interrupt finds all changes or none.
        todo += actions
        if waiting:
            self.unopened[name] = waiting
        elif waited:
            del self.unopened[name]
        del self._begun[entry]

    def turn_of(self, entry: Entry) -> int | None:
        """Return the turn of a registration that has left; None if it is emptied."""
        left = self.leaving.get(entry.name, ())
        return next((turn for each, turn in left if each is entry), None)

    def opened_by(self, entry: Entry) -> list[Entry]:
        """Return the entries that need not wait any more once this one is emptied."""
        name = entry.name
        last = len(self.leaving[name]) == 1
        return list(self.unopened.get(name, ())) if last else []

    def end(self, entry: Entry, actions: Iterable[Action], todo: ActionQueue) -> None:
        """Remove a registration that is emptied, and queue the actions that follow."""
        name = entry.name
        others = list(self.leaving[name])
        del others[next(at for at, each in enumerate(others) if each[0] is entry)]
        waits = name in self.unopened
        # No call between these lines: an interrupt finds all changes or none.
        todo += actions
        self._parked.removals = None
        if others:
            self.leaving[name] = others
        else:
            del self.leaving[name]
            if waits:
                del self.unopened[name]


class ProcessManager:
    """One process on one bus: its routing table and its parked list.

    Args:
        machine, process: names of the machine and of the process.
        parked_per_name, parked_in_all: bounds of the parked list (BUS-FLOW-1).
        resolve_timeout_s: how long a message waits for its addressee (OPEN-8).
        incarnation: number of this start of the process, greater than all before it,
          such as a time in nanoseconds. Registrations are numbered from there, so that
          no two incarnations share a number.

    Attributes:
        any_machine: the names whose machine is ``*``; a slot, filled before the first.
        audiences: the subscriptions and watches of its tasks; a slot likewise.
        departures: registrations that are no longer found but not yet emptied.
        remote: the other processes; None while this one is alone.
        revision: number of decisions so far, counted by the driver. After the next
          decision, a look-up of an earlier revision may be wrong.

    Invariants:
    I1. an entry in the table is not leaving; an unopened one is in the table.
    I2. while a name is open and in the table, nothing is parked for it.
    """

    __slots__ = (
        "_numbers",
        "any_machine",
        "audiences",
        "departures",
        "machine",
        "parked",
        "process",
        "remote",
        "resolve_timeout_s",
        "revision",
        "table",
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
        self.departures: Final = Departures(self.parked)
        self.any_machine: AnyMachine = AnyMachine()
        self.audiences: Audiences = NoAudiences()
        self.remote: Remote | None = None
        self.revision: int = 0
        self._numbers = itertools.count(incarnation + 1)

    # Registrations.

    def claim(self, name: str, visibility: Visibility, todo: ActionQueue) -> None:
        """Claim a name for a task that `register` then registers.

        todo: as for `leave`; receives the actions of earlier decisions, and those of
          the departure of a relay that had the name. No interrupt of `register` loses
          them.

        Raises:
            NameTakenError: another task holds the name, as far as is known here
              (BUS-NAME-7).
        """
        if self.table.named(name) is not None:
            raise NameTakenError(name)
        if self.remote is not None and visibility is Visibility.PUBLIC:
            # No call between the two steps of this statement.
            todo += self.remote.claim(name)

    def register(
        self,
        name: str,
        visibility: Visibility,
        bus: str,
        host: object,
        mailbox: object,
        now: float = 0.0,
        overflow: Overflow = "error",
        record: Callable[[int, str], object] | None = None,
    ) -> tuple[Entry, list[Action]]:
        """Register a task, so that its name is found from now on.

        host, mailbox: the task's host, and its mailbox there. The mailbox must hold
          back posted messages until it is opened.
        overflow: policy for commands that exceed the mailbox's capacity.
        record: called with the number and the name of the registration before any
          thread can find it; its record precedes those of all its messages (B6).

        Raises:
            NameTakenError: another task holds the name, as far as is known here
              (BUS-NAME-7).
        """
        if self.table.named(name) is not None:
            raise NameTakenError(name)
        public = visibility is Visibility.PUBLIC
        entry = Entry(
            id=self.new_id(),
            name=name,
            visibility=visibility,
            address=Address(name, machine=self.machine, bus=bus),
            host=host,
            mailbox=mailbox,
            overflow=overflow,
        )
        if record is not None:
            record(entry.id.number, name)
        actions = self._add(entry)
        if self.remote is not None and public:
            actions += self.remote.on_registered(entry, now)
        if public:
            # Last: the answers to subscriptions follow the announcement of the name.
            actions += self.audiences.on_registered(entry, now)
        return entry, actions

    def undo(self, entry: Entry, now: float, todo: ActionQueue) -> None:
        """Remove a registration of which an interrupt has lost the actions.

        The host must then empty the mailbox, as after `leave`: other threads may have
        found the task. todo: as for `leave`.
        """
        if not self.departures.is_unopened(entry):
            todo += (Open(entry, ()),)  # a mailbox is emptied after its opening
        self.leave(entry, todo)
        for name in (entry.name, name_anywhere(entry.name)):
            if self.parked.of(name):
                self.seek(name, now)

    def restore(self) -> None:
        """Put back the parked messages of a decision whose actions are lost."""
        self.any_machine.restore()
        self.parked.restore()
        if self.remote is not None:
            self.remote.restore()

    def new_id(self) -> RegistrationId:
        """Return an id that no registration of this process has had."""
        return RegistrationId(self.machine, self.process, next(self._numbers))

    def end_proxy(self, task: Entry, now: float) -> list[Action]:
        """End the proxy of a task that has departed from another bus (BUS-NAME-5)."""
        return [] if self.remote is None else self.remote.end_proxy(task, now)

    def awaits_verdict(self, entry: Entry) -> bool:
        """Return True if the verdict on the name of a task will come soon (OPEN-3)."""
        return self.remote is not None and self.remote.awaits_verdict(entry)

    def add_relay(self, entry: Entry) -> list[Action]:
        """Add the relay of another process's public task to the table."""
        return self._add(entry)

    def _add(self, entry: Entry) -> list[Action]:
        self.table.add(entry)
        actions: list[Action] = []
        if self.remote is not None and entry.visibility is Visibility.PUBLIC:
            self.remote.on_named(entry)
        if self.departures.is_leaving(entry.name):
            self.departures.delay(entry)
        else:
            actions.append(self._open(entry))
        if entry.visibility is Visibility.PUBLIC and not entry.remote:
            actions += self.any_machine.on_registered(entry)
        return actions

    def leave(self, entry: Entry, todo: ActionQueue, *, final: bool = False) -> None:
        """Remove a registration from the table, with its subscriptions and watches.

        It does nothing if the registration is not in the table. Otherwise the host must
        then empty the mailbox, and report that by `on_emptied`. After an interrupt the
        next call continues.

        todo: receives the actions; it outlasts an interrupt of the decision.
        """
        departures = self.departures
        unopened = departures.is_unopened(entry)
        if not departures.is_begun(entry):
            if entry not in self.table:
                return
            if unopened:
                # The parked messages were sent before each one posted to this entry.
                self.parked.date(entry.name, departures.next_turn())
            departures.begin(entry)
        # From here on each step may be repeated.
        self.table.remove(entry)
        # Each registration is opened once: it cannot be emptied before that.
        actions: list[Action] = [Open(entry, ())] if unopened else []
        actions += self.audiences.on_departure(entry)
        if self.remote is not None and not entry.remote:
            self.remote.on_departure(entry, final=final)
        departures.conclude(entry, actions, todo)

    def on_emptied(
        self,
        entry: Entry,
        unread: list[Incoming],
        now: float,
        todo: ActionQueue,
        *,
        final: bool,
    ) -> None:
        """Take back the unread messages of a departed task, in order.

        Commands wait for the next holder of the name, in front of all commands sent
        since. If ``final``, they fail instead (BUS-DEREG-8). Messages of other kinds
        are dropped. It does nothing if the task was emptied before.

        unread: the messages; empty once they are taken back. After an interrupt the
          next call with this list continues.
        todo: as for `leave`.
        """
        turn = self.departures.turn_of(entry)
        if turn is None:
            return
        self._take_back(entry, unread, turn, now, todo, final=final)
        actions = [self._open(each) for each in self.departures.opened_by(entry)]
        self.departures.end(entry, actions, todo)
        if self.remote is not None:
            # Not repeated: among other processes the comm thread makes this decision.
            todo += self.remote.on_emptied(entry, now, final=final)

    def _take_back(
        self,
        entry: Entry,
        unread: list[Incoming],
        turn: int,
        now: float,
        todo: ActionQueue,
        *,
        final: bool,
    ) -> None:
        for message in unread:
            if message._trace is not None:
                message._trace.record_discarded(BusReason.ADDRESSEE_GONE)
        # A command that came over a link is resent by its sender's process, which
        # learns the last one taken (BUS-DEREG-4). So no two processes send one message
        # again.
        commands = [
            message
            for message in unread
            if message.kind is Kind.COMMAND and message._receipt is None
        ]
        if final or entry.visibility is Visibility.PRIVATE:
            name = entry.name
            fails = [Fail(message, AddresseeGoneError(name)) for message in commands]
            # No call between these lines: an interrupt finds both changes or none.
            todo += fails
            del unread[:]
        else:
            for message in commands:
                message._to = message._account = None
            deadline = now + self.resolve_timeout_s
            again = [Parked(message, deadline, now, turn) for message in commands]
            self.parked.prepend(entry.name, again, unread)

    # Messages without a route.

    def park(
        self, name: str, message: Incoming, now: float, *, again: bool = False
    ) -> Entry | None:
        """Park a message for a name; return the holder instead if there is one by now.

        again: True if it was accepted once; the bounds do not apply then.

        Raises:
            BusFullError: the parked list has no room (BUS-FLOW-1).
        """
        entry = self.table.find(name) or self.any_machine.find(name)
        if entry is not None:
            return entry
        if self.parked.full(name) and not again:
            raise self.parked.error(name)
        deadline = now + self.resolve_timeout_s
        if message._deadline is not None:
            deadline = min(deadline, message._deadline)
        self.parked.append(name, Parked(message, deadline, now))
        self.seek(name, now)
        return None

    def withdraw(self, message: Incoming) -> None:
        """Remove a parked message, and end its search if no other one waits."""
        name = message._name
        assert name is not None
        if self.parked.withdraw(name, message):
            self._end_searches([name])

    def seek(self, name: str, now: float) -> None:
        """Search for a name that parked messages wait for."""
        if self.remote is not None and not self.any_machine.is_binding(name):
            self.remote.seek(name, now)

    def expire(self, now: float, todo: ActionQueue) -> None:
        """Fail the messages that waited too long for their addressee (BUS-ROUTE-19).

        todo: receives the actions; it outlasts an interrupt of the decision.
        """
        self._end_searches(self.parked.expire(now, todo))

    def fail_those_of_others(self, bus: str, now: float, todo: ActionQueue) -> None:
        """Fail the parked messages of tasks of other buses: this bus is closed.

        bus: its name; todo: as for `expire`.
        """
        self._end_searches(self.parked.fail_those_of_others(bus, now, todo))

    def _end_searches(self, names: Iterable[str]) -> None:
        """End the searches for names that no message waits for any more."""
        if self.remote is not None:
            for name in names:
                if not self.parked.of(name):
                    self.remote.end_search(name)

    def _open(self, entry: Entry) -> Open:
        public = entry.visibility is Visibility.PUBLIC
        return Open(entry, tuple(self.parked.take(entry.name)) if public else ())
