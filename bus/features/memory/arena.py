"""`Arena`: the shared memory in which one process publishes its large messages."""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from bus.errors import ArenaFullError, StaleLeaseError
from bus.features.memory.slabs import SlabSet, buffer_bytes_for
from queuebroker.arguments import flat_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typing_extensions import Buffer

    from bus.features.memory.shared_memory import SharedMemory
    from bus.features.memory.slabs import Slab, SlabBuffer

__all__ = [
    "Arena",
    "ArenaLoan",
    "ArenaRecipient",
    "Placement",
    "SlabState",
    "arena_faults",
]

_FIELDS: Final = struct.Struct("!QQQQ")


class Placement(NamedTuple):
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
        return _FIELDS.pack(*self)

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


class ArenaRecipient:
    """The messages that one recipient has leased, and the bytes of their buffers.

    Invariant: ``held_bytes`` is the sum of the sizes of all buffers in ``leases``.

    Attributes:
        leases: the buffer of each lease, by the id of the lease; the oldest is first.
        held_bytes: compared with the share of the recipient (MC-31).
    """

    __slots__ = ("held_bytes", "leases")

    def __init__(self) -> None:
        self.leases: Final[dict[int, SlabBuffer]] = {}
        self.held_bytes: int = 0


def arena_faults(
    slabs: Iterable[Slab],
    recipients: Mapping[int, ArenaRecipient],
    loans: Iterable[SlabBuffer],
) -> Iterator[str]:
    """Yield one line for each violation of the conservation of buffers (MC-40).

    slabs: all open ones. recipients: by number. loans: the buffer of each loan.
    """
    held = [*loans]
    for number, recipient in recipients.items():
        held += recipient.leases.values()
        sizes = sum(buffer.size for buffer in recipient.leases.values())
        if recipient.held_bytes != sizes:
            counted = f"recipient {number} counts {recipient.held_bytes} bytes"
            yield f"{counted}, and holds {sizes}"
    known = Counter(held)
    for slab in slabs:
        yield from _faults_of(slab, known)
        for buffer in slab.buffers:
            known.pop(buffer, None)
    for buffer in known:
        yield f"a lease or a loan is of slab {buffer.slab}, which is closed"


def _faults_of(slab: Slab, known: Counter[SlabBuffer]) -> Iterator[str]:
    free, abandoned = Counter(slab.free), 0
    for buffer in slab.buffers:
        name = f"the buffer at {buffer.at} of slab {slab.number}"
        if buffer.holders < known[buffer]:
            yield f"{name} counts {buffer.holders} holders, and has {known[buffer]}"
        if free[buffer] != (buffer.holders == 0):
            yield f"{name} has {buffer.holders} holders, and is free {free[buffer]}x"
        abandoned += buffer.holders - known[buffer]
    if abandoned != slab.abandoned:
        counted = f"slab {slab.number} counts {slab.abandoned} abandoned messages"
        yield f"{counted}, and has {abandoned}"


class SlabState(NamedTuple):
    """One slab of an arena at present.

    number: as in `Placement`. buffer_bytes: the size of each buffer.
    buffers, free: all its buffers, and those without a message.
    leases: the messages not released yet; each recipient of a message counts.
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
        stray_releases: releases of a lease that the recipient does not have (MC-21).

    Raises:
        ValueError: ``bytes_max`` is less than 64 KiB, or ``share`` is not above 0 and
          at most 1.
    """

    __slots__ = (
        "_last_lease",
        "_last_recipient",
        "_loans",
        "_recipients",
        "_slabs",
        "bytes_max",
        "held_max",
        "stray_releases",
    )

    def __init__(self, bytes_max: int, *, share: float = 1.0) -> None:
        self._slabs: Final = SlabSet(bytes_max)
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {share}")
        self.bytes_max: Final = bytes_max
        self.stray_releases: int = 0
        self.held_max: Final = int(share * bytes_max)
        # By number. A number is given out once: a late call for a lost recipient finds
        # no new one.
        self._recipients: Final[dict[int, ArenaRecipient]] = {}
        # The buffer of each loan that has not ended, by the id of its lease.
        self._loans: Final[dict[int, SlabBuffer]] = {}
        self._last_lease = 0
        self._last_recipient = -1

    # Recipients.

    def add_recipient(self) -> int:
        """Return a number for one more recipient; it is never given out again."""
        self._last_recipient += 1
        self._recipients[self._last_recipient] = ArenaRecipient()
        return self._last_recipient

    def remove_recipient(self, recipient: int, *, process_ended: bool) -> int:
        """Release all leases of a recipient whose link is closed; return how many.

        process_ended: False if its process may still read what it has leased. Then
          these buffers are never used again, and their slab is closed once no other
          message is in it (MC-32).

        Raises:
            ValueError: there is no such recipient.
        """
        leases = self._recipient(recipient).leases
        del self._recipients[recipient]
        for buffer in leases.values():
            if process_ended:
                self._end(buffer)
            else:
                self._slabs.by_number[buffer.slab].abandoned += 1
        self._slabs.close_abandoned()
        return len(leases)

    def is_within_share(self, recipient: int, size: int) -> bool:
        """Return True if a recipient may hold one more message of ``size`` bytes.

        Raises:
            ValueError: there is no such recipient.
        """
        return self.held_bytes(recipient) + buffer_bytes_for(size) <= self.held_max

    def held_bytes(self, recipient: int) -> int:
        """Return the bytes of the buffers that a recipient holds.

        Raises:
            ValueError: there is no such recipient.
        """
        return self._recipient(recipient).held_bytes

    # Messages.

    def publish(
        self, payload: Buffer, recipients: Iterable[int]
    ) -> dict[int, Placement]:
        """Copy a message into the arena once; return its location for each recipient.

        A recipient is missing in the result if the message would exceed its share
        (MC-31). For no recipient nothing is done (MC-13).

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
        if buffer_bytes_for(len(view)) > self.bytes_max:
            # MC-30. It exceeds each share, too, but no recipient could ever get it.
            raise ArenaFullError(len(view), self.bytes_max)
        named = self._within_share(recipients, len(view))
        if not named:
            return {}
        slab = self._slabs.take(len(view))
        buffer = slab.free[-1]
        slab.view(buffer, len(view))[:] = view
        slab.free.pop()
        return {each: self._lease(to, buffer, len(view)) for each, to in named.items()}

    def lend(self, size: int) -> ArenaLoan:
        """Take a buffer for a message that the owner writes in place (MC-37).

        Raises:
            ArenaFullError, RuntimeError: as `publish`.
        """
        slab = self._slabs.take(size)
        buffer = slab.free.pop()
        buffer.holders = 1
        self._last_lease += 1
        self._loans[self._last_lease] = buffer
        view = slab.view(buffer, size)
        return ArenaLoan(slab.number, self._last_lease, buffer.at, size, view)

    def share(
        self, loan: ArenaLoan, recipient: int, length: int | None = None
    ) -> Placement | None:
        """Lease the bytes of a loan to a recipient, too; return their location.

        The loan goes on. Return None if the message would exceed the share of the
        recipient (MC-31). The owner must not write these bytes from now on.

        length: of the message, if it is shorter than the buffer of the loan.

        Raises:
            StaleLeaseError: the loan has ended.
            ValueError: there is no such recipient, or ``length`` exceeds the loan.
        """
        to = self._recipient(recipient)
        length = loan.size if length is None else length
        if not 0 <= length <= loan.size:
            raise ValueError(f"cannot publish {length} bytes of a loan of {loan.size}")
        buffer = self._loans.get(loan.lease)
        if buffer is None or buffer.slab != loan.slab:
            raise StaleLeaseError(loan.lease)
        if to.held_bytes + buffer.size > self.held_max:
            return None
        return self._lease(to, buffer, length)

    def take_back(self, loan: ArenaLoan) -> bool:
        """End a loan; return False if it has ended.

        Its recipients keep what was shared. Without any, the buffer is free again.
        """
        buffer = self._loans.get(loan.lease)
        if buffer is None or buffer.slab != loan.slab:
            self.stray_releases += 1
            return False
        del self._loans[loan.lease]
        with suppress(BufferError):  # a view made from it is left
            loan.buffer.release()
        self._end(buffer)
        return True

    def release(self, recipient: int, slab: int, lease: int) -> bool:
        """End a lease; return False if this recipient does not have it (MC-21).

        Raises:
            ValueError: there is no such recipient.
        """
        held = self._recipient(recipient)
        buffer = held.leases.get(lease)
        if buffer is None or buffer.slab != slab:
            self.stray_releases += 1
            return False
        del held.leases[lease]
        held.held_bytes -= buffer.size
        self._end(buffer)
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

    def slabs(self) -> Iterator[SlabState]:
        """Yield the state of each slab, the oldest first."""
        loans = [buffer.slab for buffer in self._loans.values()]
        for slab in self._slabs.by_number.values():
            yield SlabState(
                slab.number,
                slab.buffer_bytes,
                len(slab.buffers),
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
        return [*arena_faults(slabs, self._recipients, self._loans.values())]

    # Leases.

    def _lease(
        self, recipient: ArenaRecipient, buffer: SlabBuffer, length: int
    ) -> Placement:
        # An id is given out once and never again (MC-21).
        self._last_lease = lease = self._last_lease + 1
        buffer.holders += 1
        recipient.leases[lease] = buffer
        recipient.held_bytes += buffer.size
        return Placement(buffer.slab, lease, buffer.at, length)

    def _end(self, buffer: SlabBuffer) -> None:
        """Count one holder less; free the buffer after the last one."""
        buffer.holders -= 1
        slab = self._slabs.by_number[buffer.slab]
        if not buffer.holders:
            slab.free.append(buffer)
        if slab.abandoned:
            self._slabs.close_abandoned()

    def _within_share(
        self, recipients: Iterable[int], size: int
    ) -> dict[int, ArenaRecipient]:
        named = {each: self._recipient(each) for each in recipients}
        most = self.held_max - buffer_bytes_for(size)
        return {each: to for each, to in named.items() if to.held_bytes <= most}

    def _recipient(self, number: int) -> ArenaRecipient:
        try:
            return self._recipients[number]
        except KeyError:
            raise ValueError(f"the arena has no recipient {number}") from None
