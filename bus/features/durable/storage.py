"""`DiskStorage`: the directory of the horizons of one process, with its system calls.

A directory holds the file ``horizons`` and, while that is replaced, its successor
``horizons.new``. `HorizonLog` decides on the order of the operations. It uses the
interface `Storage`, so that tests can record them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from bus.errors import BusyError
from queuebroker import _files, _platform
from queuebroker._files import Descriptors

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DiskStorage", "Storage"]

_FILE: Final = "horizons"
_NEW: Final = "horizons.new"
_READ_BYTES: Final = 1 << 20


class Storage(Protocol):
    """The file of horizons, and its successor while that is being written.

    All methods but `close` raise `OSError` if the storage fails.
    """

    @property
    def path(self) -> str:
        """The path of the file."""

    def read(self) -> bytes | None:
        """Return the contents of the file; None if it does not exist."""

    def create(self) -> None:
        """Create an empty successor, to which `write` and `sync` apply from now on."""

    def write(self, data: bytes, at: int) -> None:
        """Write bytes at an offset; until `sync`, a crash may lose them."""

    def sync(self) -> None:
        """Return when all bytes written so far are on stable storage."""

    def publish(self) -> None:
        """Rename the successor to the file; `sync_directory` makes that stable."""

    def sync_directory(self) -> None:
        """Return when the names of the files are on stable storage."""

    def close(self) -> None:
        """Release the directory; does nothing the second time."""


class DiskStorage:
    """A directory of the file system, held by one process at a time.

    Raises:
        BusyError: another process, or another bus of this one, holds the directory.
        OSError: the directory cannot be created or opened.
    """

    __slots__ = ("__weakref__", "_directory", "_locks", "_opened", "path")

    def __init__(self, directory: Path) -> None:
        self.path: Final = str(directory / _FILE)
        self._directory: Final = directory
        # The descriptors of the lock and of the file in use, if they are open.
        self._locks: Final = Descriptors()
        self._opened: Final = Descriptors()
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        # At each start: an earlier process may have been killed before this sync.
        _files.sync_folder(directory.parent)
        _open_storages.add(self)
        try:
            self._locks.open(os.open, *_files.to_lock(directory))
            _files.lock(self._locks[0])
        except BlockingIOError:
            self.close()
            raise BusyError(
                f"the directory {directory}, by a process that keeps its horizons "
                "there; give each process on each bus a directory of its own"
            ) from None
        except BaseException:
            self.close()
            raise

    def read(self) -> bytes | None:
        """Return the contents of the file; None if it does not exist."""
        opened = Descriptors()
        try:
            opened.open(os.open, self._directory / _FILE, os.O_RDONLY | _files.BINARY)
            return _read_all(opened[0])
        except FileNotFoundError:
            return None
        finally:
            opened.close()

    def create(self) -> None:
        """Close the file in use, and create an empty successor."""
        self._opened.close()
        self._open(_NEW, os.O_CREAT | os.O_TRUNC)

    def _open(self, name: str, flags: int = 0) -> None:
        flags |= os.O_RDWR | _files.BINARY
        self._opened.open(os.open, self._directory / name, flags, 0o600)

    def write(self, data: bytes, at: int) -> None:
        """Write all bytes at an offset."""
        while data:
            written = _files.pwrite(self._file, data, at)
            data, at = data[written:], at + written

    def sync(self) -> None:
        """Sync the bytes of the file, and its length, which readers need."""
        _files.sync(self._file)

    def publish(self) -> None:
        """Rename the successor to the file."""
        if _platform.SYSTEM == "windows":  # it renames no file that is open
            self._opened.close()
        os.replace(self._directory / _NEW, self._directory / _FILE)
        if not self._opened:
            self._open(_FILE)

    def sync_directory(self) -> None:
        """Sync the entries of the directory."""
        _files.sync_folder(self._directory)

    def close(self) -> None:
        """Close the descriptors, and so release the lock."""
        self._opened.close()
        self._locks.close()

    @property
    def _file(self) -> int:
        return self._opened[0] if self._opened else -1


_open_storages: Final[WeakSet[DiskStorage]] = WeakSet()


def _close_in_child() -> None:
    """Close the descriptors that a forked child has inherited.

    They share the lock of the parent: a child that outlives the parent would keep the
    directory locked for the next process. Closing a copy does not release the lock.
    """
    for each in list(_open_storages):
        each.close()


_platform.after_fork_in_child(_close_in_child)


def _read_all(file: int) -> bytes:
    # Apart from the handler that closes the file: see `queuebroker._sync.Lock`.
    data = bytearray()
    while part := os.read(file, _READ_BYTES):
        data += part
    return bytes(data)
