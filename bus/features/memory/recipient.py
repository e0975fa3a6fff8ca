"""`Recipient`: one recipient of a pool, its queue and its leases."""

from __future__ import annotations

from typing import NamedTuple

from typing_extensions import Buffer

from bus.errors import StaleLeaseError, WireError
from bus.features.memory.queues import UserQueue
from bus.features.memory.region import ControlRegion, DataRegion, Descriptor, PoolLayout
from queuebroker.closable import Uncopyable

__all__ = ["Holdings", "Lease", "Reader", "Recipient"]


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


class Reader(Uncopyable):
    """Reads messages by their descriptors.

    A descriptor is stale once the owner has freed one of its buffers, for instance
    because it declared the recipient dead. The generation of each buffer tells, so the
    reader checks it before and after use (MC-22).

    Args:
        layout: that of the pool.
        control, data: the regions; they may be read-only.

    Raises:
        ValueError: a region is too small for the layout.
    """

    __slots__ = ("_control", "_data", "_layout")

    def __init__(self, layout: PoolLayout, control: Buffer, data: Buffer) -> None:
        self._layout = layout
        self._control = ControlRegion(layout, control)
        self._data = DataRegion(layout, data)

    def read(self, descriptor: Descriptor) -> bytes:
        """Return a copy of the message.

        Raises:
            StaleLeaseError: a buffer was freed, before the copy or during it.
            WireError: the descriptor names memory outside of the buffers.
        """
        content = b"".join(self.views(descriptor))
        # The owner may have reused a buffer during the copy: then `content` is mixed.
        self.check(descriptor)
        return content

    def views(self, descriptor: Descriptor) -> list[memoryview]:
        """Return the pieces without copying them.

        After use, call `check`: until then the owner may free the buffers, if it
        declares this recipient dead.

        Raises:
            StaleLeaseError: a buffer was freed.
            WireError: the descriptor names memory outside of the buffers.
        """
        self.check(descriptor)
        return [self._data.view(piece).toreadonly() for piece in descriptor.pieces]

    def check(self, descriptor: Descriptor) -> None:
        """Do nothing if every buffer still holds this message.

        Raises:
            StaleLeaseError: a buffer was freed.
            WireError: the descriptor names memory outside of the buffers.
        """
        layout = self._layout
        for piece in descriptor.pieces:
            if not (
                layout.is_direct(piece.buffer)
                and piece.offset + piece.length <= layout.buffer_bytes
            ):
                raise WireError(f"a descriptor names memory outside of it: {piece}")
            if self._control.block(piece.buffer).generation != piece.generation:
                raise StaleLeaseError(descriptor.lease)

    def close(self) -> None:
        """Release both regions; views that were given out stay valid."""
        self._control.close()
        self._data.close()
