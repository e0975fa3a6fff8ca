"""`open_memory`: opens the shared memory of another process of this machine.

That process states the number of its descriptor; the kernel reports its process number.
Rejected: to send the descriptor over the link. Then each read of the link would have to
ask for descriptors, which makes all messages slower. This way the recipient also gets a
descriptor that it cannot write.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

__all__ = ["open_memory"]

# The other process chooses the number of the descriptor, so the file may be any. The
# call waits for no file, and makes no terminal that of this process.
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_memory(pid: int, descriptor: int, name: str) -> int:
    """Return a descriptor of a `SharedMemory`, for reading only; the caller closes it.

    Args:
        pid: the process that has the memory.
        descriptor: its number in that process.
        name: as in `SharedMemory`; it proves that it is this memory. The descriptor may
            be closed, and its number used again, even by another process.

    Raises:
        OSError: this process may not open it, as that of another user.
        ValueError: the descriptor is not of this memory.
    """
    # Checked before as well: to open some devices has an effect.
    _check(os.readlink(f"/proc/{pid}/fd/{descriptor}"), name)
    opened = os.open(f"/proc/{pid}/fd/{descriptor}", _FLAGS)
    try:
        _check(os.readlink(f"/proc/self/fd/{opened}"), name)
    except BaseException:
        with suppress(OSError):
            os.close(opened)
        raise
    return opened


def _check(path: str, name: str) -> None:
    if path != f"/memfd:{name} (deleted)":
        raise ValueError(f"descriptor must be of shared memory {name!r}, got {path!r}")
