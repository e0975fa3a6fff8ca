"""`Tracing`: callbacks before instructions of named code, by a trace function.

For CPython 3.11. A thread has one trace function. Of frames of other code it traces
only the entry.
"""

from __future__ import annotations

import _thread
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from queuebroker.testing.ending import refuse
from queuebroker.testing.places import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from queuebroker.testing.instructions import Instruction, NamedCode
    from queuebroker.testing.scheduling import Scheduling

__all__ = ["Tracing"]

_get_ident = _thread.get_ident


class Tracing:
    """The tracing of the threads of tasks."""

    def __init__(self, named: NamedCode) -> None:
        self._named = named

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Check that no other tool traces threads.

        Raises:
            RuntimeError: another tool does.
        """
        if (trace := threading.gettrace()) is not None:
            raise RuntimeError(_traced_already(trace))
        yield

    def begin(self, scheduler: Scheduling) -> None:
        """Trace the calling thread, which is that of a task."""
        if (trace := sys.gettrace()) is not None:
            refuse(scheduler, _traced_already(trace))
        sys.settrace(_Tracer(scheduler, self._named).enter)


class _Tracer:
    """The tracer of one thread.

    The previous event shows whether the interpreter has just checked for interrupts.
    Either it was an instruction followed by a check, and this frame is at the
    instruction after that; or this frame has just begun.
    """

    __slots__ = ("_ident", "_looks", "_next_at", "_next_in", "_points", "_scheduler")

    def __init__(self, scheduler: Scheduling, named: NamedCode) -> None:
        self._scheduler = scheduler
        self._points = named.points
        self._looks = named.looks
        self._ident = _get_ident()
        # A number: a reference would keep the frame's variables alive.
        self._next_in: int | None = None
        self._next_at: int | None = None  # None for the first instruction

    def enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """Handle the start of a function, or the resumption of a generator."""
        code = frame.f_code
        if id(code) in self._points:
            frame.f_trace_lines = False
            frame.f_trace_opcodes = True
            self._next_in, self._next_at = id(frame), None
            return self.reach
        if not is_own(code.co_filename):  # own functions replace functions in C
            called, self._next_in = self._next_in is not None, None
            if called and self._scheduler.holder == self._ident:
                self._tell(frame, None, looked=True)
        return None

    def reach(self, frame: FrameType, event: str, _arg: object) -> Any:
        """Handle an instruction that is about to be executed."""
        scheduler = self._scheduler
        if event != "opcode" or scheduler.holder != self._ident:
            return self.reach
        at, key = frame.f_lasti, id(frame.f_code)
        looked = self._next_in == id(frame) and self._next_at in {None, at}
        self._next_at = self._looks[key].get(at)
        self._next_in = None if self._next_at is None else id(frame)
        self._tell(frame, self._points[key].get(at), looked=looked)
        return self.reach

    def _tell(
        self, frame: FrameType, instruction: Instruction | None, *, looked: bool
    ) -> None:
        try:
            self._scheduler.reach(instruction, looked=looked)
        except BaseException:
            self._next_in = None
            if not self._scheduler.unwinding:
                # Not in a variable: the traceback would keep it alive.
                frame.f_trace = cast("Any", _Again(frame, self))
            raise


class _Again:
    """A trace function that restarts the tracing of its thread after an exception.

    If a trace function raises, the interpreter stops tracing, and finally drops the
    frame's trace function. That is this object: its finalizer starts the tracing again.
    """

    __slots__ = ("_frame", "_tracer")

    def __init__(self, frame: FrameType, tracer: _Tracer) -> None:
        self._frame = frame
        self._tracer = tracer

    def __del__(self) -> None:
        sys.settrace(self._tracer.enter)
        self._frame.f_trace = self._tracer.reach


def _traced_already(trace: Callable[..., object]) -> str:
    return (
        f"cannot stop at each bytecode: threads are traced already, by {trace!r} (a"
        " debugger, or a tool that measures coverage), and a thread can have one trace"
        " function"
    )
