"""`SpecificationTrie`: who is meant by a name, without asking every specification.

Patterns that begin alike share their first nodes. A name is walked once, segment by
segment, along all the nodes that its beginning can have led to; the cost depends on
what matches that beginning, never on how many specifications there are.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from bus.address import is_system
from bus.specification import ANY_SEGMENTS, ONE_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.specification import Specification

__all__ = ["SpecificationTrie"]

T = TypeVar("T", bound=Hashable)


@attrs.define(eq=False)
class _Node(Generic[T]):
    """What patterns that begin with the same segments have in common.

    stays: the last of those segments is ``**``: whatever comes, one can stay here.
    onward: nodes by the next segment of a pattern, stars as they are written.
    held: values with their numbers, of the specifications that end here.
    """

    stays: bool
    onward: dict[str, _Node[T]] = attrs.Factory(dict)
    held: dict[Specification, dict[T, int]] = attrs.Factory(dict)


class SpecificationTrie(Generic[T]):
    """Values by specification, found by a name that the specification means.

    Only the names of modules are looked at: whoever knows several machines keeps a trie
    for each. Equal specifications may hold several values, and each value once.

    Invariants:
    I1. every node but the root holds something, or leads to one that does.
    I2. no two values have one number; a greater one was added later.
    """

    __slots__ = ("_added", "_held", "_root")

    def __init__(self) -> None:
        self._root: _Node[T] = _Node(stays=False)
        self._held: dict[Specification, dict[T, int]] = {}
        self._added = 0

    def __len__(self) -> int:
        """How many values there are, over all specifications."""
        return sum(map(len, self._held.values()))

    def add(self, specification: Specification, value: T) -> None:
        """Hold a value; one that this specification holds already keeps its place."""
        values = self._held.get(specification)
        if values is None:
            values = self._held[specification] = {}
            node = self._root
            for segment in specification.segments:
                child = node.onward.get(segment)
                if child is None:
                    child = _Node(stays=segment == ANY_SEGMENTS)
                    node.onward[segment] = child
                node = child
            node.held[specification] = values
        if value not in values:
            self._added += 1
            values[value] = self._added

    def discard(self, specification: Specification, value: T) -> None:
        """Hold that value of that specification no more, if it was held."""
        values = self._held.get(specification)
        if values is None or values.pop(value, None) is None or values:
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
        """Return the values of all specifications that mean ``name``, as added.

        A value that several of them hold comes as often.
        """
        first, *segments = name.split("/")
        if is_system(name):  # no star stands for its beginning
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

    def specifications(self) -> list[Specification]:
        """Return the specifications that hold a value, in the order they came."""
        return list(self._held)


def _after(nodes: Iterable[_Node[T]], segment: str) -> Iterable[_Node[T]]:
    """Yield the nodes to which one more segment of a name leads."""
    for node in nodes:
        if node.stays:
            yield node
        for key in (segment, ONE_SEGMENT):
            if (child := node.onward.get(key)) is not None:
                yield child


def _with_none_taken(nodes: Iterable[_Node[T]]) -> dict[_Node[T], None]:
    """Return nodes, each once, and those behind them by a ``**`` that takes nothing."""
    reached: dict[_Node[T], None] = {}
    for each in nodes:
        node: _Node[T] | None = each
        while node is not None and node not in reached:
            reached[node] = None
            node = node.onward.get(ANY_SEGMENTS)
    return reached
