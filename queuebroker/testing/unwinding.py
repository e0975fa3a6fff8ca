"""The unwinding of a task when its run is over: at first once, then at every line.

`Unwind` is raised where the task waits. Code that catches everything, such as the loop
of many a worker, catches it too. After a while `insist` makes every line of that code
raise, also those of the handler: an exception raised there leaves the loop.
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
    """The exception that ends a task whose run is over. No user sees it."""


def insist() -> None:
    """Raise `Unwind` at the next line of a user's code in the calling thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if not is_own(frame.f_code.co_filename):
            frame.f_trace = _raise
        frame = frame.f_back
    # Without a global trace function the frames' functions are not called.
    sys.settrace(_ignore)


def _raise(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
    # Not at an exception event, which is still inside the block that catches it. And a
    # trace function that has raised is not called again.
    if event == "line":
        raise Unwind
    return _raise


def _ignore(_frame: FrameType, _event: str, _arg: object) -> None:
    """Trace no new frame."""
