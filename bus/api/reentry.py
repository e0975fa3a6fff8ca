"""`guarded`: refuse a signal handler's call in the middle of another call of a bus.

A signal handler runs in the main thread, between two instructions of any function. If
that function is one of the bus, it may hold a lock that the handler's call would wait
for, for ever, or be halfway through a change. So a public call notes that the main
thread is inside of it; where that is noted already, the stack says whether the bus has
called the caller, or was interrupted (BUS-ENT-18).

The bus calls the user's code, too: callbacks, encoders, handlers of its log. It does so
where it holds no lock and all is whole. Nor is anything half done while it sleeps.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from bus.threads.thread_manager import ThreadManager
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["MAIN", "calls_user", "enter", "guarded"]

P = ParamSpec("P")
R = TypeVar("R")

# The packages that hold locks of the bus, or work with what these guard.
_AT_WORK: Final = (
    "bus.api.",
    "bus.core.",
    "bus.journal.",
    "bus.links.",
    "bus.threads.",
)
_LIBRARY: Final = (
    *_AT_WORK,
    "bus.inspector",
    "bus.message",
    "bus.payload",
    "queuebroker.",
)

# The functions that call the user's code, and are halfway through nothing, by the id of
# their code: that lives as long as this does.
_CALLERS: Final[set[int]] = set()
# So is this one as long as it says that a callback runs.
_READS: Final = ThreadManager._read.__code__

# By the name of a module: whether it is one of `_LIBRARY`.
_known: Final[dict[str, bool]] = {}


class _Main:
    """The main thread of this process: its ident, and whether it is inside of a call.

    Only that thread writes this. An interrupt may leave ``inside`` true: then the next
    call finds nobody inside on the stack, and resets it.
    """

    __slots__ = ("ident", "inside")

    def __init__(self) -> None:
        self.inside = False
        self.learn()

    def learn(self) -> None:
        """Learn which thread it is; after a fork it is the one that has forked."""
        self.ident = _sync.main_ident()


MAIN: Final = _Main()
os.register_at_fork(after_in_child=MAIN.learn)


def calls_user(function: Callable[P, R]) -> Callable[P, R]:
    """Let the code that this function of the bus calls use the bus; a decorator."""
    _CALLERS.add(id(function.__code__))
    return function


def guarded(act: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse a call of a function in the middle of another one; a decorator.

    act: what the function does, for the error.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            outer = enter(act)
            try:
                return function(*args, **kwargs)
            finally:
                if outer is False:
                    MAIN.inside = False

        return call

    return decorate


def enter(act: str) -> bool | None:
    """Begin a call; if this returns False, its end sets ``MAIN.inside`` to that.

    Raises:
        RuntimeError: a signal handler made it that interrupted its own thread in
          another call of a bus.
    """
    if _sync.get_ident() != MAIN.ident:
        return None  # no signal handler runs in this thread
    if not MAIN.inside:
        MAIN.inside = True
        return False
    return _is_inside(act)


def _is_inside(act: str) -> bool:
    """Whether the caller's own caller is inside of another call.

    Raises:
        RuntimeError: see `enter`.
    """
    frame: FrameType | None = sys._getframe(3)  # what made the call
    nested = frame is not None and _is_library(frame)
    while frame is not None and _is_library(frame):
        frame = frame.f_back
    called: FrameType | None = None
    while frame is not None:
        if _is_library(frame):
            if _is_whole(frame, called):
                return True
            if frame.f_globals["__name__"].startswith(_AT_WORK):
                raise _refusal(act)
        called, frame = frame, frame.f_back
    return nested


def _is_library(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    known = _known.get(name)
    if known is None:
        known = _known[name] = name.startswith(_LIBRARY)
    return known


def _is_whole(frame: FrameType, called: FrameType | None) -> bool:
    """Whether the bus may be called from here: it is in the middle of nothing."""
    code, name = frame.f_code, frame.f_globals["__name__"]
    if id(code) in _CALLERS or name == "bus.payload":
        return True
    if name == _sync.__name__:
        return code.co_name == "park"
    if code is _READS:
        return frame.f_locals["self"].running is not None
    if called is not None:
        # Nothing is logged under a lock.
        return called.f_globals.get("__name__") == "logging"
    return False


def _refusal(act: str) -> RuntimeError:
    return RuntimeError(
        f"cannot {act}: this signal handler interrupted a call of a bus in its own"
        " thread, which cannot go on until the handler returns; put the event into a"
        " queue.SimpleQueue, and call the bus in a thread that reads that"
    )
