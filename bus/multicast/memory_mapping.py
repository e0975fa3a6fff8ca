"""`MemoryMapping`: the shared memory of another process, mapped for reading only."""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemoryMapping"]

_NEEDED: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class MemoryMapping:
    """A read-only mapping of a `SharedMemory` (MC-34).

    Args:
        descriptor: of the memory; not used after this call.

    Attributes:
        memory: all of it, read-only.
        lent_from: makes the object behind a view of it; set by `lend`, which finds the
            address once.

    Raises:
        OSError: it cannot be mapped.
        ValueError: its owner could still shrink it, so that a read could end this
            process.
    """

    __slots__ = ("_mapping", "lent_from", "memory")

    def __init__(self, descriptor: int) -> None:
        try:
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        except OSError:  # no memory that could be sealed, such as a file
            seals = 0
        if seals & _NEEDED != _NEEDED:
            raise ValueError(
                f"cannot map shared memory whose owner may shrink it (seals {seals:#x})"
            )
        size = os.fstat(descriptor).st_size
        self._mapping: Final = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        self.memory: Final = memoryview(self._mapping)
        self.lent_from: Callable[[], Any] | None = None

    def close(self) -> None:
        """Close the mapping; it stays until its last lent view has ended."""
        with suppress(BufferError):
            self.memory.release()
            self._mapping.close()
