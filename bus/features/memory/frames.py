"""Frames about the shared memory of the process that sends messages (MC-38).

Its memory consists of slabs. It offers each slab to a recipient before the first
message in it, so that a recipient without access still gets every message, over the
link. The docstring of each frame names the clauses that need its fields.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bus.kernel.wire.codec import register
from bus.kernel.wire.frames import ControlFrame, FrameType
from bus.kernel.wire.parts import U32, U64  # read by `msgspec`

__all__ = [
    "LEASES_MAX",
    "CloseSlab",
    "MemoryFrame",
    "OfferSlab",
    "Release",
    "SlabAnswer",
]

LEASES_MAX: Final = 256  # in a RELEASE


class MemoryFrame(ControlFrame, frozen=True):
    """Any of these frames; it concerns one link, and is not sent again on another."""


class OfferSlab(MemoryFrame, frozen=True, kw_only=True):
    """The offer of a slab of the sender's shared memory, by its descriptor (MC-38).

    slab: its number. descriptor: its number in the process that sends this.
    token: random; proves that the descriptor is of this memory.
    """

    type = FrameType.OFFER_SLAB
    slab: U64
    descriptor: U32
    token: Annotated[str, Meta(max_length=64)]


class SlabAnswer(MemoryFrame, frozen=True, kw_only=True):
    """The answer to an OFFER_SLAB: True if messages may lie in that slab (MC-38)."""

    type = FrameType.SLAB_ANSWER
    slab: U64
    mapped: bool


class CloseSlab(MemoryFrame, frozen=True, kw_only=True):
    """The end of a slab, in which there is no message any more (MC-36)."""

    type = FrameType.CLOSE_SLAB
    slab: U64


class Release(MemoryFrame, frozen=True, kw_only=True):
    """Messages in shared memory that no code reads any more (MC-35).

    leases: slab and lease of each.
    """

    type = FrameType.RELEASE
    leases: Annotated[
        tuple[tuple[U64, U64], ...], Meta(min_length=1, max_length=LEASES_MAX)
    ]


register(OfferSlab, SlabAnswer, CloseSlab, Release)
