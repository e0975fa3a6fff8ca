"""`SpecificationTrie`: look-up of the specifications that match a name.

Patterns with the same beginning share their first nodes. A name is walked once, segment
by segment, along all nodes that its beginning may lead to. The cost depends on the
patterns that match that beginning, never on the number of specifications.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct, field

from bus.address import is_system
from bus.specification import ANY_SEGMENTS, ONE_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.specification import Specification

__all__ = ["SpecificationTrie"]

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
        if values is None:
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
        """Remove a value of a specification, if it is held."""
        values = self._held.get(specification)
        if values is None:
            return
        values.pop(value, None)
        if values:
            return
        del self._held[specification]
        way = [self._root]
        for segment in specification.segments:
            way.append(way[-1].onward[segment])
        del way[-1].held[specification]
        for segment in reversed(specification.segments):
            node = way.pop()
            if node.held or node.onward:
                return
            del way[-1].onward[segment]

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
