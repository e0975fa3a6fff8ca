"""`MappedFile`: a file of fixed size, mapped to memory.

Its blocks are allocated before it is mapped: writing to a hole of a mapped file on a
full disk kills the process.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from queuebroker import _files, _sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["MappedFile", "atomic"]

# Without a global lock one call into C is no longer atomic.
HAS_GIL: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()

P = ParamSpec("P")
T = TypeVar("T")


def atomic(call: Callable[P, T]) -> Callable[P, T]:
    """Return a function in C as one that threads can call at the same time."""
    if HAS_GIL:
        return call
    lock = _sync.Lock()

    def locked(*args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            return call(*args, **kwargs)

    return locked


class MappedFile:
    """A file of fixed size, with real blocks, that is written as memory."""

    __slots__ = ("_map", "_path", "_view")

    def __init__(self, path: Path, head: bytes, size: int) -> None:
        """Make a file that begins with ``head``. OSError if there is no room.

        No file remains then.
        """
        self._path = path
        # Created under another name: a reader must not see a file without its header.
        unborn = path.with_name(f"{path.name.partition('.')[0]}.new")
        flags = os.O_RDWR | _files.BINARY
        opened = _files.Descriptors()
        try:
            opened.open(os.open, unborn, flags | os.O_CREAT | os.O_EXCL, 0o666)
            _files.allocate(opened[0], size)
            _files.pwrite(opened[0], head, 0)
            opened.close()  # Windows renames no file that is open
            unborn.rename(path)
            opened.open(os.open, path, flags)
            self._map = mmap.mmap(opened[0], size)
        except BaseException:
            opened.close()
            unborn.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise
        finally:
            opened.close()
        self._view = memoryview(self._map)

    def discard(self) -> None:
        """Remove a file in which nothing was written."""
        self._view.release()
        self._map.close()
        self._path.unlink(missing_ok=True)
