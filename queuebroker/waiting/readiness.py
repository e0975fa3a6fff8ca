"""A file descriptor that is readable while a receive would not have to wait.

Created on first use (QB-BOOK-5), because only an event loop needs one. Level-triggered,
as `selectors` expects of a socket. The caller holds the connection's lock.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

__all__ = ["Readiness"]


class Readiness:
    """An eventfd that matches the state of one flow; closed when it is collected."""

    __slots__ = ("_opened", "_readable")

    def __init__(self) -> None:
        self._readable = False
        # One call in C: no interrupt can come between opening the descriptor and
        # storing it, which would leave it open forever.
        self._opened: Final[list[int]] = []
        self._opened.extend(map(os.eventfd, (0,), (os.EFD_CLOEXEC | os.EFD_NONBLOCK,)))

    @property
    def fd(self) -> int:
        """The descriptor."""
        return self._opened[0]

    def set_locked(self, *, readable: bool) -> None:
        """Make the descriptor readable or not."""
        if readable and not self._readable:
            os.eventfd_write(self.fd, 1)
        elif self._readable and not readable:
            # Empty if a signal handler has read it since.
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self.fd)
        self._readable = readable

    def restore_locked(self, *, readable: bool) -> None:
        """Set the descriptor and ignore the stored state, after an interrupt."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)
        self._readable = False
        self.set_locked(readable=readable)

    def __del__(self) -> None:
        # Empty if no descriptor was available; missing if an interrupt came first.
        for fd in getattr(self, "_opened", ()):
            os.close(fd)
