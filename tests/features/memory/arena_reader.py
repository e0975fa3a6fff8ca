"""A recipient of an arena in this process, and sizes of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from bus.features.memory.arena import Arena, Placement
    from bus.features.memory.mappings import SlabMappings

__all__ = ["LEAST", "MIB", "HeldMessage", "Reader", "buffer_for"]

MIB: Final = 2**20
# The smallest buffer.
LEAST: Final = 2**16


def buffer_for(size: int) -> int:
    """Return the least power of two from 64 KiB that holds a message."""
    wanted = LEAST
    while wanted < size:
        wanted *= 2
    return wanted


@attrs.define(eq=False)
class HeldMessage:
    """A message that a recipient holds: its view, and the bytes that belong there."""

    placement: Placement
    view: memoryview
    content: bytes

    @property
    def key(self) -> tuple[int, int]:
        return self.placement.slab, self.placement.lease


@attrs.define(eq=False)
class Reader:
    """A recipient in this process, as the link would serve it."""

    number: int
    mappings: SlabMappings
    known: set[int] = attrs.field(factory=set)
    held: list[HeldMessage] = attrs.field(factory=list)

    @property
    def bytes_held(self) -> int:
        return sum(buffer_for(len(each.content)) for each in self.held)

    def take(self, arena: Arena, placement: Placement, content: bytes) -> None:
        if placement.slab not in self.known:
            self.mappings.add(placement.slab, arena.memory(placement.slab).fileno())
            self.known.add(placement.slab)
        self.held.append(HeldMessage(placement, self.mappings.view(placement), content))
