"""A file descriptor that is readable while a receive would not have to wait.

Created on first use (QB-BOOK-5), because only an event loop needs one. Level-triggered,
as `selectors` expects of a socket. The caller holds the connection's lock.
"""

from __future__ import annotations

import contextlib
from typing import Final

from queuebroker.waiting.event import Event

__all__ = ["Readiness"]


class Readiness:
    """An event that matches the state of one flow.

    fd: the descriptor.
    """

    __slots__ = ("_event", "_readable", "fd")

    def __init__(self) -> None:
        self._readable = False
        self._event: Final = Event()
        self.fd: Final = self._event.fd

    def set_locked(self, *, readable: bool) -> None:
        """Make the descriptor readable or not."""
        if readable and not self._readable:
            self._event.set()
        elif self._readable and not readable:
            # Empty if a signal handler has read it since.
            with contextlib.suppress(BlockingIOError):
                self._event.clear()
        self._readable = readable

    def restore_locked(self, *, readable: bool) -> None:
        """Set the descriptor and ignore the stored state, after an interrupt."""
        with contextlib.suppress(BlockingIOError):
            self._event.clear()
        self._readable = False
        self.set_locked(readable=readable)
