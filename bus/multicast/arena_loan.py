"""`ArenaLoan`: a buffer of an arena that its sender fills before it is published."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ArenaLoan"]


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
