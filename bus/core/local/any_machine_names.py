"""`AnyMachineNames`: names whose machine is ``*``, and the tasks they are bound to.

A message for ``ism://*/log`` waits under that name until the task is known. Then the
name is **bound**: the waiting messages go to the task, and the name becomes an alias of
its entry in the routing table. Senders look it up there like any other name.
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

    The driver performs a `Bind` after it has released the lock. Until it reports the
    end, senders find no alias and their messages wait: else a later message of a sender
    would overtake one that waited. Rejected: to post the waiting messages under the
    lock, since a post takes the lock of an inbox.

    Invariant: between two calls, a name in ``_binding`` is no alias in the table.
    """

    __slots__ = ("_binding", "_parked", "_table")

    def __init__(self, table: RoutingTable, parked: ParkedList) -> None:
        self._table: Final = table
        self._parked: Final = parked
        self._binding: Final[dict[str, Bind]] = {}

    def is_binding(self, name: str) -> bool:
        """Return True if a name has a task, and waiting messages are on their way."""
        return name in self._binding

    def find(self, name: str) -> Entry | None:
        """Return the task of this machine that a new message for a name goes to.

        None if there is none, or if earlier messages still wait.
        """
        if not is_anywhere(name) or name in self._binding or self._parked.of(name):
            return None
        entry = self._holder(name)
        if entry is not None:
            self._table.add_alias(entry)
        return entry

    def on_registered(self, entry: Entry) -> list[Bind]:
        """Bind a name that messages wait for to a new task of this process."""
        name = name_anywhere(entry.name)
        return self.bind(name, entry) if self._parked.of(name) else []

    def bind(self, name: str, entry: Entry) -> list[Bind]:
        """Send the messages that wait for a name to the task found for it.

        It does nothing if the name is being bound to another task.
        """
        if name in self._binding:
            return []
        return [self._next_bind(name, entry)]

    def on_bound(self, done: Bind) -> list[Bind]:
        """Continue after the messages of a `Bind` were sent, or end the binding.

        The caller then searches for the name, if messages still wait.
        """
        name, entry = done.name, done.entry
        if self._binding.get(name) is not done:
            return []  # reported twice, after an interrupt
        if entry in self._table and not self._parked.of(name):
            # In this order: if an interrupt comes between, the report is repeated.
            self._table.add_alias(entry)
            del self._binding[name]
            return []
        heir = entry if entry in self._table else self._holder(name)
        if heir is None or not self._parked.of(name):
            del self._binding[name]
            return []
        return [self._next_bind(name, heir)]

    def _next_bind(self, name: str, entry: Entry) -> Bind:
        bind = Bind(name, entry, deque(self._parked.take(name)))
        self._binding[name] = bind
        return bind

    def _holder(self, name: str) -> Entry | None:
        """Return the known task of this machine with the module of a name."""
        return self._table.find(Address.parse(name).module)
