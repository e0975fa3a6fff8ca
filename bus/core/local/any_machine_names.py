"""`AnyMachineNames`: names whose machine is ``*``, and the tasks they are bound to.

A message for ``ism://*/log`` is parked under that name until the task is found. Then
the name is **bound**: the process sends the parked messages to the task, and the name
becomes an alias of its entry in the routing table. Senders look up the alias like any
other name.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from bus.address import Address, is_anywhere, name_anywhere
from bus.core.local.actions import Bind

if TYPE_CHECKING:
    from bus.core.local.parked_list import ParkedList
    from bus.core.local.routing_table import Entry, RoutingTable

__all__ = ["AnyMachineNames"]


class AnyMachineNames:
    """The names of any machine that are being bound in one process.

    The driver performs a `Bind` after it has released the lock. Until it reports that
    all messages are sent, senders find no alias, and their messages are parked:
    otherwise a message could overtake an earlier one of the same sender. Rejected: to
    post the parked messages under the lock, since a post takes the lock of an inbox.

    Invariant: between two calls, a name in ``_binding`` is no alias in the table.
    """

    __slots__ = ("_binding", "_parked", "_table")

    def __init__(self, table: RoutingTable, parked: ParkedList) -> None:
        self._table: Final = table
        self._parked: Final = parked
        self._binding: Final[dict[str, Bind]] = {}

    def is_binding(self, name: str) -> bool:
        """Return True while the messages parked for a name are sent to its task."""
        return name in self._binding

    def find(self, name: str) -> Entry | None:
        """Return the task of this machine that receives a new message for a name.

        None if there is no such task, or if earlier messages are still parked.
        """
        if not is_anywhere(name) or name in self._binding or self._parked.of(name):
            return None
        entry = self._holder(name)
        if entry is not None:
            self._table.add_alias(entry)
        return entry

    def on_registered(self, entry: Entry) -> list[Bind]:
        """Bind a name to a new task of this process, if messages are parked for it."""
        name = name_anywhere(entry.name)
        return self.bind(name, entry) if self._parked.of(name) else []

    def bind(self, name: str, entry: Entry) -> list[Bind]:
        """Send the messages parked for a name to the task found for it.

        Does nothing if the name is being bound to another task.
        """
        if name in self._binding:
            return []
        bind = Bind(name, entry, deque(self._parked.take(name)))
        self._binding[name] = bind
        return [bind]

    def restore(self) -> None:
        """Forget each `Bind` that an interrupt has lost, before its messages return."""
        for each in self._parked.removals or ():
            self._binding.pop(each.name, None)

    def on_bound(self, done: Bind) -> list[Bind]:
        """Send the messages parked during a `Bind`, or end the binding.

        If messages are still parked after that, the caller searches for the name.

        It returns the same action with these messages, which the driver then holds
        already. Rejected: a new action. If an interrupt came before that was queued,
        its messages would be lost.
        """
        name, entry = done.name, done.entry
        if self._binding.get(name) is not done:
            return []  # the driver has reported twice, after an interrupt
        if entry in self._table and not self._parked.of(name):
            # In this order: after an interrupt in between, the driver reports again.
            self._table.add_alias(entry)
            del self._binding[name]
            return []
        target = entry if entry in self._table else self._holder(name)
        if target is None or not self._parked.of(name):
            del self._binding[name]
            return []
        done.entry = target
        self._parked.move(name, done)
        return [done]

    def _holder(self, name: str) -> Entry | None:
        """Return the known task of this machine with the module of a name."""
        return self._table.find(Address.parse(name).module)
