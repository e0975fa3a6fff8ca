"""`StuckCallback`: logs the callback that keeps a thread from ending.

Like the debug mode of asyncio: the log of a program that does not end shows the cause.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from bus.core import constants
from bus.threads import scheduler
from queuebroker import _sync

if TYPE_CHECKING:
    from types import FrameType

    from bus.threads.thread_manager import ThreadManager

__all__ = ["StuckCallback"]

_log: Final = logging.getLogger("bus")

# The modules that call callbacks.
_CALLERS: Final = ("bus.api.receiver", "bus.api.run_callback", scheduler.__name__)


class StuckCallback:
    """A monitor of an ending thread; `check` logs a callback that delays it, once."""

    __slots__ = ("_bus", "_manager", "_warned", "after_s")

    def __init__(self, manager: ThreadManager, bus: str) -> None:
        self._manager: Final = manager
        self._bus: Final = bus
        # The interval between two checks, and the maximum duration of a callback.
        self.after_s: Final = constants.STUCK_CALLBACK_S
        self._warned: float | None = None

    def check(self) -> None:
        """Log the current callback, if it has run for too long."""
        manager = self._manager
        running, since = manager.scheduler.running, manager.scheduler.since
        if running is None or since is None or since == self._warned:
            return
        for_s = _sync.monotonic() - since
        if for_s >= self.after_s:
            self._warned = since
            callback, stands = _place(manager.ident)
            _log.warning(
                "bus %r waits for thread %r to end: %s of task %r has not returned for"
                " %.1f s%s",
                *(self._bus, manager.name, callback, running.name, for_s, stands),
            )


def _place(ident: int | None) -> tuple[str, str]:
    """Return the callback that a thread runs, and the line that it executes."""
    frame: FrameType | None = sys._current_frames().get(ident or 0)
    if frame is None:
        return "a callback", ""
    innermost = frame
    stands = f"; it is at {_line(innermost)}"
    while frame is not None:
        caller = frame.f_back
        if caller is not None and caller.f_globals.get("__name__") in _CALLERS:
            if frame is not innermost:
                stands = f"; it is at {_line(frame)}, in a call to {_line(innermost)}"
            return frame.f_code.co_qualname, stands
        frame = caller
    return "a callback", stands


def _line(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
