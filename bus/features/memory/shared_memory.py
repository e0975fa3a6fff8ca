"""`SharedMemory`: memory in no file system that one process writes and others read."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from queuebroker._files import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SEALS", "SEALS_NEEDED", "SharedMemory"]

# Against a change of its size, which would end each process that touches the lost part
# (SIGBUS); against later writable mappings, by Linux 5.1; and against further seals. By
# number: Python 3.11 has no name for the third, and other systems have none for all.
_SEAL, _SHRINK, _GROW, _FUTURE_WRITE = 0x1, 0x2, 0x4, 0x10
SEALS: Final = _SHRINK | _GROW | _SEAL | _FUTURE_WRITE
# A mapping of other memory is refused: its owner could shrink it.
SEALS_NEEDED: Final = _SHRINK | _GROW


class SharedMemory:
    """Sealed memory of this process, which hands its descriptor to others.

    It lies in no file system, so nothing is left behind: the kernel frees it after the
    last descriptor and mapping, however their processes end (MC-33). All its pages
    exist from the start, so no write fails later for lack of memory.

    Args:
        size: in bytes, more than 0.

    Attributes:
        size: the same.
        name: random; another process knows by it that it has opened this memory.
        memory: all of it, writable.
        lent_from: as that of `MemoryMapping`.

    Raises:
        OSError: the system has no room, or cannot seal memory; the text says which.
    """

    __slots__ = (
        "_descriptors",
        "_mapping",
        "lent_from",
        "memory",
        "name",
        "size",
    )

    def __init__(self, size: int) -> None:
        self.size: Final = size
        # The kernel refuses no request: it kills processes until it has the pages.
        if size > (free := _available()):
            text = f"no room for {size} bytes of shared memory: {free} are free"
            raise OSError(errno.ENOMEM, text)
        self.name: Final = f"bus-{os.urandom(16).hex()}"
        # The descriptor, until `close`. One call in C creates and stores it, so that no
        # interrupt can lose it.
        self._descriptors: list[int] = []
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self._descriptors.extend(map(os.memfd_create, (self.name,), (flags,)))
        [descriptor] = self._descriptors
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            text = f"no room for {size} bytes of shared memory: {error.strerror}"
            raise OSError(error.errno, text) from None
        self._mapping: Final = mmap.mmap(descriptor, size)
        try:
            # After this mapping, which stays writable.
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except OSError as error:
            text = f"cannot seal shared memory, as Linux 5.1 can: {error.strerror}"
            raise OSError(error.errno, text) from None
        self.memory: Final = memoryview(self._mapping)
        self.lent_from: Callable[[], Any] | None = None

    def fileno(self) -> int:
        """Return the descriptor, which stays this object's.

        Raises:
            ValueError: the memory is closed.
        """
        if not self._descriptors:
            raise ValueError("the shared memory is closed")
        return self._descriptors[0]

    def close(self) -> None:
        """Close the memory; mappings of others stay. A second call does nothing.

        A view of `memory` that is still in use keeps this process's mapping.
        """
        if not self._descriptors:
            return
        self._close_descriptor()
        with suppress(BufferError):  # then the mapping ends with its last view
            self.memory.release()
            self._mapping.close()

    def _close_descriptor(self) -> None:
        # No call between the first line and `os.close`: an interrupt would lose it.
        descriptors, self._descriptors = self._descriptors, []
        for each in descriptors:
            os.close(each)

    def __del__(self) -> None:
        # An error or an interrupt may have hit the thread that was creating this, or
        # storing it.
        if hasattr(self, "_descriptors"):
            self._close_descriptor()


def _available() -> int:
    """Return the bytes of memory that the system can give without swapping."""
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return sys.maxsize
