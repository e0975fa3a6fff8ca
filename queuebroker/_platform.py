"""`SYSTEM`: the system of this process, and a stand-in for other systems on Linux.

The only module that reads ``sys.platform``. Other modules look for the call that they
need: ``hasattr(os, "eventfd")``. Where no call distinguishes the systems, they compare
`SYSTEM`.

If the environment variable ``QUEUEBROKER_PORTABLE`` is ``posix`` or ``windows``, Linux
stands in for macOS or for Windows: this module removes the calls that such a system
lacks from the standard library. So code that uses such a call without a check fails as
on that system. It is for tests, and affects the whole process.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

__all__ = ["SYSTEM", "after_fork_in_child", "msvcrt", "open_pair", "poll_of"]

_VARIABLE: Final = "QUEUEBROKER_PORTABLE"
# By module: the names that only Linux has, as far as the two packages could use them.
_LINUX_ONLY: Final = {
    "os": (
        *("eventfd", "eventfd_read", "eventfd_write", "EFD_CLOEXEC", "EFD_NONBLOCK"),
        *("memfd_create", "pidfd_open", "pipe2", "posix_fallocate", "fdatasync"),
        *("sched_getaffinity", "sched_setaffinity"),
    ),
    # Not its constants, which `forkserver` of `multiprocessing` uses as it loads this.
    "select": ("epoll",),
    "selectors": ("EpollSelector",),
    "socket": ("MSG_CMSG_CLOEXEC", "SOCK_CLOEXEC", "SOCK_NONBLOCK"),
    "fcntl": ("F_ADD_SEALS", "F_GET_SEALS", "F_SEAL_GROW", "F_SEAL_SHRINK"),
}
# By module: further names, which Windows lacks.
_NOT_ON_WINDOWS: Final = {
    "os": (
        *("fork", "forkpty", "register_at_fork", "sched_yield"),
        *("pread", "preadv", "pwrite", "pwritev", "fchmod", "fchown", "chown"),
        *("O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "mkfifo"),
        # Not `getuid` and `uname`, which pytest and NumPy call.
        *("geteuid", "getgid", "getegid", "getloadavg", "killpg", "setsid"),
    ),
    "select": ("poll",),
    "selectors": ("PollSelector",),
    "socket": ("AF_UNIX", "MSG_DONTWAIT", "SO_PEERCRED", "SO_REUSEPORT"),
    "time": ("clock_gettime",),
    "signal": ("pthread_kill", "pthread_sigmask", "setitimer"),
}
_NO_MODULES_ON_WINDOWS: Final = ("fcntl", "grp", "pwd", "resource", "termios", "tty")


def _system() -> Literal["linux", "posix", "windows"]:
    chosen = os.environ.get(_VARIABLE, "")
    if sys.platform == "win32":
        globals()["msvcrt"] = import_module("msvcrt")
        return "windows"
    if sys.platform != "linux":
        return "posix"
    if not chosen:
        return "linux"
    if chosen == "posix":
        _remove(_LINUX_ONLY)
        return "posix"
    if chosen == "windows":
        _stand_in_for_locks()
        _remove(_LINUX_ONLY)
        _remove(_NOT_ON_WINDOWS)
        _pair_over_tcp()
        _select_sockets_alone()
        _bind_as_on_windows()
        sys.modules.update(dict.fromkeys(_NO_MODULES_ON_WINDOWS))  # type: ignore[arg-type]
        return "windows"
    msg = f"cannot import queuebroker: {_VARIABLE} is {chosen!r}; use posix or windows"
    raise ImportError(msg)


def _remove(names: dict[str, tuple[str, ...]]) -> None:
    for module_name, removed in names.items():
        module = import_module(module_name)
        for name in removed:
            if hasattr(module, name):
                delattr(module, name)
    import selectors  # noqa: PLC0415 # only where Linux stands in for another system

    poll: Any = getattr(selectors, "PollSelector", selectors.SelectSelector)
    selectors.DefaultSelector = poll  # type: ignore[misc]


def after_fork_in_child(function: Callable[[], object]) -> None:
    """Call a function in the child of each later fork, if the system has forks."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=function)


def open_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, non-blocking and close-on-exec."""
    import socket  # noqa: PLC0415 # only on Windows

    pair = socket.socketpair()
    for each in pair:
        each.setblocking(False)
    return pair


def _pair_over_tcp() -> None:
    """Replace `socket.socketpair`, as on Windows, which has no pair of its own."""
    import socket  # noqa: PLC0415 # only where it is replaced

    def socketpair(*kind: int) -> tuple[socket.socket, socket.socket]:
        with socket.socket(*kind) as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(1)
            one = socket.create_connection(listening.getsockname())
            other, _ = listening.accept()
        return one, other

    socket.socketpair = socketpair  # type: ignore[assignment]


def _select_sockets_alone() -> None:
    """Let `select.select` refuse all but sockets, and none at all, as on Windows.

    `selectors`, by which `subprocess` reads pipes, has its own reference.
    """
    import select  # noqa: PLC0415 # only where it is replaced
    import stat  # noqa: PLC0415 # likewise

    of_any = select.select

    def of_sockets(*arguments: Any) -> Any:
        awaited = [*arguments[0], *arguments[1], *arguments[2]]
        if not awaited:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        for each in awaited:
            file = each if isinstance(each, int) else each.fileno()
            if not stat.S_ISSOCK(os.fstat(file).st_mode):
                raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        return of_any(*arguments)

    select.select = of_sockets


def _bind_as_on_windows() -> None:
    """Let a TCP socket take the port of a listener that was just closed.

    And let no UDP socket be bound to the address of a group.
    """
    import ipaddress  # noqa: PLC0415 # only where it is needed
    import socket  # noqa: PLC0415 # only where it is changed

    real_bind = socket.socket.bind

    def bind(made: Any, address: Any) -> None:
        if made.type == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        elif (host := address[0]) and (
            host.endswith(".255") or ipaddress.ip_address(host).is_multicast
        ):
            code = errno.EADDRNOTAVAIL
            raise OSError(code, os.strerror(code))
        real_bind(made, address)

    socket.socket.bind = bind  # type: ignore[method-assign]


# The module of Windows, for its locks of files; None on other systems. The stand-in is
# not in `sys.modules`: other packages would conclude that they run on Windows.
msvcrt: Any = None


def _stand_in_for_locks() -> None:
    fcntl = import_module("fcntl")  # it is about to be removed

    def locking(file: int, _mode: int, _size: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None

    globals()["msvcrt"] = SimpleNamespace(LK_NBLCK=2, locking=locking)


SYSTEM: Final = _system()


def poll_of(descriptor: int) -> Callable[[float | None], object]:
    """Return a call that waits, in ms, until a descriptor is readable; true if it is.

    For `_sync`, which stands below `_net`.
    """
    import select  # noqa: PLC0415 # few interpreters need it

    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return poller.poll
