"""The version of the protocol that two processes use (BUS-WIRE-3)."""

from __future__ import annotations

from typing import Final

from bus.errors import VersionMismatchError

__all__ = ["VERSIONS", "negotiate"]

# The versions that this code supports, lowest and highest. A new version is needed only
# for a frame that older code would refuse; keys and optional types are added without
# one.
VERSIONS: Final = (2, 2)


def negotiate(ours: tuple[int, int], theirs: tuple[int, int]) -> int:
    """Return the highest version that both sides support.

    ours, theirs: the lowest and the highest version of each side.

    Both sides get the same result.

    Raises:
        VersionMismatchError: there is none.
    """
    lowest = max(ours[0], theirs[0])
    highest = min(ours[1], theirs[1])
    if lowest > highest:
        raise VersionMismatchError(ours, theirs)
    return highest
