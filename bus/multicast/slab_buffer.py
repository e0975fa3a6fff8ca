"""`SlabBuffer`: one buffer of a slab, and the number of its holders."""

from __future__ import annotations

from typing import Final

__all__ = ["SlabBuffer"]


class SlabBuffer:
    """The place of one message in a slab.

    The object is made with its slab, and serves one message after another: a message
    costs no object.

    Attributes:
        slab: the number of the slab.
        at, size: its place in the memory of the slab, in bytes.
        holders: the leases of recipients, the loan to the owner, and the messages that
          lost recipients may still read. While there is none, the buffer is free.
    """

    __slots__ = ("at", "holders", "size", "slab")

    def __init__(self, slab: int, at: int, size: int) -> None:
        self.slab: Final = slab
        self.at: Final = at
        self.size: Final = size
        self.holders: int = 0
