"""`Lengths`: how long messages are that came, or go, together.

Mostly all of them are of one length. Then what is asked of all is known without a look
at each: many short messages are looked through so often on their way, for their sum or
for how many fit somewhere, that this was a tenth of all that was done for them.
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
_SWAPPED: Final = sys.byteorder == "little"  # so are numbers of the network for us
assert _ITEM == 4


class Lengths(Struct, frozen=True, gc=False):
    """Lengths in bytes, in order.

    count: how many there are; total: their sum.
    alike: the length of each, if they are all the same.
    several: each, if they are not. Not a tuple: peers may announce what would make
      large numbers of short frames.
    """

    count: int
    total: int
    alike: int = 0
    several: array[int] | None = None

    @classmethod
    def of(cls, each: Iterable[int]) -> Lengths:
        """Take them one by one."""
        return _of_array(array("I", each))

    @classmethod
    def unpack(cls, packed: bytes | memoryview) -> Lengths:
        """Read lengths as they stand in a frame: u32, in network order."""
        several = array("I", bytes(packed))
        if _SWAPPED:
            several.byteswap()
        return _of_array(several)

    def pack(self) -> bytes:
        """Return them as they stand in a frame."""
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
        """The greatest; 0 of none."""
        return self.alike if self.several is None else max(self.several)

    def part(self, start: int, stop: int) -> Lengths:
        """Return those from one place to another, as far as there are any."""
        count = max(0, min(stop, self.count) - start)
        if count == self.count:
            return self
        if self.several is None:
            return Lengths(count, self.alike * count, self.alike)
        return _of_array(self.several[start : start + count])

    def fitting(self, room: int) -> int:
        """Return how many of the first fit in so many bytes."""
        if self.total <= room:
            return self.count
        if self.several is None:
            return max(0, room // max(1, self.alike))
        return bisect_right(list(accumulate(self.several)), room)


def _of_array(several: array[int]) -> Lengths:
    count = len(several)
    if not count:
        return Lengths(0, 0)
    # Compared as bytes, all at once: this costs nothing beside a look at each.
    packed = several.tobytes()
    if packed == packed[:_ITEM] * count:
        return Lengths(count, several[0] * count, several[0])
    return Lengths(count, sum(several), 0, several)


class Bodies(list[bytes]):
    """Bodies of messages whose lengths are known: a list that is not changed."""

    __slots__ = ("lengths",)

    def __init__(self, bodies: Iterable[bytes], lengths: Lengths | None = None) -> None:
        super().__init__(bodies)
        self.lengths: Lengths = lengths or Lengths.of(map(len, self))
