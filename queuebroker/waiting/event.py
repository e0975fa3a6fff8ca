"""`Event`: a descriptor that is readable while the event is set.

An eventfd on Linux, a pipe on other POSIX systems, and a pair of sockets on Windows,
where `select` accepts sockets only. On each, to set an event twice is no error, and to
clear an event that is not set raises `BlockingIOError`.
"""

from __future__ import annotations

import io
import operator
import os
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

from queuebroker import _platform

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

__all__ = ["Event"]

_HAS_EVENTFD: Final = hasattr(os, "eventfd")
_PIPE_BYTES: Final = 1 << 16  # as many as a pipe holds


class Event:
    """A descriptor that is readable while this is set; closed when it is collected.

    fd: the descriptor to watch.
    reader: its socket on Windows, else None.
    set, clear: each is one call into C. No interrupt can break it off, and a thread
      that makes it holds no lock.

    Raises:
        OSError: no descriptor is left; none stays open.
    """

    __slots__ = ("__weakref__", "_opened", "clear", "fd", "reader", "set")

    def __init__(self) -> None:
        # One call in C opens the descriptors and stores them: an interrupt between two
        # calls would leave one open forever. A socket is closed when it is collected.
        self._opened: Final[list[Any]] = []
        self.fd: int
        self.reader: socket.socket | None = None
        self.set: Callable[[], object]
        self.clear: Callable[[], object]
        if _HAS_EVENTFD:
            flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK
            self._opened.extend(map(os.eventfd, (0,), (flags,)))
            [self.fd] = self._opened
            self.set = partial(os.eventfd_write, self.fd, 1)
            self.clear = partial(os.eventfd_read, self.fd)
            return
        if _platform.SYSTEM == "windows":
            self._use_sockets()
        else:
            self._use_pipe()

    def _use_pipe(self) -> None:
        opener = map(operator.call, (os.pipe,))
        self._opened.extend(chain.from_iterable(opener))
        self.fd, writer = self._opened
        os.set_blocking(self.fd, False)
        os.set_blocking(writer, False)
        # A full pipe is readable. `FileIO.write` to a full pipe raises no error.
        self.set = partial(io.FileIO(writer, "w", closefd=False).write, b"\0")
        self.clear = partial(os.read, self.fd, _PIPE_BYTES)

    def _use_sockets(self) -> None:
        # One byte, either here or on its way to the reader: so a send never blocks.
        # `set` reads the byte and sends it; it sends nothing if none is here. `clear`
        # makes the byte readable again: once it is received, no step needs memory.
        byte = io.BytesIO(b"\0")
        take = map(byte.read, repeat(1))
        self._opened.extend(_platform.open_pair())
        reader, writer = self._opened
        # Wine refuses a send on a non-blocking socket while another thread sends.
        writer.setblocking(True)
        self.fd = reader.fileno()
        self.reader = reader
        self.set = partial(next, map(writer.send, take))
        received = map(reader.recv, repeat(1))
        self.clear = partial(next, map(byte.seek, map(ord, received)))  # to 0

    def close(self) -> None:
        """Close the descriptor; no thread may set or clear the event any more."""
        while self._opened:
            any(map(_close, map(self._opened.pop, (-1,))))

    def __del__(self) -> None:
        # Missing if an interrupt came first.
        if hasattr(self, "_opened"):
            self.close()


_close: Callable[[Any], object] = (
    operator.methodcaller("close") if _platform.SYSTEM == "windows" else os.close
)
