"""`guarded`: refuse a signal handler's call in the middle of another call of a bus.

A signal handler runs in the main thread, between two instructions of any function. If
that function belongs to the bus, its state may be inconsistent. Or it may hold a lock,
and the handler's call would block on it without end. So each public call records that
the main thread is inside the bus. If a call finds this recorded, it examines the stack:
either the bus called the user's code, or a signal interrupted it (BUS-ENT-18).

The bus calls the user's code, too: callbacks, encoders and log handlers. It does so
only while it holds no lock and its state is consistent. The same holds while it sleeps.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from bus.process.scheduler import Scheduler
from queuebroker import _platform, _sync
from queuebroker._net import Sleeper

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["MAIN", "calls_user", "enter", "guarded"]

P = ParamSpec("P")
R = TypeVar("R")

# The packages that hold locks of the bus, or work with state that these guard.
_AT_WORK: Final = (
    "bus.aio.",
    "bus.api.",
    "bus.features",
    "bus.kernel.",
    "bus.journal.",
    "bus.process.",
)
_LIBRARY: Final = (
    *_AT_WORK,
    "bus.model.message",
    "bus.model.payload",
    "queuebroker.",
)

# The functions that call the user's code in a consistent state, by the id of their code
# object, which lives as long as this module. A thread that waits at a link holds no
# lock while it spins or sleeps there; a message to one of its own tasks wakes it.
_CALLERS: Final[set[int]] = {
    id(each.__code__) for each in (Sleeper.spin, Sleeper.sleep)
}
# This function calls user code only while ``running`` is set.
_READS: Final = Scheduler._read.__code__

# Module name -> True if it belongs to `_LIBRARY`.
_known: Final[dict[str, bool]] = {}


class _Main:
    """The main thread of this process.

    Only that thread writes the attributes.

    ident: the ident of the thread.
    inside: True during a public call. An interrupt may leave it true; then the next
      call finds no call of the bus on the stack, and resets it.
    """

    __slots__ = ("ident", "inside")

    def __init__(self) -> None:
        self.inside = False
        self.learn()

    def learn(self) -> None:
        """Read the ident; after a fork, the thread that forked is the main one."""
        self.ident = _sync.main_ident()


MAIN: Final = _Main()
_platform.after_fork_in_child(MAIN.learn)


def calls_user(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that calls user code, which may use the bus; a decorator."""
    _CALLERS.add(id(function.__code__))
    return function


def guarded(act: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse a call of a function in the middle of another one; a decorator.

    act: the action of the function, as a phrase for the error message.
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
    """Begin a call; if this returns False, its end must set ``MAIN.inside`` to False.

    Raises:
        RuntimeError: the caller is a signal handler that interrupted another call of a
          bus in the same thread.
    """
    if _sync.get_ident() != MAIN.ident:
        return None  # no signal handler runs in this thread
    if not MAIN.inside:
        MAIN.inside = True
        return False
    return _is_inside(act)


def _is_inside(act: str) -> bool:
    """Return True if the public call is nested in another one.

    Raises:
        RuntimeError: see `enter`.
    """
    frame: FrameType | None = sys._getframe(3)  # the caller of the public function
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
        # A verb is a program, although it stands with its feature.
        known = name.startswith(_LIBRARY) and not name.endswith("verb")
        _known[name] = known
    return known


def _is_whole(frame: FrameType, called: FrameType | None) -> bool:
    """Return True if user code may call the bus from this frame of the library."""
    code, name = frame.f_code, frame.f_globals["__name__"]
    if id(code) in _CALLERS or name == "bus.model.payload":
        return True
    if name == _sync.__name__:
        return code.co_name == "park"
    if code is _READS:
        return frame.f_locals["self"].running is not None
    if called is not None:
        # The library never logs under a lock, so a log handler may call the bus.
        return called.f_globals.get("__name__") == "logging"
    return False


def _refusal(act: str) -> RuntimeError:
    return RuntimeError(
        f"cannot {act}: this signal handler interrupted a call of a bus in its own"
        " thread, which cannot go on until the handler returns; put the event into a"
        " queue.SimpleQueue, and call the bus in a thread that reads that"
    )
