"""UNIX sockets at a path or an abstract name: to listen, and files left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
from typing import TYPE_CHECKING, Final

from queuebroker import _files
from queuebroker._net.polling import INT_MAX
from queuebroker._net.sockets import ipc_socket
from queuebroker._platform import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queuebroker._net.sockets import Socket

__all__ = [
    "PATH_BYTES_MAX",
    "has_listener",
    "identity_of",
    "listen_abstract",
    "listen_ipc",
    "lock_folder",
    "remove_stale",
    "unlink_if",
]

# Maximum length of a socket path in the kernel, without the terminating zero byte.
PATH_BYTES_MAX: Final = 107 if SYSTEM == "linux" else 103
# Number of tries to lock a folder, and the pause between two tries. Other processes
# hold the lock for less than a millisecond.
_LOCK_TRIES: Final = 400
_LOCK_PAUSE_MS: Final = 5


def listen_ipc(path: Path, *, mode: int, backlog: int) -> Socket:
    """Listen at a path to which only users admitted by ``mode`` can connect.

    Replaces a socket file left behind by a dead process.

    Raises:
        OSError: EADDRINUSE if a process listens there, or if the file is no socket.
        TimeoutError: see `lock_folder`.
    """
    made = ipc_socket()  # first: the system may have none
    try:
        # One process at a time in a folder: between bind and listen a socket looks like
        # one that was left behind.
        with lock_folder(path.parent):
            remove_stale(path)
            made.bind(os.fspath(path))
            # Before the first connection: until `listen` returns, no process can
            # connect.
            path.chmod(mode)
            made.listen(min(backlog, INT_MAX))
    except BaseException:
        made.close()
        raise
    return made


@contextlib.contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that no other process listens or sweeps there.

    Raises:
        TimeoutError: another process holds the lock for too long, for example because
            it was stopped meanwhile.
    """
    folder = os.open(*_files.to_lock(path))
    try:
        _lock_soon(folder, path)
        yield
    finally:
        os.close(folder)


def _lock_soon(folder: int, path: Path) -> None:
    pause = select.poll()
    for _ in range(_LOCK_TRIES):
        try:
            _files.lock(folder)
        except BlockingIOError:
            pause.poll(_LOCK_PAUSE_MS)
        else:
            return
    raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked", str(path))


def remove_stale(path: Path) -> None:
    """Remove a socket at which no process listens; call under `lock_folder`."""
    if _is_left_behind(path):
        path.unlink()


def _is_left_behind(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode) and not has_listener(path)
    except FileNotFoundError:
        return False


def has_listener(path: Path) -> bool:
    """Return True if a process listens at a path."""
    # EAGAIN: the backlog of a listener is full.
    with ipc_socket() as probe:
        return probe.connect_ex(os.fspath(path)) in (0, errno.EAGAIN)


def listen_abstract(name: str, *, backlog: int) -> Socket:
    """Listen at an abstract name, which is no file and ends with its socket.

    Raises:
        OSError: EADDRINUSE if another socket has the name.
    """
    if SYSTEM != "linux":
        text = "only Linux has UNIX sockets with an abstract name; use a path, or TCP"
        raise OSError(errno.EAFNOSUPPORT, text)
    made = ipc_socket()
    try:
        made.bind(b"\0" + os.fsencode(name))
        made.listen(min(backlog, INT_MAX))
    except BaseException:
        made.close()
        raise
    return made


def identity_of(path: Path) -> tuple[int, int]:
    """Return a key that distinguishes a file from any later file of the same name."""
    status = path.lstat()
    return status.st_dev, status.st_ino


def unlink_if(path: Path, identity: tuple[int, int]) -> None:
    """Remove a file if it still has the given identity."""
    try:
        if identity_of(path) == identity:
            path.unlink()
    except OSError:
        return  # another process removed it first
