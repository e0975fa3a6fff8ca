"""`Recipient`: one recipient of a pool, its queue and its leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bus.multicast.user_queue import UserQueue

if TYPE_CHECKING:
    from bus.multicast.control_region import ControlRegion

__all__ = ["Holdings", "Lease", "Recipient"]


class Lease(NamedTuple):
    """The hold of a recipient on a message that it has dequeued.

    block: the head block of the message, a DCB or an ICB.
    buffers, total_bytes: those of the message.
    """

    block: int
    buffers: int
    total_bytes: int


class Holdings(NamedTuple):
    """What one recipient keeps from being freed, for a cap on it (MC-31).

    queued, leased: messages.
    buffers: the buffers of all of them; a shared buffer counts for each message.
    total_bytes: the length of all of them.
    """

    queued: int
    leased: int
    buffers: int
    total_bytes: int


class Recipient:
    """The messages of one recipient: first queued, then leased, then released.

    Args:
        region: the control region.
        user: the number of the recipient.

    Invariant: ``buffers`` and ``total_bytes`` are the sums over all messages that are
    queued or leased.
    """

    __slots__ = ("_leases", "_region", "buffers", "queue", "total_bytes")

    def __init__(self, region: ControlRegion, user: int) -> None:
        self._region = region
        self._leases: dict[int, Lease] = {}
        self.queue: UserQueue = UserQueue(region, region.layout.user_queue_at(user))
        self.buffers: int = 0
        self.total_bytes: int = 0

    @property
    def leases(self) -> list[int]:
        """The ids of its leases, oldest first."""
        return list(self._leases)

    @property
    def leased_blocks(self) -> list[int]:
        """The head blocks of its leased messages, oldest lease first."""
        return [lease.block for lease in self._leases.values()]

    @property
    def holdings(self) -> Holdings:
        """What it holds at present."""
        return Holdings(
            len(self.queue), len(self._leases), self.buffers, self.total_bytes
        )

    def enqueue(self, head: int) -> None:
        """Append a message to its queue."""
        self.queue.enqueue(head)
        block = self._region.block(head)
        self.buffers += block.buffer_count
        self.total_bytes += block.total_bytes

    def dequeue(self, lease_id: int) -> Lease | None:
        """Lease its oldest message under an id; return None if its queue is empty."""
        head = self.queue.dequeue()
        if head is None:
            return None
        block = self._region.block(head)
        lease = Lease(head, block.buffer_count, block.total_bytes)
        self._leases[lease_id] = lease
        return lease

    def find(self, lease_id: int) -> Lease | None:
        """Return a lease; None if it has no lease of this id."""
        return self._leases.get(lease_id)

    def end(self, lease_id: int) -> Lease | None:
        """Remove a lease and return it; None if it has no lease of this id."""
        lease = self._leases.pop(lease_id, None)
        if lease is not None:
            self.buffers -= lease.buffers
            self.total_bytes -= lease.total_bytes
        return lease
