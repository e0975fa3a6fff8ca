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
    from bus.core.specification import Specification

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

    machine: whose names are matched; what is for other machines is only kept. A task
      that asks may be of another bus of this process: it is known by its entry.
    """

    __slots__ = ("_by_task", "_machine", "_trie")

    def __init__(self, machine: str) -> None:
        self._machine: Final = machine
        self._trie: SpecificationTrie[Asked] = SpecificationTrie()
        self._by_task: dict[Entry, list[Asked]] = {}

    def add(self, interest: Asked) -> None:
        """Note one more interest, behind all others."""
        if self._is_for_this_machine(interest):
            self._trie.add(interest.specification, interest)
        self._by_task.setdefault(interest.entry, []).append(interest)

    def discard(self, interest: Asked) -> bool:
        """Forget an interest; False if it was not known, or not any more."""
        own = self._by_task.get(interest.entry, [])
        if interest not in own:
            return False
        own.remove(interest)
        if not own:
            del self._by_task[interest.entry]
        if self._is_for_this_machine(interest):
            self._trie.discard(interest.specification, interest)
        return True

    def of(self, entry: Entry) -> list[Asked]:
        """Return what a task asked for, in the order it did."""
        return list(self._by_task.get(entry, ()))

    def matching(self, name: str) -> list[Asked]:
        """Return the interests in a name, in the order they came to be."""
        return self._trie.matching(name)

    def audience(self, name: str) -> tuple[Audience, ...]:
        """Return who is interested in a name: each task once (AMO-28)."""
        found: dict[Entry, list[Asked]] = {}
        for interest in self.matching(name):
            found.setdefault(interest.entry, []).append(interest)
        return tuple(Audience(entry, tuple(each)) for entry, each in found.items())

    def named_by(self, interest: Asked, table: RoutingTable) -> list[Entry]:
        """Return the public tasks of a process that an interest names."""
        specification = interest.specification
        if not self._is_for_this_machine(interest):
            return []
        if specification.is_plain:
            entry = table.find(specification.pattern)
            return [] if entry is None else [entry]
        return [each for each in table.public() if specification.matches(each.name)]

    def _is_for_this_machine(self, interest: Asked) -> bool:
        return interest.specification.machine in {None, self._machine}
