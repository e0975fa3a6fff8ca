"""`RunDirectory`: where the processes of one bus find one another on their machine.

It holds the sockets ``Master`` and ``Slave<random number>`` (BUS-ENT-16), and the file
``lock``. The process that holds that lock is master, and no other process touches
``Master``. The kernel releases the lock when the process ends, however it ends (OPEN-1,
OPEN-10).

If groups are on the access list, processes of other users have their sockets in
``guests``. There each process may make its own sockets, and cannot touch those of
another user. A process that cannot write to the run directory never becomes master.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from bus.errors import AccessDeniedError
from bus.model.address import fresh_name
from queuebroker import _files, _net, _platform

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.model.rights import AccessList

__all__ = ["ELSEWHERE", "MASTER", "RunDirectory", "run_base"]

_ENVIRONMENT: Final = "BUS_RUN_DIR"
# The folders for the files of one user, on Linux and on Windows.
_PLACES: Final = ("XDG_RUNTIME_DIR", "LOCALAPPDATA")
# The start of the remedy if the run directory cannot be used.
ELSEWHERE: Final = f"set {_ENVIRONMENT}, or BusConfig(run_directory=...), to "
MASTER: Final = "Master"  # the socket of the process that is master
_GUESTS: Final = "guests"
# The longest name of a socket in the run directory.
_NAME_MAX: Final = f"{_GUESTS}/{fresh_name('Slave')}"
# Mode bits that no directory may have: any for the group or for others. If the group is
# on the access list: write for the group, and any for others.
_FORBIDDEN: Final = 0o077
_FORBIDDEN_WITH_GROUP: Final = 0o027


def run_base(given: str | None = None) -> Path:
    """Return the parent directory of the run directories of all buses.

    given: the configured path; else BUS_RUN_DIR of the environment; else the user's
      runtime directory, that of a user of Windows, or one in /tmp.
    """
    text = given or os.environ.get(_ENVIRONMENT)
    if text:
        return Path(text).absolute()
    for variable in _PLACES:
        place = os.environ.get(variable)
        if place and Path(place).is_dir():
            return Path(place).absolute() / "queuebroker"
    return Path(f"/tmp/queuebroker-{_files.user_id()}")  # noqa: S108 # checked below


class RunDirectory:
    """The directory of one bus, checked (BUS-SEC-3), and the lock in it.

    Raises:
        AccessDeniedError: it belongs to an untrusted user, it is open to more than its
            owner and a listed group, or this process may not enter.
        ValueError: its path is too long for sockets, or not in UTF-8, as addresses sent
            to other processes must be.
        OSError: it cannot be made; the text names it, the reason and the remedy.
    """

    __slots__ = ("__weakref__", "_access", "_bus", "_locks", "path")

    def __init__(self, bus: str, access: AccessList, base: str | None = None) -> None:
        self._bus: Final = bus
        self._access: Final = access
        self._locks = _files.Descriptors()  # the descriptor, while the lock is held
        root = run_base(base)
        self.path: Final = root / bus
        try:
            str(self.path).encode()
        except UnicodeEncodeError:
            msg = f"run directory must have a path in UTF-8, got {str(self.path)!r}"
            raise ValueError(msg) from None
        longest = len(os.fsencode(self.path / _NAME_MAX))
        if _net.HAS_UNIX and longest > _net.PATH_BYTES_MAX:
            raise ValueError(
                f"run directory must leave room for sockets: {self.path} gives paths "
                f"of {longest} bytes, the system takes {_net.PATH_BYTES_MAX}"
            )
        for directory in (root, self.path):
            self._check(directory)
        _directories.add(self)

    def _check(self, directory: Path) -> None:
        try:
            # Set-group-ID: sockets made in it belong to its group, too. Not readable: a
            # reader could lock it, and so keep all others out.
            self._make(directory, 0o2710)
            about = directory.lstat()
            entered = _files.may_access(directory, os.X_OK)
        except PermissionError as error:
            raise self._denied(f"{directory}: {error.strerror}") from None
        except (FileExistsError, NotADirectoryError):
            raise self._denied(f"{directory} is not a directory") from None
        except OSError as error:
            # The number selects the same type of error. No file name is given: Python
            # would append the name after the remedy.
            raise OSError(
                error.errno,
                f"cannot make the run directory {directory} of bus {self._bus!r}: "
                f"{error.strerror}; {ELSEWHERE}a writable folder",
            ) from None
        if not stat.S_ISDIR(about.st_mode):
            raise self._denied(f"{directory} is not a directory")
        if not self._access.trusts(owner := _files.owner_of(about)):
            raise self._denied(f"{directory} belongs to uid {owner}")
        mode = _files.mode_of(about)
        listed = about.st_gid in self._access.groups
        if not listed and mode & _FORBIDDEN and not mode & _FORBIDDEN_WITH_GROUP:
            group = f"group {about.st_gid}, which is not on the access list"
            raise self._denied(f"{directory} is open to {group}: mode {mode:04o}")
        if mode & (_FORBIDDEN_WITH_GROUP if listed else _FORBIDDEN):
            raise self._denied(f"{directory} is open to others: mode {mode:04o}")
        if not entered:
            raise self._denied(f"{directory}: Permission denied")

    def _make(self, directory: Path, mode: int) -> None:
        """Make a directory; if groups may join, give it to one, with ``mode``.

        An existing directory stays as it is.
        """
        try:
            directory.mkdir(0o700)
        except FileExistsError:
            return
        groups = self._access.groups
        if not groups:
            return
        if directory.stat().st_gid not in groups and not _give(directory, groups):
            directory.rmdir()
            words = ", ".join(map(str, sorted(groups)))
            fact = f"cannot be given to group {words}"
            raise PermissionError(errno.EPERM, fact, str(directory))
        directory.chmod(mode)  # after the change of group, and regardless of the umask

    def _denied(self, fact: str) -> AccessDeniedError:
        return AccessDeniedError(f"join bus {self._bus!r}", fact)

    @property
    def is_guest(self) -> bool:
        """True if this process may not write here, and so never becomes master."""
        return not _files.may_access(self.path, os.W_OK)

    @property
    def own(self) -> Path:
        """The directory in which this process can make sockets."""
        return self.path / _GUESTS if self.is_guest else self.path

    # Addresses.

    @property
    def master(self) -> str:
        """The address at which the master listens."""
        return f"ipc://{self.path / 'Master'}"

    def slave(self) -> str:
        """Return an address for one comm thread of a slave; another on each call."""
        return f"ipc://{self.own / fresh_name('Slave')}"

    def slaves(self) -> list[str]:
        """Return the addresses of the comm threads of slaves that were not swept."""
        folders = (self.path, self.path / _GUESTS)
        return [f"ipc://{each}" for one in folders for each in one.glob("Slave*")]

    def sweep(self) -> None:
        """Remove the sockets of processes that were killed; for the master alone."""
        if not _net.HAS_UNIX:
            return
        self._sweep(self.path)
        guests = self.path / _GUESTS
        if self._access.groups:
            # Set-group-ID and sticky: only the owner of a file there may remove it.
            self._make(guests, 0o3770)
            with suppress(TimeoutError):  # locked by a guest: swept the next time
                self._sweep(guests)

    @staticmethod
    def _sweep(folder: Path) -> None:
        with _net.lock_folder(folder):
            for each in folder.glob("Slave*"):
                with suppress(OSError):  # it was removed meanwhile, or is out of reach
                    _net.remove_stale(each)

    # The lock of the master.

    def claim(self) -> bool:
        """Become master, if no other process is; return False for a guest, too."""
        if self.is_guest:
            return False
        # One descriptor: locking it again is harmless, but a second one would find the
        # file locked by the first. It is noted before it is locked, so that `release`
        # closes it after any interrupt.
        if not self._locks:
            lock = self.path / "lock"
            self._locks.open(os.open, lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _files.lock(self._locks[-1])
        except BaseException as error:
            self.release()
            if isinstance(error, BlockingIOError):
                return False
            raise
        return True

    def is_served(self) -> bool:
        """Return True if a master accepts links; OSError without UNIX sockets."""
        if not _net.HAS_UNIX:
            raise OSError(
                errno.EAFNOSUPPORT,
                f"cannot join bus {self._bus!r}: a command joins it by UNIX sockets, "
                "which this system lacks; call Bus.inspect in its program, or run the "
                "command with --network on a machine with Linux or macOS",
            )
        return _net.has_listener(self.path / MASTER)

    def release(self) -> None:
        """Release the lock, so that another process can become master."""
        self._locks.close()

    def abandon_after_fork(self) -> None:
        """Close the descriptor inherited by a fork: it would keep the lock held."""
        self.release()


def _give(directory: Path, groups: Iterable[int]) -> bool:
    """Give a directory to the first permitted group; return False if none is."""
    # Windows has no groups of this kind.
    for each in sorted(groups) if _files.HAS_USERS else ():
        with suppress(PermissionError):
            os.chown(directory, -1, each)
            return True
    return False


_directories: Final[WeakSet[RunDirectory]] = WeakSet()


def _forked() -> None:
    for directory in list(_directories):
        directory.abandon_after_fork()


_platform.after_fork_in_child(_forked)
