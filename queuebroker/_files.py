"""The door to files, users and the host: the calls that some systems lack.

Each of them is chosen once, at import. macOS has no `fdatasync` and no
`posix_fallocate`. Windows has neither users nor permission bits; its locks forbid other
processes to read the locked bytes, and it opens no folder.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVarTuple

from queuebroker._platform import msvcrt  # first: it may remove calls of `os`

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = [
    "BINARY",
    "HAS_SEALED_MEMORY",
    "HAS_USERS",
    "Descriptors",
    "allocate",
    "escape_output",
    "fcntl",
    "host_name",
    "lock",
    "may_access",
    "mode_of",
    "owner_of",
    "pread",
    "pwd",
    "pwrite",
    "resource",
    "set_mode",
    "sync",
    "sync_folder",
    "to_lock",
    "user_id",
]

Ts = TypeVarTuple("Ts")

# For `os.open`: without it, Windows translates line ends.
BINARY: Final[int] = getattr(os, "O_BINARY", 0)
# True if files have owners and permission bits.
HAS_USERS: Final = hasattr(os, "geteuid")

_HAS_FOLDERS: Final = hasattr(os, "O_DIRECTORY")  # that `os.open` opens
# The byte that is locked on Windows, where other processes cannot read a locked byte:
# behind the end of each locked file, and within the 32 bits of the C library.
_LOCK_AT: Final = 2**31 - 2
_LOCK_FILE: Final = ".lock"
_ZEROS_BYTES: Final = 1 << 20


# True if a process can share memory with others that cannot shrink it: on Linux.
HAS_SEALED_MEMORY: Final = hasattr(os, "memfd_create")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


# Modules of the standard library; None where they are missing, as on Windows.
fcntl, pwd, resource = map(_module, ("fcntl", "pwd", "resource"))


class Descriptors(list[int]):
    """Open descriptors, closed when this object is collected at the latest.

    No interrupt can lose one. An interrupt is raised between two calls, never within a
    call into C. So one such call opens a descriptor and stores it, and another one
    removes it and closes it.
    """

    def open(self, opener: Callable[[*Ts], int], *arguments: *Ts) -> None:
        """Append the descriptor that a function written in C opens."""
        self.extend(map(opener, *((each,) for each in arguments)))

    def close(self) -> None:
        """Remove and close each descriptor."""
        while self:
            any(map(os.close, map(self.pop, (-1,))))

    def __del__(self) -> None:
        self.close()  # an interrupt may have hit the thread that was about to do it


# Locks.


def lock(file: int, *, shared: bool = False) -> None:
    """Lock an open file until its descriptor is closed; the system closes it at exit.

    shared: True to admit other shared locks; on Windows the lock is exclusive.

    Raises:
        BlockingIOError: another descriptor has it locked, also one of this process.
        OSError: this file system has no locks.
    """
    if fcntl is not None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(file, kind | fcntl.LOCK_NB)
        return
    at = os.lseek(file, 0, os.SEEK_CUR)
    os.lseek(file, _LOCK_AT, os.SEEK_SET)
    try:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in (errno.EACCES, 0):  # Wine gives no number
            raise
        text = "another descriptor has the file locked"
        raise BlockingIOError(errno.EWOULDBLOCK, text) from None
    finally:
        os.lseek(file, at, os.SEEK_SET)


def to_lock(folder: Path) -> tuple[Path, int, int]:
    """Return the arguments of `os.open` for a descriptor by which a folder is locked.

    Windows opens no folder: there it is the descriptor of a file in the folder.
    """
    if _HAS_FOLDERS:
        return folder, os.O_RDONLY | os.O_DIRECTORY, 0
    return folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | BINARY, 0o600


# Contents.


def _pread(file: int, size: int, at: int) -> bytes:
    os.lseek(file, at, os.SEEK_SET)
    return os.read(file, size)


def _pwrite(file: int, data: bytes, at: int) -> int:
    os.lseek(file, at, os.SEEK_SET)
    return os.write(file, data)


# For a descriptor that one thread at a time uses: the replacements move its position.
pread = getattr(os, "pread", _pread)
pwrite = getattr(os, "pwrite", _pwrite)


def allocate(file: int, size: int) -> None:
    """Allocate real blocks for a new file, so that no later write finds the disk full.

    Raises:
        OSError: there is no room.
    """
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        else:
            return
    for start in range(0, size, _ZEROS_BYTES):
        zeros = bytes(min(_ZEROS_BYTES, size - start))
        if pwrite(file, zeros, start) != len(zeros):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def escape_output() -> None:
    """Make stdout escape the characters that it cannot carry, instead of raising.

    The names of files, and of tasks, may have any. On Windows a pipe has only those of
    the code page.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


# Stable storage.


def _sync_through(file: int) -> None:
    """Sync a file through the cache of its disk, which `fsync` of macOS does not."""
    try:
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    except OSError:  # a file system without it
        os.fsync(file)


# Return when the bytes of a file, and its length, are on stable storage.
sync = getattr(os, "fdatasync", os.fsync)
if hasattr(fcntl, "F_FULLFSYNC"):
    sync = _sync_through


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on stable storage.

    Windows has no such call: its file system keeps a journal of them.
    """
    if not _HAS_FOLDERS:
        return
    opened = Descriptors()
    opened.open(os.open, folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened[0])
    finally:
        opened.close()


# Users.


def user_id() -> int:
    """Return the id of the user of this process; 0 where users have no ids."""
    return os.geteuid() if HAS_USERS else 0


def owner_of(about: os.stat_result) -> int:
    """Return the id of the user who owns a file, comparable to `user_id`."""
    return about.st_uid if HAS_USERS else 0


def mode_of(about: os.stat_result) -> int:
    """Return the permission bits of a file; 0o700 where files have none.

    Windows has access lists instead. By default they admit the user and the
    administrators to the folders of the user's profile.
    """
    return stat.S_IMODE(about.st_mode) if HAS_USERS else 0o700


def set_mode(file: int, mode: int) -> None:
    """Set the permission bits of an open file, if it has any."""
    if HAS_USERS:
        os.fchmod(file, mode)


def may_access(path: Path, mode: int) -> bool:
    """Return True if this process may access a file.

    mode: as of `os.access`.
    """
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


# The host.


def host_name() -> str:
    """Return the name of this host."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    return os.environ.get("COMPUTERNAME", "localhost")
