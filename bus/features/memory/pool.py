"""`Pool`: one message to many recipients, with one copy of its bytes.

The owner of the two regions calls it, and is the only writer of both. It is the
*arbiter* of the source, with its four orders: **lease** takes blocks from a free queue,
**enqueue** appends a message to the queue of a recipient, **dequeue** gives the oldest
message to its recipient, and **release** counts one holder less and frees the buffers
after the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import Buffer

from bus.errors import ArenaFullError, StaleLeaseError
from bus.features.memory.audit import Census, PoolAudit
from bus.features.memory.blocks import HOLDERS_MAX, ControlBlock, Mode
from bus.features.memory.chains import BufferChains, Excerpt, WholeChains
from bus.features.memory.queues import BlockSupply, UserQueue
from bus.features.memory.recipients import Holdings, Recipient, Recipients
from bus.features.memory.region import (
    ControlRegion,
    DataRegion,
    Descriptor,
    Piece,
    PoolLayout,
    pieces_of,
)
from queuebroker.arguments import flat_view
from queuebroker.closable import Uncopyable

__all__ = ["Pool"]


class Pool(Uncopyable):
    """Buffers, control blocks and user queues in two regions of memory.

    A recipient is a number from 0 to ``layout.users - 1``. A message is queued for its
    recipients, leased by each of them with `dequeue`, and released by each. Its
    buffers are free again after the last release.

    One thread at a time calls a pool, and no call waits. A call that raises has changed
    nothing.

    Args:
        layout: the sizes; both regions must be large enough for them.
        control, data: two writable buffers, such as mappings; what they contain is
          overwritten.
        holders_max: the most holders of one buffer (MC-12).

    Attributes:
        control, data: the two regions, as blocks and buffers by index.

    Raises:
        ValueError: a region is too small for the layout, or ``holders_max`` is not
          below the reserved code.
    """

    __slots__ = (
        "_by_buffer",
        "_holders_max",
        "_recipients",
        "_supply",
        "_whole",
        "control",
        "data",
        "layout",
    )

    def __init__(
        self,
        layout: PoolLayout,
        control: Buffer,
        data: Buffer,
        *,
        holders_max: int = HOLDERS_MAX,
    ) -> None:
        if not 0 < holders_max <= HOLDERS_MAX:
            raise ValueError(
                f"holders_max must be from 1 to {HOLDERS_MAX}, got {holders_max}"
            )
        self.layout: PoolLayout = layout
        self.control: ControlRegion = ControlRegion(layout, control)
        self.data: DataRegion = DataRegion(layout, data)
        self._holders_max = holders_max
        self._supply = BlockSupply(self.control)
        self._whole = WholeChains(self.control, self._supply)
        self._by_buffer = BufferChains(
            self.control, self._supply, holders_max=holders_max
        )
        self.control.clear()
        self._supply.build()
        self._recipients = Recipients[ControlBlock]()
        for user in range(layout.users):
            queue = UserQueue(self.control, layout.user_queue_at(user))
            queue.build()
            self._recipients.add(queue)

    # Publishing.

    def publish(
        self, payload: Buffer, recipients: Sequence[int], *, mode: Mode = Mode.WHOLE
    ) -> None:
        """Copy a message into the pool once, and enqueue it for each recipient.

        Publishing to no recipient does nothing (MC-13). A recipient that is named twice
        gets the message twice.

        Args:
            payload: any contiguous buffer; it is not used after the call.
            recipients: their numbers.
            mode: `Mode.BY_BUFFER` if variants of the message will be published.

        Raises:
            ArenaFullError: there are not enough free blocks (MC-16).
            TypeError: the payload is no contiguous buffer.
            ValueError: there is no such recipient, or there are too many (MC-12).
        """
        named = self._named(recipients)
        if not named:
            return
        view = flat_view(payload, "payload")
        chains = self._whole if mode is Mode.WHOLE else self._by_buffer
        self._enqueue(chains.build(view, len(named), self.data), named, len(view))

    def publish_variant(
        self,
        holder: int,
        lease: int,
        parts: Sequence[Buffer | Excerpt],
        recipients: Sequence[int],
    ) -> None:
        """Enqueue a message made of stretches of a leased message and of new bytes.

        The stretches are shared with the original, and only the new bytes are copied
        (MC-25, MC-28). The original stays as it is, and may be released at any time
        afterwards. A variant may be the original of further variants.

        Args:
            holder, lease: the recipient that holds the original, and its lease.
            parts: the contents, in order: an `Excerpt` of the original, or new bytes.
            recipients: their numbers.

        Raises:
            ArenaFullError: there are not enough free blocks (MC-16).
            BusFullError: a shared buffer would have too many holders (MC-12).
            StaleLeaseError: the holder does not have this lease.
            TypeError: new bytes are no contiguous buffer.
            ValueError: the original was not published `Mode.BY_BUFFER`, an excerpt is
              outside of it, there is no such recipient, or there are too many.
        """
        named = self._named(recipients)
        original = self._recipients[holder].leases.get(lease)
        if original is None:
            raise StaleLeaseError(lease)
        if original.mode != Mode.BY_BUFFER:
            raise ValueError(
                f"cannot make a variant of the message of lease {lease}: it is freed "
                f"as a whole; publish it with mode=Mode.BY_BUFFER"
            )
        pieces = pieces_of(self.control, original.index)
        resolved = [
            part.of(pieces) if isinstance(part, Excerpt) else flat_view(part, "part")
            for part in parts
        ]
        if not named:
            return
        heads = self._by_buffer.compose(resolved, len(named), self.data)
        size = sum(
            part.length if isinstance(part, Piece) else len(part) for part in resolved
        )
        self._enqueue(heads, named, size)

    def has_room(self, size: int, recipients: int, *, mode: Mode = Mode.WHOLE) -> bool:
        """Return True if a message of ``size`` bytes could be published now."""
        chains = self._whole if mode is Mode.WHOLE else self._by_buffer
        return not recipients or self._supply.has(*chains.demand(size, recipients))

    # Delivery and release.

    def dequeue(self, recipient: int) -> Descriptor | None:
        """Lease the oldest message of a recipient; None if its queue is empty.

        Raises:
            ValueError: there is no such recipient.
        """
        leased = self._recipients.dequeue(recipient)
        if leased is None:
            return None
        lease, block = leased
        return Descriptor(
            lease, pieces_of(self.control, block.index), block.total_bytes
        )

    def release(self, recipient: int, lease: int) -> bool:
        """End a lease; return False if this recipient does not have it.

        Such a release is ignored and counted, whether the lease was released before,
        is another recipient's, or never existed (MC-21).

        Raises:
            ValueError: there is no such recipient.
        """
        block = self._recipients.release(recipient, lease)
        if block is None:
            return False
        chains = self._whole if block.mode == Mode.WHOLE else self._by_buffer
        chains.release(block.index)
        return True

    def release_all(self, recipient: int) -> int:
        """Release all messages of a recipient, leased and queued; return how many.

        For a recipient that is lost (MC-24). Its number may be used again at once: a
        late release of an old lease is ignored.

        Raises:
            ValueError: there is no such recipient.
        """
        # Queued messages are leased first: so there is one way to release.
        while self._recipients.dequeue(recipient) is not None:
            pass
        leases = list(self._recipients[recipient].leases)
        for lease in leases:
            self.release(recipient, lease)
        return len(leases)

    # Inspection.

    @property
    def stray_releases(self) -> int:
        """Releases of a lease that the recipient does not have (MC-21)."""
        return self._recipients.stray_releases

    def holdings(self, recipient: int) -> Holdings:
        """Return how much a recipient keeps from being freed.

        Raises:
            ValueError: there is no such recipient.
        """
        return self._recipients[recipient].holdings

    def census(self) -> Census:
        """Return the number of blocks in each state, without a walk over them."""
        layout, supply = self.layout, self._supply
        free_direct, free_indirect = len(supply.free_direct), len(supply.free_indirect)
        held = [each.holdings for each in self._recipients.values()]
        return Census(
            free_direct=free_direct,
            chained=layout.buffers - free_direct - supply.borrowed,
            borrowed=supply.borrowed,
            free_indirect=free_indirect,
            indirect=layout.icbs - free_indirect,
            queued=sum(each.queued for each in held),
            leased=sum(each.leased for each in held),
        )

    def check(self) -> list[str]:
        """Return the violations of conservation (MC-23), normally none.

        Walks over all blocks; for tests and for inspection.
        """
        return PoolAudit(self.control, self._supply, self._recipients).faults()

    def close(self) -> None:
        """Release both regions; the pool cannot be used any more."""
        self.control.close()
        self.data.close()

    def _named(self, recipients: Sequence[int]) -> list[Recipient[ControlBlock]]:
        if len(recipients) > self._holders_max:
            raise ValueError(
                f"cannot publish to {len(recipients)} recipients: a message has at "
                f"most {self._holders_max}; publish it to the others separately"
            )
        return [self._recipients[number] for number in recipients]

    def _enqueue(
        self,
        heads: list[int] | None,
        recipients: list[Recipient[ControlBlock]],
        size: int,
    ) -> None:
        """Append a message that is complete: its bytes, its counts, its links."""
        if heads is None:
            raise ArenaFullError(size, self.layout.data_bytes)
        for head, recipient in zip(heads, recipients, strict=True):
            recipient.enqueue(self.control.block(head))
