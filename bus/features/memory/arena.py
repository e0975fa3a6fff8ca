"""`Arena`: the shared memory in which one process publishes its large messages.

The process is the owner, and executes the four orders of the source: **lease** takes a
DCB from the free queue of a slab, **enqueue** counts one holder more and appends an ICB
to the queue of a recipient, **dequeue** leases the oldest one to the recipient, and
**release** frees the DCB after the last holder. The owner holds the DCB itself, from
its lease until all recipients are counted; each recipient has an ICB.
"""

from __future__ import annotations

import struct
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from bus.errors import ArenaFullError, StaleLeaseError
from bus.features.memory.audit import ArenaAudit
from bus.features.memory.blocks import DirectBlock, IndirectBlock
from bus.features.memory.recipients import Recipients
from bus.features.memory.slabs import SlabSet, buffer_bytes_for
from queuebroker.arguments import flat_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

    from bus.features.memory.recipients import Holdings
    from bus.features.memory.shared_memory import SharedMemory

__all__ = ["Arena", "ArenaLoan", "Placement", "SlabState"]

_FIELDS: Final = struct.Struct("!QQQQ")


class Placement(msgspec.Struct, frozen=True, gc=False):
    """The location of a message for one recipient, and its lease.

    slab, lease: the slab, and the id of the lease; an arena never uses an id again.
    at, length: the bytes of the message in the memory of the slab.
    """

    slab: int
    lease: int
    at: int
    length: int

    def pack(self) -> bytes:
        """Return it as 32 bytes."""
        return _FIELDS.pack(self.slab, self.lease, self.at, self.length)

    @staticmethod
    def unpack(data: bytes | memoryview) -> Placement:
        """Return the placement of 32 bytes, which are any numbers."""
        return Placement(*_FIELDS.unpack(data))


class ArenaLoan(NamedTuple):
    """A message whose bytes are written in place, so that none is copied (MC-37).

    slab, lease: name it, as in a `Placement`.
    at, size: its place in the memory of the slab, and the bytes that were requested.
    buffer: writable; of ``size`` bytes. It is released at the end of the loan. A view
      or an array made from it must not be written any more then: recipients read these
      bytes, or other messages use them.
    """

    slab: int
    lease: int
    at: int
    size: int
    buffer: memoryview


class SlabState(NamedTuple):
    """One slab of an arena at present.

    number: as in `Placement`. buffer_bytes: the size of each buffer.
    buffers, free: all its buffers, and those without a message.
    leases: the messages not released yet, queued ones included; each recipient of a
      message counts.
    abandoned: those among them that a lost recipient may still read.
    loans: those among them that the owner still writes (MC-37).
    """

    number: int
    buffer_bytes: int
    buffers: int
    free: int
    leases: int
    abandoned: int
    loans: int


class Arena:
    """Slabs of shared memory, made when they are needed, within a limit of bytes.

    A message goes into the smallest buffer that holds it, of 64 KiB or a power of two
    above. The oldest slab with room takes it, so that few buffers are in turn. If the
    limit leaves no room for another slab, idle slabs are closed for it (MC-36).

    A recipient is a number given by `add_recipient`, such as for one link. There may be
    any number of them, and each may hold a share of the bytes (MC-31).

    One thread at a time calls an arena, in the process that made it. No call waits for
    a recipient; to make or to close a slab takes up to 0.3 ms a MiB. A call that raises
    has changed no lease.

    Args:
        bytes_max: the most bytes of all open slabs. A message has at most the greatest
          power of two within it.
        share: the part of them that one recipient may hold.

    Attributes:
        bytes_max: the same.
        held_max: the most bytes that one recipient may hold.

    Raises:
        ValueError: ``bytes_max`` is less than 64 KiB, or ``share`` is not above 0 and
          at most 1.
    """

    __slots__ = ("_loans", "_recipients", "_slabs", "bytes_max", "held_max")

    def __init__(self, bytes_max: int, *, share: float = 1.0) -> None:
        self._slabs: Final = SlabSet(bytes_max)
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {share}")
        self.bytes_max: Final = bytes_max
        self.held_max: Final = int(share * bytes_max)
        self._recipients: Final = Recipients[IndirectBlock]()
        # The DCB of each loan that has not ended, by the id of its lease.
        self._loans: Final[dict[int, DirectBlock]] = {}

    # Recipients.

    def add_recipient(self) -> int:
        """Return a number for one more recipient; it is never given out again."""
        return self._recipients.add(deque())

    def remove_recipient(self, recipient: int, *, process_ended: bool) -> int:
        """Release all messages of a recipient whose link is closed; return how many.

        process_ended: False if its process may still read what it has leased. Then
          these buffers are never used again, and their slab is closed once no other
          message is in it (MC-32).

        Raises:
            ValueError: there is no such recipient.
        """
        removed = self._recipients[recipient]
        del self._recipients[recipient]
        for block in removed.queue:  # its process has no location of these
            self._count_down(block.target)
        for block in removed.leases.values():
            if process_ended:
                self._count_down(block.target)
            else:
                self._slabs.by_number[block.target.slab].abandoned += 1
        self._slabs.close_abandoned()
        return len(removed.queue) + len(removed.leases)

    def is_within_share(self, recipient: int, size: int) -> bool:
        """Return True if a recipient may hold one more message of ``size`` bytes.

        Raises:
            ValueError: there is no such recipient.
        """
        held = self._recipients[recipient].held_bytes
        return held + buffer_bytes_for(size) <= self.held_max

    def holdings(self, recipient: int) -> Holdings:
        """Return the messages that a recipient keeps from being freed.

        Raises:
            ValueError: there is no such recipient.
        """
        return self._recipients[recipient].holdings

    # Messages.

    def publish(self, payload: Buffer, recipients: Iterable[int]) -> list[int]:
        """Copy a message into the arena once, and enqueue it for each recipient.

        Return the recipients that get it. One is missing if the message would exceed
        its share (MC-31). For no recipient nothing is done (MC-13).

        Args:
            payload: any contiguous buffer; it is not used after the call.
            recipients: their numbers; a number that is repeated counts once.

        Raises:
            ArenaFullError: there is no room, in the arena or in the system. No message
              and no lease is changed.
            RuntimeError: this is a forked child of the owner.
            TypeError: the payload is no contiguous buffer.
            ValueError: there is no such recipient.
        """
        view = flat_view(payload, "payload")
        size = len(view)
        if buffer_bytes_for(size) > self.bytes_max:
            # MC-30. It exceeds each share, too, but no recipient could ever get it.
            raise ArenaFullError(size, self.bytes_max)
        named = dict.fromkeys(recipients)
        within = [each for each in named if self.is_within_share(each, size)]
        if within:
            loan = self.lease(size)
            loan.buffer[:] = view
            for each in within:
                self.enqueue(loan, each)
            self.release_loan(loan)
        return within

    def lease(self, size: int) -> ArenaLoan:
        """Take a buffer for a message that the owner writes in place (MC-37).

        Raises:
            ArenaFullError, RuntimeError: as `publish`.
        """
        slab = self._slabs.take(size)
        block = slab.free.pop()
        block.dup = 1
        lease = next(self._recipients.lease_ids)
        self._loans[lease] = block
        return ArenaLoan(slab.number, lease, block.at, size, slab.view(block, size))

    def enqueue(
        self, loan: ArenaLoan, recipient: int, length: int | None = None
    ) -> bool:
        """Append the bytes of a loan to the queue of a recipient, too.

        The loan goes on. Return False if the message would exceed the share of the
        recipient (MC-31). The owner must not write these bytes from now on.

        length: of the message, if it is shorter than the buffer of the loan.

        Raises:
            StaleLeaseError: the loan has ended.
            ValueError: there is no such recipient, or ``length`` exceeds the loan.
        """
        length = loan.size if length is None else length
        if not 0 <= length <= loan.size:
            raise ValueError(f"cannot publish {length} bytes of a loan of {loan.size}")
        to = self._recipients[recipient]
        block = self._loans.get(loan.lease)
        if block is None:
            raise StaleLeaseError(loan.lease)
        if to.held_bytes + block.held_bytes > self.held_max:
            return False
        # MC-11: the loan keeps the buffer until all recipients are counted.
        block.dup += 1
        to.enqueue(IndirectBlock(block, length, block.held_bytes))
        return True

    def dequeue(self, recipient: int) -> Placement | None:
        """Lease the oldest message of a recipient; None if its queue is empty.

        Raises:
            ValueError: there is no such recipient.
        """
        leased = self._recipients.dequeue(recipient)
        if leased is None:
            return None
        lease, block = leased
        target = block.target
        return Placement(target.slab, lease, target.at, block.length)

    def release(self, recipient: int, lease: int, slab: int | None = None) -> bool:
        """End a lease; return False if this recipient does not have it (MC-21).

        slab: that of the lease, if the recipient names it too; both must be right.

        Raises:
            ValueError: there is no such recipient.
        """
        if slab is not None:
            named = self._recipients[recipient].leases.get(lease)
            if named is not None and named.target.slab != slab:
                self._recipients.stray_releases += 1
                return False
        block = self._recipients.release(recipient, lease)
        if block is None:
            return False
        self._count_down(block.target)
        return True

    def release_loan(self, loan: ArenaLoan) -> bool:
        """End a loan; return False if it has ended.

        Its recipients keep the messages that were enqueued. Without any, the buffer is
        free again.
        """
        block = self._loans.pop(loan.lease, None)
        if block is None:
            self._recipients.stray_releases += 1
            return False
        with suppress(BufferError):  # a view made from it is left
            loan.buffer.release()
        self._count_down(block)
        return True

    def memory(self, slab: int) -> SharedMemory:
        """Return the memory of a slab, to offer it to a recipient.

        Raises:
            ValueError: the slab is closed.
        """
        found = self._slabs.by_number.get(slab)
        if found is None:
            raise ValueError(f"slab {slab} of the arena is closed")
        return found.memory

    def take_closed(self) -> list[int]:
        """Return the slabs closed since the last call.

        As long as a recipient has such a slab mapped, the system keeps its memory.
        """
        return self._slabs.take_closed()

    def close(self) -> None:
        """Close all slabs, and forget all recipients; there is no room any more.

        Messages that recipients have mapped stay readable (MC-33).
        """
        self._recipients.clear()
        self._loans.clear()
        self._slabs.close()

    # Inspection.

    @property
    def size(self) -> int:
        """The bytes of all open slabs."""
        return self._slabs.size

    @property
    def stray_releases(self) -> int:
        """Releases of a lease that the recipient does not have (MC-21)."""
        return self._recipients.stray_releases

    def slabs(self) -> Iterator[SlabState]:
        """Yield the state of each slab, the oldest first."""
        loans = [block.slab for block in self._loans.values()]
        for slab in self._slabs.by_number.values():
            yield SlabState(
                slab.number,
                slab.buffer_bytes,
                len(slab.blocks),
                len(slab.free),
                slab.holders,
                slab.abandoned,
                loans.count(slab.number),
            )

    def check(self) -> list[str]:
        """Return the violations of conservation (MC-40), normally none.

        Walks over all buffers; for tests and for inspection.
        """
        slabs = self._slabs.by_number.values()
        return ArenaAudit(slabs, self._recipients, self._loans.values()).faults()

    def _count_down(self, block: DirectBlock) -> None:
        """Count one holder less; free the DCB after the last one (MC-19, MC-20)."""
        block.dup -= 1
        slab = self._slabs.by_number[block.slab]
        if not block.dup:
            slab.free.append(block)
        if slab.abandoned:
            self._slabs.close_abandoned()
