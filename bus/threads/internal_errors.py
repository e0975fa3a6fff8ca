"""`InternalErrors`: how a thread of the bus continues after an error of its code.

Such an error, most often a lack of memory, ends one step of the thread: the read, the
message or the request that was served. The thread, its tasks and its links outlive it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from queuebroker.waiting.parking import pause, taken_lock

__all__ = ["InternalErrors"]

_log: Final = logging.getLogger("bus")

# The pause after an error, in seconds: doubled for each further one without a success.
_PAUSE_S: Final = 0.001
_PAUSE_S_MAX: Final = 0.5


class InternalErrors:
    """The internal errors of one thread, named ``where``; for that thread alone."""

    __slots__ = ("_count", "_parker", "_pause_s", "_where")

    def __init__(self, where: str) -> None:
        self._where: Final = where
        self._parker: Final = taken_lock()  # made while there is memory
        self._pause_s: float = _PAUSE_S
        self._count: int = 0

    def on_error(self, error: Exception) -> None:
        """Log an error and pause; the caller holds no lock.

        The log gets one line at powers of two: an error may repeat as long as its cause
        lasts. Without the pause it would occupy a whole processor.
        """
        self.note(error)
        seconds = self._pause_s
        self._pause_s = min(2 * seconds, _PAUSE_S_MAX)
        pause(seconds, self._parker)

    def note(self, error: Exception) -> None:
        """Count and log an error that needs no pause."""
        self._count += 1
        if not self._count & (self._count - 1):
            with suppress(Exception):  # the log may need memory, too
                _log.error(
                    "internal error %d in %s, which continues: %s: %s",
                    *(self._count, self._where, type(error).__name__, error),
                    exc_info=error,
                )

    def on_success(self) -> None:
        """Note a step without an error."""
        self._pause_s = _PAUSE_S
