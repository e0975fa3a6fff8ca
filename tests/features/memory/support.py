"""A pool over two bytearrays, with a reader on the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.features.memory import Pool, PoolLayout, Reader
from bus.features.memory.blocks import HOLDERS_MAX
from bus.features.memory.region import DataRegion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.features.memory import Descriptor

__all__ = ["CountingRegion", "Site", "content_of"]


class Site:
    """The two regions of a pool, the pool, and a reader.

    The regions begin with bytes that no pool has left there.
    """

    def __init__(
        self,
        *,
        buffers: int = 8,
        size: int = 4,
        icbs: int = 4,
        users: int = 4,
        holders_max: int = HOLDERS_MAX,
    ) -> None:
        self.layout = PoolLayout(buffers, size, icbs, users)
        self.control = bytearray(b"\xa5" * self.layout.control_bytes)
        self.data = bytearray(b"\xa5" * self.layout.data_bytes)
        self.pool = Pool(self.layout, self.control, self.data, holders_max=holders_max)
        self.reader = Reader(self.layout, self.control, self.data)

    @property
    def free(self) -> tuple[list[int], list[int]]:
        """The free DCBs and the free ICBs, from head to tail."""
        supply = self.pool._supply
        return list(supply.free_direct), list(supply.free_indirect)

    @property
    def bits(self) -> tuple[bytes, bytes]:
        """All bytes of both regions."""
        return bytes(self.control), bytes(self.data)

    def take(self, user: int) -> Descriptor:
        """Dequeue a message that is there."""
        descriptor = self.pool.dequeue(user)
        assert descriptor is not None
        return descriptor

    def take_all(self, users: Sequence[int]) -> list[Descriptor]:
        return [self.take(user) for user in users]

    def dup(self, buffer: int) -> int:
        return self.pool.control.direct(buffer).dup


class CountingRegion(DataRegion):
    """A data region that counts the bytes written to it."""

    def __init__(self, layout: PoolLayout, memory: bytearray) -> None:
        super().__init__(layout, memory)
        self.written = 0

    def write(self, index: int, content: memoryview) -> None:
        self.written += len(content)
        super().write(index, content)


def content_of(size: int, salt: int = 0) -> bytes:
    """Return bytes that differ from place to place, and with the salt."""
    period = bytes((salt * 31 + 7 * at + 1) % 251 for at in range(min(size, 251)))
    return (period * (size // 251 + 1))[:size]
