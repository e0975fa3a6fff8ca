"""`Placement`: the location of a message in an arena, for one recipient."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

__all__ = ["Placement"]

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
