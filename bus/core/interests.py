"""`Interests`: which tasks want to hear of which names, whoever has them.

A specification is kept, never expanded: it is matched against each name when that is
registered, so that it holds for those too who come later (AMO-27).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from bus.core.routing_table import Audience
from bus.core.specification_trie import SpecificationTrie

if TYPE_CHECKING:
    from bus.core.routing_table import Entry, RoutingTable
    from bus.specification import Specification

__all__ = ["Interest", "Interests"]


class Interest(Hashable, Protocol):
    """What a task asked for: a subscription, or a watch."""

    @property
    def entry(self) -> Entry:
        """Who asked."""

    @property
    def specification(self) -> Specification:
        """For whom."""


Asked = TypeVar("Asked", bound=Interest)


class Interests(Generic[Asked]):
    """Interests by what they are for, and by whose they are.

    machine: whose names are meant where none is said. A task that asks may be of
      another bus of this process: it is known by its entry.
    """

    __slots__ = ("_by_task", "_machine", "_tries")

    def __init__(self, machine: str) -> None:
        self._machine: Final = machine
        self._tries: dict[str, SpecificationTrie[Asked]] = {}
        self._by_task: dict[Entry, list[Asked]] = {}

    def add(self, interest: Asked) -> None:
        """Note one more interest, behind all others."""
        machine = self.machine_of(interest)
        trie = self._tries.get(machine)
        if trie is None:
            trie = self._tries[machine] = SpecificationTrie()
        trie.add(interest.specification, interest)
        self._by_task.setdefault(interest.entry, []).append(interest)

    def discard(self, interest: Asked) -> bool:
        """Forget an interest; False if it was not known, or not any more."""
        own = self._by_task.get(interest.entry, [])
        if interest not in own:
            return False
        own.remove(interest)
        if not own:
            del self._by_task[interest.entry]
        machine = self.machine_of(interest)
        trie = self._tries[machine]
        trie.discard(interest.specification, interest)
        if not len(trie):
            del self._tries[machine]
        return True

    def of(self, entry: Entry) -> list[Asked]:
        """Return what a task asked for, in the order it did."""
        return list(self._by_task.get(entry, ()))

    def matching(self, name: str, machine: str | None = None) -> list[Asked]:
        """Return the interests in a name, in the order they came to be."""
        trie = self._tries.get(machine or self._machine)
        return [] if trie is None else trie.matching(name)

    def matching_exactly(self, machine: str, pattern: str) -> bool:
        """Whether anybody asked for a name or a pattern, as it is written."""
        trie = self._tries.get(machine)
        return trie is not None and any(
            each.pattern == pattern for each in trie.specifications()
        )

    def audience(self, name: str, machine: str | None = None) -> tuple[Audience, ...]:
        """Return who is interested in a name: each task once (AMO-28)."""
        found: dict[Entry, list[Asked]] = {}
        for interest in self.matching(name, machine):
            found.setdefault(interest.entry, []).append(interest)
        return tuple(Audience(entry, tuple(each)) for entry, each in found.items())

    def named_by(self, interest: Asked, table: RoutingTable) -> list[Entry]:
        """Return the public tasks that an interest names, of those in a table."""
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
        """Return whose names an interest is about."""
        return interest.specification.machine or self._machine
