"""`MappedFile`: a file of fixed size, mapped to memory.

Its blocks are allocated before it is mapped: writing to a hole of a mapped file on a
full disk kills the process.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["MappedFile", "atomic"]

_ZEROS_BYTES: Final = 1 << 20

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
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        files: list[int] = []
        try:
            # One call in C: an interrupt cannot separate the open and its note.
            files.extend(map(os.open, (unborn,), (flags,), (0o666,)))
            [file] = files
            _allocate(file, size)
            os.pwrite(file, head, 0)
            unborn.rename(path)
            self._map = mmap.mmap(file, size)
        except BaseException:
            unborn.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise
        finally:
            if files:
                os.close(files[0])
        self._view = memoryview(self._map)

    def discard(self) -> None:
        """Remove a file in which nothing was written."""
        self._view.release()
        self._map.close()
        self._path.unlink(missing_ok=True)


def _allocate(file: int, size: int) -> None:
    """Allocate real blocks, by a call if the file system has it."""
    try:
        os.posix_fallocate(file, 0, size)
    except AttributeError:
        pass
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
    else:
        return
    for start in range(0, size, _ZEROS_BYTES):
        zeros = bytes(min(_ZEROS_BYTES, size - start))
        if os.pwrite(file, zeros, start) != len(zeros):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
