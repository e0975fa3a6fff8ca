"""`RunDirectory`: where the processes of one bus find one another on their machine.

It holds the sockets ``Master`` and ``Slave<random number>`` (BUS-ENT-16), and
``lock``: whoever has that locked is master, and nobody else touches ``Master``. The
kernel lets go of it when the process ends, however that happens (OPEN-1, OPEN-10).

Where groups are on the access list, processes of other users have their sockets in
``guests``: there each may make its own, and none may touch another's. Where they cannot
write to what is around it they never are master.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from bus.address import fresh_name
from bus.errors import AccessDeniedError
from queuebroker import _net

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.access import AccessList

__all__ = ["ELSEWHERE", "RunDirectory", "run_base"]

_ENVIRONMENT: Final = "BUS_RUN_DIR"
# The start of the remedy if the run directory cannot be used.
ELSEWHERE: Final = f"set {_ENVIRONMENT}, or BusConfig(run_directory=...), to "
_GUESTS: Final = "guests"
# The longest name of a socket there.
_NAME_MAX: Final = f"{_GUESTS}/{fresh_name('Slave')}"
# What no directory may allow: anything to a group or to others; if the group is on the
# access list, that it writes.
_FORBIDDEN: Final = 0o077
_FORBIDDEN_WITH_GROUP: Final = 0o027


def run_base(given: str | None = None) -> Path:
    """Return where the directories of all buses are.

    given: as configured; else as the environment says in BUS_RUN_DIR; else in the
      user's own place for such things, or one beside it.
    """
    text = given or os.environ.get(_ENVIRONMENT)
    if text:
        return Path(text).absolute()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime).absolute() / "queuebroker"
    return Path(f"/tmp/queuebroker-{os.geteuid()}")  # noqa: S108 # checked below


class RunDirectory:
    """The directory of one bus, checked (BUS-SEC-3), and the lock in it.

    Raises:
        AccessDeniedError: it belongs to somebody who is not trusted, others than its
          owner and a listed group reach it, or this process may not enter.
        ValueError: its path is no UTF-8, as addresses are that others are told, or too
          long for sockets.
        OSError: it cannot be made; the text names it, the reason and the remedy.
    """

    __slots__ = ("__weakref__", "_access", "_bus", "_locks", "path")

    def __init__(self, bus: str, access: AccessList, base: str | None = None) -> None:
        self._bus: Final = bus
        self._access: Final = access
        self._locks: list[int] = []  # the descriptor, while the lock is held
        root = run_base(base)
        self.path: Final = root / bus
        try:
            str(self.path).encode()
        except UnicodeEncodeError:
            msg = f"run directory must have a path in UTF-8, got {str(self.path)!r}"
            raise ValueError(msg) from None
        longest = len(os.fsencode(self.path / _NAME_MAX))
        if longest > _net.PATH_BYTES_MAX:
            raise ValueError(
                f"run directory must leave room for sockets: {self.path} gives paths "
                f"of {longest} bytes, the system takes {_net.PATH_BYTES_MAX}"
            )
        for directory in (root, self.path):
            self._check(directory)
        _directories.add(self)

    def _check(self, directory: Path) -> None:
        try:
            # What is made there is to be of that group, too: sockets are.
            # To read it would be enough to lock it, and to keep all others from it.
            self._make(directory, 0o2710)
            about = directory.lstat()
            entered = os.access(directory, os.X_OK, effective_ids=True)
        except PermissionError as error:
            raise self._denied(f"{directory}: {error.strerror}") from None
        except (FileExistsError, NotADirectoryError):
            raise self._denied(f"{directory} is no directory") from None
        except OSError as error:
            # The number gives it the same type. No file name: Python would append it
            # after the remedy.
            raise OSError(
                error.errno,
                f"cannot make the run directory {directory} of bus {self._bus!r}: "
                f"{error.strerror}; {ELSEWHERE}a writable folder",
            ) from None
        if not stat.S_ISDIR(about.st_mode):
            raise self._denied(f"{directory} is no directory")
        if not self._access.trusts(about.st_uid):
            raise self._denied(f"{directory} belongs to uid {about.st_uid}")
        mode = stat.S_IMODE(about.st_mode)
        listed = about.st_gid in self._access.groups
        if not listed and mode & _FORBIDDEN and not mode & _FORBIDDEN_WITH_GROUP:
            group = f"group {about.st_gid}, which is not on the access list"
            raise self._denied(f"{directory} is open to {group}: mode {mode:04o}")
        if mode & (_FORBIDDEN_WITH_GROUP if listed else _FORBIDDEN):
            raise self._denied(f"{directory} is open to others: mode {mode:04o}")
        if not entered:
            raise self._denied(f"{directory}: Permission denied")

    def _make(self, directory: Path, mode: int) -> None:
        """Make a directory, with a mode for a group that may join if any may.

        What is there already stays as it is.
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
        directory.chmod(mode)  # after that, and whatever the umask

    def _denied(self, fact: str) -> AccessDeniedError:
        return AccessDeniedError(f"join bus {self._bus!r}", fact)

    @property
    def is_guest(self) -> bool:
        """Whether this process may only read here, as a member of a group."""
        return not os.access(self.path, os.W_OK, effective_ids=True)

    @property
    def own(self) -> Path:
        """Where this process can have sockets."""
        return self.path / _GUESTS if self.is_guest else self.path

    # Where to listen.

    @property
    def master(self) -> str:
        """The address at which the master listens."""
        return f"ipc://{self.path / 'Master'}"

    def slave(self) -> str:
        """Return an address for one comm thread of a slave; another on each call."""
        return f"ipc://{self.own / fresh_name('Slave')}"

    def sweep(self) -> None:
        """Remove the sockets of processes that were killed; for the master alone."""
        self._sweep(self.path)
        guests = self.path / _GUESTS
        if self._access.groups:
            # Its files are of its group; nobody removes but his own.
            self._make(guests, 0o3770)
            with suppress(TimeoutError):  # a guest keeps it locked: the next time, then
                self._sweep(guests)

    @staticmethod
    def _sweep(folder: Path) -> None:
        with _net.folder_locked(folder):
            for each in folder.glob("Slave*"):
                with suppress(OSError):  # it is gone, or not ours to look at
                    _net.remove_left_behind(each)

    # Who is master.

    def claim(self) -> bool:
        """Be master, if nobody else is; who is a guest here never is."""
        if self.is_guest:
            return False
        # One descriptor: to lock that again is harmless, but a second one would find
        # the file locked by the first. Noted before it is locked: whatever strikes,
        # `release` lets go of it.
        if not self._locks:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._locks.append(os.open(self.path / "lock", flags, 0o600))
        try:
            fcntl.flock(self._locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            self.release()
            if isinstance(error, BlockingIOError):
                return False
            raise
        return True

    def is_served(self) -> bool:
        """Whether a master lets others in."""
        return _net.is_listened_at(self.path / "Master")

    def release(self) -> None:
        """Let somebody else be master."""
        while self._locks:
            os.close(self._locks.pop())

    def forsake(self) -> None:
        """Close what a fork has inherited: a lock is held while anybody has it open."""
        self.release()


def _give(directory: Path, groups: Iterable[int]) -> bool:
    """Give a directory to the first of some groups to which this process may."""
    for each in sorted(groups):
        with suppress(PermissionError):
            os.chown(directory, -1, each)
            return True
    return False


_directories: Final[WeakSet[RunDirectory]] = WeakSet()


def _forked() -> None:
    for directory in list(_directories):
        directory.forsake()


os.register_at_fork(after_in_child=_forked)
