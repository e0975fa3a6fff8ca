"""`Interests`: the subscriptions, or the watches, of tasks.

A specification is kept, never expanded. It is matched against each name when that name
is registered, so that it covers later tasks, too (AMO-27).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from bus.core.local.routing_table import Audience
from bus.core.local.specification_trie import SpecificationTrie

if TYPE_CHECKING:
    from bus.core.local.routing_table import Entry, RoutingTable
    from bus.specification import Specification

__all__ = ["Interest", "Interests"]


class Interest(Hashable, Protocol):
    """A subscription or a watch of a task."""

    @property
    def _entry(self) -> Entry:
        """The task that subscribes or watches."""

    @property
    def specification(self) -> Specification:
        """The specification of the names to which the interest applies."""


Asked = TypeVar("Asked", bound=Interest)


class Interests(Generic[Asked]):
    """Interests by specification, and by task.

    machine: the machine that is meant if a specification names none.

    An interested task may be of another bus of this process: its entry identifies it.
    """

    __slots__ = ("_by_task", "_machine", "_tries")

    def __init__(self, machine: str) -> None:
        self._machine: Final = machine
        self._tries: dict[str, SpecificationTrie[Asked]] = {}
        self._by_task: dict[Entry, dict[Asked, None]] = {}

    def add(self, interest: Asked) -> None:
        """Add an interest, behind all others."""
        machine = self.machine_of(interest)
        trie = self._tries.get(machine)
        if trie is None:
            trie = self._tries[machine] = SpecificationTrie()
        trie.add(interest.specification, interest)
        self._by_task.setdefault(interest._entry, {})[interest] = None

    def of_other_buses(self, bus: str) -> list[Asked]:
        """Return the interests of tasks that are not of this bus."""
        return [
            interest
            for task, own in self._by_task.items()
            if task.address.bus != bus
            for interest in own
        ]

    def discard(self, interest: Asked) -> bool:
        """Remove an interest; False if it is not, or no longer, present."""
        own = self._by_task.get(interest._entry, {})
        if interest not in own:
            return False
        del own[interest]
        if not own:
            del self._by_task[interest._entry]
        machine = self.machine_of(interest)
        trie = self._tries[machine]
        trie.discard(interest.specification, interest)
        if trie.is_empty:
            del self._tries[machine]
        return True

    def of(self, entry: Entry) -> list[Asked]:
        """Return the interests of a task, in order of addition."""
        return list(self._by_task.get(entry, ()))

    def matching(self, name: str, machine: str | None = None) -> list[Asked]:
        """Return the interests that match a name, in order of addition."""
        trie = self._tries.get(machine or self._machine)
        return [] if trie is None else trie.matching(name)

    def matching_exactly(self, machine: str, pattern: str) -> bool:
        """Return True if an interest has this name or pattern, as it is written."""
        trie = self._tries.get(machine)
        return trie is not None and trie.holds(pattern)

    def audience(self, name: str, machine: str | None = None) -> tuple[Audience, ...]:
        """Return the tasks that are interested in a name, each once (AMO-28)."""
        found: dict[Entry, list[Asked]] = {}
        for interest in self.matching(name, machine):
            found.setdefault(interest._entry, []).append(interest)
        return tuple(Audience(entry, tuple(each)) for entry, each in found.items())

    def named_by(self, interest: Asked, table: RoutingTable) -> list[Entry]:
        """Return the public tasks of a table that an interest matches."""
        specification = interest.specification
        machine = self.machine_of(interest)
        if specification.is_plain and machine == self._machine:
            entry = table.find(specification.pattern)
            return [] if entry is None else [entry]
        return [
            each
            for each in table.public()
            if each.address.machine == machine
            and specification.matches(each.address.module)
        ]

    def machine_of(self, interest: Asked) -> str:
        """Return the machine whose names an interest matches."""
        return interest.specification.machine or self._machine
