"""`MessageRun`: consecutive messages of one node, which travel together."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

__all__ = ["MessageRun"]


class MessageRun(Struct):
    """At least one message, in the order in which their node sent them.

    origin: the node that sent them first (BP-16).
    first: the number of the first of them there; the others have the numbers after it.
    bodies: the messages.
    encoded: their frames on several connections, made once: by layout.
    """

    origin: int
    first: int
    bodies: Sequence[bytes]
    encoded: dict[object, bytes | tuple[bytes, bytes]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The length of all messages, in bytes."""
        return sum(map(len, self.bodies))

    def part(self, start: int, stop: int | None = None) -> MessageRun:
        """Return a slice of it."""
        return MessageRun(self.origin, self.first + start, self.bodies[start:stop])
