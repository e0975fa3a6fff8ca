"""`Interests`: the subscriptions, or the watches, of tasks.

A specification is kept, never expanded. It is matched against each name when that name
is registered, so that it covers later tasks, too (AMO-27).

`SpecificationTrie` looks up the specifications that match a name. Patterns with the
same beginning share their first nodes. A name is walked once, segment by segment, along
all nodes that its beginning may lead to. The cost depends on the patterns that match
that beginning, never on the number of specifications.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from msgspec import Struct, field

from bus.kernel.tasks.routing_table import Audience
from bus.model.address import is_system
from bus.model.specification import ANY_SEGMENTS, ONE_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.kernel.tasks.routing_table import Entry, RoutingTable
    from bus.model.specification import Specification

__all__ = ["Interest", "Interests", "SpecificationTrie"]

T = TypeVar("T", bound=Hashable)


class _Node(Struct, Generic[T], eq=False):
    """The common part of patterns that begin with the same segments.

    stays: True if the last of these segments is ``**``, which takes any further
      segment.
    onward: nodes by the next segment of a pattern, wildcards as written.
    held: values with their numbers, of the specifications that end here.
    """

    stays: bool
    onward: dict[str, _Node[T]] = field(default_factory=dict)
    held: dict[Specification, dict[T, int]] = field(default_factory=dict)


class SpecificationTrie(Generic[T]):
    """Values by specification, found by a name that the specification matches.

    Only module names are matched: a process that knows several machines keeps a trie
    for each. Equal specifications may hold several values, each value once.

    Invariants:
    I1. every node but the root holds a value, or leads to a node that does.
    I2. no two values have the same number; a greater number was added later.
    """

    __slots__ = ("_added", "_held", "_root")

    def __init__(self) -> None:
        self._root: _Node[T] = _Node(stays=False)
        self._held: dict[Specification, dict[T, int]] = {}
        self._added = 0

    def __len__(self) -> int:
        """Return the number of values, over all specifications."""
        return sum(map(len, self._held.values()))

    def holds(self, pattern: str) -> bool:
        """Return True if a specification with this pattern holds a value."""
        node = self._root
        for segment in pattern.split("/"):
            child = node.onward.get(segment)
            if child is None:
                return False
            node = child
        return bool(node.held)

    @property
    def is_empty(self) -> bool:
        """True if no specification holds a value."""
        return not self._held

    def add(self, specification: Specification, value: T) -> None:
        """Add a value; one that this specification holds already keeps its place."""
        values = self._held.get(specification)
        if not values:  # or an interrupt has ended a call that removed the last one
            values = {}
            node = self._root
            for segment in specification.segments:
                child = node.onward.get(segment)
                if child is None:
                    child = _Node(stays=segment == ANY_SEGMENTS)
                    node.onward[segment] = child
                node = child
            # In this order: after an interrupt in between, both are set again.
            node.held[specification] = values
            self._held[specification] = values
        if value not in values:
            self._added += 1
            values[value] = self._added

    def discard(self, specification: Specification, value: T) -> None:
        """Remove a value of a specification, if it is held.

        After an interrupt the next call continues.
        """
        values = self._held.get(specification)
        if values is None:
            return
        values.pop(value, None)
        if values:
            return
        way = [self._root]
        for segment in specification.segments:
            child = way[-1].onward.get(segment)
            if child is None:
                break  # an interrupted call has removed the rest
            way.append(child)
        else:
            way[-1].held.pop(specification, None)
        while len(way) > 1:
            node = way.pop()
            if node.held or node.onward:
                break
            del way[-1].onward[specification.segments[len(way) - 1]]
        del self._held[specification]  # last: until then the next call continues

    def matching(self, name: str) -> list[T]:
        """Return the values of all specifications that match ``name``, as added.

        A value that several specifications hold is returned as often.
        """
        first, *segments = name.split("/")
        if is_system(name):  # no wildcard matches its first segment
            child = self._root.onward.get(first)
            here = _with_none_taken([] if child is None else [child])
        else:
            segments.insert(0, first)
            here = _with_none_taken([self._root])
        for segment in segments:
            here = _with_none_taken(_after(here, segment))
        found = [
            (number, value)
            for node in here
            for values in node.held.values()
            for value, number in values.items()
        ]
        found.sort(key=lambda numbered: numbered[0])  # values need not be comparable
        return [value for _, value in found]


def _after(nodes: Iterable[_Node[T]], segment: str) -> Iterable[_Node[T]]:
    """Yield the nodes that one more segment of a name leads to."""
    for node in nodes:
        if node.stays:
            yield node
        for key in (segment, ONE_SEGMENT):
            if (child := node.onward.get(key)) is not None:
                yield child


def _with_none_taken(nodes: Iterable[_Node[T]]) -> dict[_Node[T], None]:
    """Return nodes and those behind them by a ``**`` without a segment, each once."""
    reached: dict[_Node[T], None] = {}
    for each in nodes:
        node: _Node[T] | None = each
        while node is not None and node not in reached:
            reached[node] = None
            node = node.onward.get(ANY_SEGMENTS)
    return reached


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
        # First: after an interrupt, the departure of the task removes the rest.
        own = self._by_task.get(interest._entry)
        if own is None:
            self._by_task[interest._entry] = {interest: None}
        else:
            own[interest] = None
        machine = self.machine_of(interest)
        trie = self._tries.get(machine)
        if trie is None:
            trie = self._tries[machine] = SpecificationTrie()
        trie.add(interest.specification, interest)

    def all(self) -> list[Asked]:
        """Return all interests, task by task."""
        return [interest for own in self._by_task.values() for interest in own]

    def of_other_buses(self, bus: str) -> list[Asked]:
        """Return the interests of tasks that are not of this bus."""
        return [each for each in self.all() if each._entry.address.bus != bus]

    def __contains__(self, interest: Asked) -> bool:
        """Return True until `forget`."""
        return interest in self._by_task.get(interest._entry, ())

    def discard(self, interest: Asked) -> bool:
        """Remove an interest; False if it is not, or no longer, present."""
        if interest not in self:
            return False
        self.withdraw(interest)
        self.forget(interest)
        return True

    def withdraw(self, interest: Asked) -> None:
        """Let no name match an interest any more; it stays in the list of its task."""
        machine = self.machine_of(interest)
        trie = self._tries.get(machine)
        if trie is not None:
            trie.discard(interest.specification, interest)
            if trie.is_empty:
                del self._tries[machine]

    def forget(self, interest: Asked) -> None:
        """Remove an interest from the list of its task."""
        own = self._by_task[interest._entry]
        last = len(own) == 1
        # No call between these lines.
        if last:
            del self._by_task[interest._entry]
        else:
            del own[interest]

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
