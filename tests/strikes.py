"""Interrupts at every point at which the interpreter can deliver one.

A signal's handler runs, and a Ctrl-C is raised, between two instructions, but not
between any two: where a Python function begins, where a loop goes round, and where a
call into C has returned. `everywhere` goes through all of these in one call::

    def case(struck: Blow) -> None:
        ...  # a fresh object each time
        struck(lambda: left.send(b"x"))
        ...  # the object must be sound

    everywhere(case)

Only the code of the library is struck, not that of the test or the interpreter; which
packages are the library, a test may say.
"""

from __future__ import annotations

import dis
import functools
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import queuebroker

if TYPE_CHECKING:
    from types import CodeType, FrameType, ModuleType

__all__ = ["Blow", "everywhere", "strike"]

# Makes the call it is given, and interrupts it.
Blow = Callable[[Callable[[], object]], None]

_LIBRARY: Final = (queuebroker,)

# After these the interpreter looks for what is to be done; a call counts if what was
# called is written in C, since a Python function has looked when it began.
_LOOKS = frozenset({"RESUME", "JUMP_BACKWARD"})
_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})


def everywhere(
    case: Callable[[Blow], None],
    points: Iterable[int] | None = None,
    *,
    packages: Sequence[ModuleType] = _LIBRARY,
) -> None:
    """Run a case again and again, each time with the interrupt one point later.

    The last time the call ends without one; there must be several points before.
    points: only these.
    packages: whose code is struck.
    """
    for point in itertools.count() if points is None else points:
        blows: list[bool] = []

        def blow(
            act: Callable[[], object], point: int = point, blows: list[bool] = blows
        ) -> None:
            blows.append(strike(act, point, packages=packages))

        case(blow)
        if not any(blows):
            break
    assert point > 1


def strike(
    act: Callable[[], object],
    point: int,
    *,
    packages: Sequence[ModuleType] = _LIBRARY,
) -> bool:
    """Make a call and raise `KeyboardInterrupt` at the point of that number, from 0.

    False if the call ended before there were so many points; it was not struck then.

    Raises:
        AssertionError: the interrupt did not come out of the call.
    """
    tracer = _Tracer(point, packages)
    before = sys.gettrace()
    gc.disable()  # a finalizer's interrupt goes nowhere, and would not repeat itself
    sys.settrace(tracer.enter)
    try:
        act()
    except KeyboardInterrupt:
        if not tracer.struck:
            raise
        return True
    finally:
        sys.settrace(before)
        gc.enable()
        tracer.forget()
    assert not tracer.struck, f"the interrupt at point {point} was swallowed"
    return False


class _Tracer:
    """Counts the points of one thread and strikes once."""

    def __init__(self, point: int, packages: Sequence[ModuleType]) -> None:
        self.struck = False
        self._folders = tuple(
            f"{folder}{os.sep}" for each in packages for folder in each.__path__
        )
        self._left = point
        self._last: dict[FrameType, str | None] = {}

    def enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """Trace a Python function that begins, if it is the library's."""
        caller = frame.f_back
        # A class is called in C, which then calls its __init__.
        if caller in self._last and frame.f_code.co_name != "__init__":
            self._last[caller] = None
        if not frame.f_code.co_filename.startswith(self._folders):
            return None
        if self.struck or _finalizes(frame):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        # What traces a beginning does not trace the instruction that is the beginning.
        self._last[frame] = "RESUME"
        return self._step

    def forget(self) -> None:
        """Let go of all frames: what was theirs alone must be collected."""
        self._last.clear()

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        elif event == "opcode":
            before = self._last.get(frame)
            self._last[frame] = _names(frame.f_code).get(frame.f_lasti)
            if (before in _LOOKS or before in _CALLS) and not self.struck:
                if not self._left:
                    self.struck = True
                    raise KeyboardInterrupt
                self._left -= 1
        return self._step


def _finalizes(frame: FrameType | None) -> bool:
    """Whether this is within a finalizer: what is raised there goes nowhere."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@functools.cache
def _names(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}
