"""Which version of the protocol two processes speak (BUS-WIRE-3)."""

from __future__ import annotations

from typing import Final

from bus.errors import VersionMismatchError

__all__ = ["VERSIONS", "negotiate"]

# What this code speaks, lowest and highest. A version changes when a frame that older
# code would refuse becomes necessary; keys and optional types come without one.
VERSIONS: Final = (2, 2)


def negotiate(ours: tuple[int, int], theirs: tuple[int, int]) -> int:
    """Return the highest version that both speak; each says its lowest and highest.

    Both sides come to the same answer, whichever asks.

    Raises:
        VersionMismatchError: there is none.
    """
    lowest = max(ours[0], theirs[0])
    highest = min(ours[1], theirs[1])
    if lowest > highest:
        raise VersionMismatchError(ours, theirs)
    return highest
