"""How a task is made to end when its run is over: politely, then less so.

`Unwind` is raised where the task waits. Code that catches everything, as the loop of
many a worker does, catches that too; after a while `insist` makes every line of it
raise, also those of the handler, and what is raised there leaves the loop.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from queuebroker.testing.places import is_own

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    TraceFunction = Callable[[FrameType, str, Any], Any]

__all__ = ["Unwind", "insist"]


class Unwind(BaseException):  # nothing is wrong
    """Ends a task whose run is over. No user sees it."""


def insist() -> None:
    """Raise `Unwind` at the next line that the calling thread executes of a user's."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if not is_own(frame.f_code.co_filename):
            frame.f_trace = _raise
        frame = frame.f_back
    # Without a global function those of the frames are not called.
    sys.settrace(_ignore)


def _raise(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
    # Not at the event of an exception, which is still inside what swallows it; and
    # whoever raises here is not called again.
    if event == "line":
        raise Unwind
    return _raise


def _ignore(_frame: FrameType, _event: str, _arg: object) -> None:
    """Trace no frame that is new."""
