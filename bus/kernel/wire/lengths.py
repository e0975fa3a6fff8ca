"""`Lengths`: the lengths of messages that arrive, or are sent, together.

Mostly they are all equal, and then their sum needs no loop. Many short messages are
examined several times on their way, for their sum or for how many fit into a space.
Loops over them were a tenth of their total cost.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Bodies", "Lengths"]

_ITEM: Final = array("I").itemsize
_SWAPPED: Final = sys.byteorder == "little"  # lengths on the wire are big-endian
assert _ITEM == 4


class Lengths(Struct, frozen=True, gc=False):
    """Lengths in bytes, in order.

    count: how many there are; total: their sum.
    alike: the length of each, if they are all equal.
    several: the single lengths, if they differ. Not a tuple, since a peer could make
      short frames expand into many large integers.
    """

    count: int
    total: int
    alike: int = 0
    several: array[int] | None = None

    @classmethod
    def of(cls, each: Iterable[int]) -> Lengths:
        """Return the lengths of an iterable."""
        return _of_array(array("I", each))

    @classmethod
    def unpack(cls, packed: bytes | memoryview) -> Lengths:
        """Return the lengths in a part of a frame: u32, in network byte order."""
        several = array("I", bytes(packed))
        if _SWAPPED:
            several.byteswap()
        return _of_array(several)

    def pack(self) -> bytes:
        """Return the lengths as bytes for a frame."""
        if self.several is None:
            return self.alike.to_bytes(_ITEM) * self.count
        several = self.several[:]
        if _SWAPPED:
            several.byteswap()
        return several.tobytes()

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        if self.several is None:
            return repeat(self.alike, self.count)
        return iter(self.several)

    @property
    def longest(self) -> int:
        """The greatest length; 0 if there is none."""
        return self.alike if self.several is None else max(self.several)

    def part(self, start: int, stop: int) -> Lengths:
        """Return the lengths from one index to another, as far as they exist."""
        count = max(0, min(stop, self.count) - start)
        if count == self.count:
            return self
        if self.several is None:
            return Lengths(count, self.alike * count, self.alike)
        return _of_array(self.several[start : start + count])

    def fitting(self, room: int) -> int:
        """Return how many of the first messages fit into ``room`` bytes."""
        if self.total <= room:
            return self.count
        if self.several is None:
            return max(0, room // max(1, self.alike))
        return bisect_right(list(accumulate(self.several)), room)


def _of_array(several: array[int]) -> Lengths:
    count = len(several)
    if not count:
        return Lengths(0, 0)
    # Compared as bytes in one call, at almost no cost next to a loop.
    packed = several.tobytes()
    if packed == packed[:_ITEM] * count:
        return Lengths(count, several[0] * count, several[0])
    return Lengths(count, sum(several), 0, several)


class Bodies(list[bytes]):
    """Bodies of messages whose lengths are known: a list that is never changed."""

    __slots__ = ("lengths",)

    def __init__(self, bodies: Iterable[bytes], lengths: Lengths | None = None) -> None:
        super().__init__(bodies)
        self.lengths: Lengths = lengths or Lengths.of(map(len, self))
