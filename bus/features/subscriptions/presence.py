"""`RemoteTasks`: the public tasks of other processes, as watches report them.

A watch reports addresses, not registrations. Two registrations of one name may be known
at once, since their announcements take different routes (BUS-DEREG-7). A watch reports
an address as present with the first of them, and as absent after the departure of the
last.

If the process that forwards departures is lost, each task is in doubt until its own
process confirms it through another one, or until a time limit has passed (BUS-DEREG-2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.features.subscriptions.interests import Interests
from bus.kernel.tasks.actions import FeatureAction
from bus.kernel.tasks.routing_table import Entry
from bus.model.message import Presence

if TYPE_CHECKING:
    from bus.features.subscriptions.interests import Interest
    from bus.kernel.tasks.routing_table import RoutingTable
    from bus.model.address import Address
    from bus.model.registration import Key, RegistrationId

__all__ = ["PresenceReport", "RemoteTasks"]


class PresenceReport(FeatureAction, eq=False):
    """A report to a task that a watched task has appeared or disappeared.

    An action, and then the item in the mailbox of the task (`Delivery`).

    handled: True once the watch has it. After an interrupt it may be posted again.
    """

    _to: Entry
    watch: Any
    presence: Presence
    handled: bool = False
    _account: None = None
    _trace: None = None

    def deliver(self, receiver: object) -> None:
        """Pass the report to the watch, once."""
        if not self.handled:
            self.handled = True
            self.watch._on_presence(self.presence, receiver)


class _RemoteTask(Struct, eq=False):
    """One registration.

    incarnation: of the process that made the registration.
    until: when it counts as departed unless it is confirmed, in seconds; None for a
      task that is not in doubt.
    """

    address: Address
    incarnation: int
    until: float | None = None


class RemoteTasks:
    """The public tasks of other processes, and the watches that report them.

    Args:
        machine: the machine of this process.
        table: the routing table of this process, with its own tasks and its relays.
        watches: the watches of this process.

    due_at: when `overdue` may return a task, in seconds; None for never.

    Invariants:
    I1. the keys of ``_by_address`` are the addresses of the tasks in ``_tasks``.
    I2. each key of ``_unreported`` is an address in ``_by_address``.
    I3. ``due_at`` is at or before ``until`` of each task; None if no task has one.
    """

    __slots__ = (
        "_by_address",
        "_machine",
        "_table",
        "_tasks",
        "_unreported",
        "_watches",
        "due_at",
    )

    def __init__(
        self, machine: str, table: RoutingTable, watches: Interests[Any]
    ) -> None:
        self._machine: Final = machine
        self._table: Final = table
        self._watches: Final = watches
        self._tasks: Final[dict[RegistrationId, _RemoteTask]] = {}
        self._by_address: Final[dict[Address, set[RegistrationId]]] = {}
        # Watches that began while all tasks of an address were in doubt.
        self._unreported: Final[dict[Address, list[Interest]]] = {}
        self.due_at: float | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    # Tasks of this process.

    def on_registered(self, address: Address) -> list[PresenceReport]:
        """Report a task of this process to the watches."""
        if address in self._by_address:
            return self._report_unreported(address)
        return self._presence(address, here=True)

    def on_departure(self, address: Address) -> list[PresenceReport]:
        """Report to the watches that a task of this process has deregistered."""
        if address in self._by_address:
            return []
        return self._presence(address, here=False)

    # Tasks of other processes.

    def on_appeared(
        self,
        number: RegistrationId,
        address: Address,
        incarnation: int,
        until: float | None = None,
    ) -> list[PresenceReport]:
        """Record that a process confirms a task; report it to watches that lack it.

        until: None if that process also announces the departure of the task. Otherwise
          the task is in doubt until then, unless it was not before.
        """
        known = self._tasks.get(number)
        if known is not None:
            if until is None:
                known.until = None
            return self._report_unreported(known.address)
        told = address in self._by_address or self._is_own(address)
        self._tasks[number] = _RemoteTask(address, incarnation, until)
        self._review(until)
        self._by_address.setdefault(address, set()).add(number)
        if told:
            return self._report_unreported(address)
        return self._presence(address, here=True)

    def on_disappeared(self, number: RegistrationId) -> list[PresenceReport]:
        """Remove a departed task; report it absent if no other task has its address."""
        task = self._tasks.pop(number, None)
        if task is None:
            return []
        address = task.address
        numbers = self._by_address[address]
        numbers.remove(number)
        if numbers:
            return []
        del self._by_address[address]
        untold = self._unreported.pop(address, ())
        if self._is_own(address):
            return []
        return [
            action
            for action in self._presence(address, here=False)
            if action.watch not in untold
        ]

    def on_withdrawn(self, number: RegistrationId) -> list[PresenceReport]:
        """Remove a task that no master confirms, unless its process is linked here.

        The master of another machine may be lost while the task's process lives. If it
        has a link with this process, it announces the departure itself.
        """
        if not self._has_relay(number):
            return self.on_disappeared(number)
        task = self._tasks.get(number)
        if task is not None:
            task.until = 0.0  # `overdue` returns it once it has no relay
            self._review(task.until)
        return []

    def of_process(self, key: Key, incarnation: int) -> list[RegistrationId]:
        """Return the tasks of one incarnation of a process, but not of a later one."""
        return [
            number
            for number, task in self._tasks.items()
            if (number.machine, number.process) == key
            and task.incarnation == incarnation
        ]

    # After the loss of a master.

    def doubt(self, machine: str | None, until: float) -> None:
        """Mark the tasks of one machine, or of all, as in doubt until confirmed.

        until: when they count as departed, in seconds. A task that is in doubt already
          keeps its time. Otherwise repeated losses of masters would postpone it without
          limit.
        """
        for number, task in self._tasks.items():
            if machine in {None, number.machine} and task.until is None:
                task.until = until
                self._review(until)

    def overdue(self, now: float, again_at: float) -> list[RegistrationId]:
        """Return the tasks that were in doubt for too long.

        A task with a confirmed relay is not among them: its process announces the
        departure on its own link. The task is checked again later, since that link may
        be closed.

        again_at: the time of that check, in seconds.
        """
        if self.due_at is None or self.due_at > now:
            return []
        self.due_at = None
        gone = []
        for number, task in self._tasks.items():
            if task.until is not None and task.until <= now:
                if not self._has_relay(number):
                    gone.append(number)
                    continue
                task.until = again_at
            self._review(task.until)
        return gone

    def _review(self, until: float | None) -> None:
        if until is not None and (self.due_at is None or until < self.due_at):
            self.due_at = until

    def owner_of(self, address: Address) -> Key | None:
        """Return the process of a known task of another process, or None.

        If two tasks have the address, it is that of the one registered last.
        """
        numbers = self._by_address.get(address)
        if not numbers:
            return None
        last = max(numbers, key=lambda each: each.number)
        return (last.machine, last.process)

    # Watches.

    def visible_to(self, watch: Interest) -> list[Address]:
        """Return the addresses that a new watch reports now.

        A task in doubt is reported once it is confirmed. But if this process has a
        confirmed relay of the task, the watch reports it now: the task's process
        announces the departure on its own link.
        """
        seen = []
        machine, specification = self._watches.machine_of(watch), watch.specification
        for address, numbers in self._by_address.items():
            if address.machine != machine or not specification.matches(address.module):
                continue
            if self._is_own(address):
                continue
            if any(map(self._is_certain, numbers)):
                seen.append(address)
            else:
                self._unreported.setdefault(address, []).append(watch)
        return seen

    def on_unwatched(self, watch: Interest) -> None:
        """Drop the state of a watch that has ended."""
        for address, watches in list(self._unreported.items()):
            if watch in watches:
                watches.remove(watch)
                if not watches:
                    del self._unreported[address]

    def _is_certain(self, number: RegistrationId) -> bool:
        return self._tasks[number].until is None or self._has_relay(number)

    def _has_relay(self, number: RegistrationId) -> bool:
        """Return True if the process of a task has confirmed its relay here."""
        entry = self._table.by_id(number)
        return entry is not None and not entry.mailbox.provisional

    def _is_own(self, address: Address) -> bool:
        """Return True if an address belongs to a public task of this process."""
        if address.machine != self._machine:
            return False
        entry = self._table.find(address.module)
        return entry is not None and not entry.remote

    def _report_unreported(self, address: Address) -> list[PresenceReport]:
        watches = self._unreported.pop(address, ())
        presence = Presence(address, here=True)
        return [PresenceReport(watch._entry, watch, presence) for watch in watches]

    def _presence(self, address: Address, *, here: bool) -> list[PresenceReport]:
        presence = Presence(address, here=here)
        return [
            PresenceReport(watch._entry, watch, presence)
            for watch in self._watches.matching(address.module, address.machine)
        ]
