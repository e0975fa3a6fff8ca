"""`RemoteTasks`: the public tasks of other processes, as watches report them.

A watch reports addresses, not registrations. Two registrations of one name may be known
at once, since their announcements take different routes (BUS-DEREG-7). A watch reports
an address as present with the first of them, and as absent after the departure of the
last.

If the process that forwards departures is lost, each task is in doubt until its own
process confirms it (BUS-DEREG-2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.core.local.actions import Tell
from bus.message import Presence

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.address import Address
    from bus.core.local.interests import Interest, Interests
    from bus.core.local.routing_table import RoutingTable
    from bus.registration import RegistrationId

__all__ = ["RemoteTasks"]


@attrs.define(eq=False)
class _RemoteTask:
    """One registration.

    incarnation: of the process that made the registration.
    """

    address: Address
    incarnation: int
    doubtful: bool = False


class RemoteTasks:
    """The public tasks of other processes, and the watches that report them.

    Args:
        machine: the machine of this process.
        table: the routing table of this process, with its own tasks and its relays.
        watches: the watches of this process.

    Invariants:
    I1. the keys of ``_by_address`` are the addresses of the tasks in ``_tasks``.
    I2. each key of ``_unreported`` is an address in ``_by_address``.
    """

    __slots__ = (
        "_by_address",
        "_machine",
        "_table",
        "_tasks",
        "_unreported",
        "_watches",
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

    def __len__(self) -> int:
        return len(self._tasks)

    # Tasks of this process.

    def on_registered(self, address: Address) -> list[Tell]:
        """Report a task of this process to the watches."""
        if address in self._by_address:
            return self._report_unreported(address)
        return self._presence(address, here=True)

    def on_departure(self, address: Address) -> list[Tell]:
        """Report to the watches that a task of this process has deregistered."""
        if address in self._by_address:
            return []
        return self._presence(address, here=False)

    # Tasks of other processes.

    def on_appeared(
        self, number: RegistrationId, address: Address, incarnation: int
    ) -> list[Tell]:
        """Record that a process confirms a task; report it to watches that lack it."""
        known = self._tasks.get(number)
        if known is not None:
            known.doubtful = False
            return self._report_unreported(known.address)
        told = address in self._by_address or self._is_own(address)
        self._tasks[number] = _RemoteTask(address, incarnation)
        self._by_address.setdefault(address, set()).add(number)
        if told:
            return self._report_unreported(address)
        return self._presence(address, here=True)

    def on_disappeared(self, number: RegistrationId) -> list[Tell]:
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

    def on_process_lost(self, key: tuple[str, str], incarnation: int) -> list[Tell]:
        """Remove the tasks of one incarnation of a process, but not of a later one."""
        return self._remove(
            lambda number, task: (
                (number.machine, number.process) == key
                and task.incarnation == incarnation
            )
        )

    # After the loss of a master.

    def doubt(self, machine: str | None) -> None:
        """Mark the tasks of one machine, or of all, as in doubt until confirmed."""
        for number, task in self._tasks.items():
            if machine in {None, number.machine}:
                task.doubtful = True

    @property
    def doubtful(self) -> bool:
        """True if any task is in doubt."""
        return any(task.doubtful for task in self._tasks.values())

    def sweep(self, is_covered: Callable[[str], bool]) -> list[Tell]:
        """Remove the tasks in doubt on the machines that could have confirmed them."""
        return self._remove(
            lambda number, task: task.doubtful and is_covered(number.machine)
        )

    def _remove(
        self, is_gone: Callable[[RegistrationId, _RemoteTask], bool]
    ) -> list[Tell]:
        gone = [number for number, task in self._tasks.items() if is_gone(number, task)]
        return [action for number in gone for action in self.on_disappeared(number)]

    def owner_of(self, address: Address) -> tuple[str, str] | None:
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
        if not self._tasks[number].doubtful:
            return True
        entry = self._table.by_id(number)
        return entry is not None and not entry.mailbox.provisional

    def _is_own(self, address: Address) -> bool:
        """Return True if an address belongs to a public task of this process."""
        if address.machine != self._machine:
            return False
        entry = self._table.find(address.module)
        return entry is not None and not entry.remote

    def _report_unreported(self, address: Address) -> list[Tell]:
        watches = self._unreported.pop(address, ())
        presence = Presence(address, here=True)
        return [Tell(watch.entry, watch, presence) for watch in watches]

    def _presence(self, address: Address, *, here: bool) -> list[Tell]:
        presence = Presence(address, here=here)
        return [
            Tell(watch.entry, watch, presence)
            for watch in self._watches.matching(address.module, address.machine)
        ]
