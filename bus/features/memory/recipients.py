"""`Recipients`: the users of a pool or an arena, with their queues and their leases.

The owner of the memory executes the orders of all recipients here: **enqueue** appends
a block to the queue of a recipient, **dequeue** leases the oldest one to it, and
**release** ends a lease. How blocks are stored is not known here. Those of a pool lie
in its control region, those of an arena are objects; see `blocks`.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BlockQueue", "HeldBlock", "Holdings", "Recipient", "Recipients"]


class HeldBlock(Protocol):
    """A block that stands for a message of one recipient: a DCB or an ICB."""

    @property
    def held_bytes(self) -> int:
        """The size of all buffers of the message."""
        ...


B = TypeVar("B", bound=HeldBlock)


class BlockQueue(Protocol[B]):
    """A user queue: of the control region, or a deque."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[B]: ...

    def append(self, block: B, /) -> None:
        """Append a block at the tail."""
        ...

    def popleft(self) -> B:
        """Remove the block at the head; `IndexError` if there is none."""
        ...


class Holdings(NamedTuple):
    """The messages that one recipient keeps from being freed, for a cap on it (MC-31).

    queued, leased: the number of messages.
    held_bytes: the size of the buffers of all of them; a shared buffer counts for each
      message.
    """

    queued: int
    leased: int
    held_bytes: int


class Recipient(Generic[B]):
    """The messages of one recipient: first queued, then leased, then released.

    Invariant: ``held_bytes`` is the sum over all blocks in ``queue`` and ``leases``.

    Attributes:
        queue: its user queue (MC-6).
        leases: the block of each lease, by the id of the lease; the oldest is first.
        held_bytes: compared with the share of the recipient (MC-31).
    """

    __slots__ = ("held_bytes", "leases", "queue")

    def __init__(self, queue: BlockQueue[B]) -> None:
        self.queue: Final = queue
        self.leases: Final[dict[int, B]] = {}
        self.held_bytes: int = 0

    def __iter__(self) -> Iterator[B]:
        """Yield all its blocks: the queued ones, then the leased ones."""
        yield from self.queue
        yield from self.leases.values()

    @property
    def holdings(self) -> Holdings:
        """The messages that it holds at present."""
        return Holdings(len(self.queue), len(self.leases), self.held_bytes)

    def enqueue(self, block: B) -> None:
        """Append a block to its queue."""
        self.queue.append(block)
        self.held_bytes += block.held_bytes


# A dict, since each order looks a recipient up: a call in Python for that would cost
# about as much as the rest of the order.
class Recipients(dict[int, Recipient[B]]):
    """All recipients by number, and the ids of their leases.

    A number is given out once: a late call for a lost recipient finds no other one. The
    look-up of an unknown number raises `ValueError`.

    Attributes:
        lease_ids: the ids of the leases to come; each is given out once (MC-21).
        stray_releases: releases of a lease that the recipient does not have (MC-21).
    """

    __slots__ = ("_last_number", "lease_ids", "stray_releases")

    def __init__(self) -> None:
        super().__init__()
        self.stray_releases: int = 0
        self.lease_ids: Final = count(1)
        self._last_number = -1

    def __missing__(self, number: int) -> Recipient[B]:
        raise ValueError(
            f"there is no recipient {number}: it was never added, or was removed"
        )

    def add(self, queue: BlockQueue[B]) -> int:
        """Return the number of one more recipient; its queue is empty."""
        self._last_number += 1
        self[self._last_number] = Recipient(queue)
        return self._last_number

    def dequeue(self, number: int) -> tuple[int, B] | None:
        """Lease the oldest block to its recipient; return the id of the lease, too.

        Return None if the queue is empty.

        Raises:
            ValueError: there is no such recipient.
        """
        recipient = self[number]
        if not recipient.queue:
            return None
        block = recipient.queue.popleft()
        lease = next(self.lease_ids)
        recipient.leases[lease] = block
        return lease, block

    def release(self, number: int, lease: int) -> B | None:
        """End a lease, and return its block.

        Return None, and count it, if the recipient does not have this lease (MC-21).

        Raises:
            ValueError: there is no such recipient.
        """
        recipient = self[number]
        block = recipient.leases.pop(lease, None)
        if block is None:
            self.stray_releases += 1
        else:
            recipient.held_bytes -= block.held_bytes
        return block
