"""A connection: the unread items and the closed ends, and the status of an end.

Everything else about a connection is computed from these fields; no stored status could
disagree with them. Queues and channels share this module: only the content of
``inbound``, messages or bytes, differs.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

import attrs

__all__ = ["Connection", "Status", "disconnect", "status"]

# The unread items of an end: a sequence of messages, or a run of bytes.
Unread = TypeVar("Unread", tuple[bytes, ...], bytes)


class Status(enum.IntEnum):
    """The status of an end; it only ever moves to a greater one (QB-DISC-1)."""

    CONNECTED = 0
    HALF = 1
    DISCONNECTED = 2


@attrs.frozen(cache_hash=True)
class Connection(Generic[Unread]):
    """The state of a connection with the ends 0 and 1.

    inbound: for each end the items accepted for it and not received yet.
    closed: for each end True if it has disconnected.
    capacity: maximum number of messages or bytes, in each direction.
    strict_half: True if a send that would be dropped is refused instead (QB-PY-8).
    """

    inbound: tuple[Unread, Unread]
    closed: tuple[bool, bool] = (False, False)
    capacity: int = 1
    strict_half: bool = False

    def free(self, end: int) -> int:
        """Return the free room in the buffer of ``end``."""
        return self.capacity - len(self.inbound[end])

    def with_inbound(self, end: int, unread: Unread) -> Connection[Unread]:
        """Return the same connection with another content of one buffer."""
        other = self.inbound[1 - end]
        both = (unread, other) if end == 0 else (other, unread)
        return attrs.evolve(self, inbound=both)


def status(connection: Connection[Unread], end: int) -> Status:
    """Return the status of an end, as every clause of QB-DISC refers to it."""
    if connection.closed[end]:
        return Status.DISCONNECTED
    if not connection.closed[1 - end]:
        return Status.CONNECTED
    return Status.HALF if connection.inbound[end] else Status.DISCONNECTED


def disconnect(connection: Connection[Unread], end: int) -> Connection[Unread]:
    """Disconnect one end; its unread items are discarded (QB-DISC-11)."""
    closed = (True, connection.closed[1]) if end == 0 else (connection.closed[0], True)
    emptied = connection.with_inbound(end, connection.inbound[end][:0])
    return attrs.evolve(emptied, closed=closed)
