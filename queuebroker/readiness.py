"""A file descriptor that is readable while a receive would not have to wait.

Made on first use (QB-BOOK-5): only an event loop wants one. Level-triggered, as
`selectors` expects of a socket. The caller holds the connection's lock.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

__all__ = ["Readiness"]


class Readiness:
    """An eventfd kept in step with one flow; closed when it is collected."""

    __slots__ = ("_opened", "_readable")

    def __init__(self) -> None:
        self._readable = False
        # One call in C: an interrupt cannot fall between opening the descriptor and
        # keeping it, and leave it open for ever.
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
        """Set it without trusting what it was: an interrupt may have come between."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)
        self._readable = False
        self.set_locked(readable=readable)

    def __del__(self) -> None:
        # None if there was none to be had; not even a list if an interrupt struck.
        for fd in getattr(self, "_opened", ()):
            os.close(fd)
