"""`arena_faults`: whether each buffer of an arena is in one place, and is counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bus.multicast.arena_recipient import ArenaRecipient
    from bus.multicast.slab import Slab
    from bus.multicast.slab_buffer import SlabBuffer

__all__ = ["arena_faults"]


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
