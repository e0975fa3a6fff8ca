"""A signal handler at every point at which the interpreter can run one (QB-CONC-10).

As `tests.strikes`, but the handler makes a call, and the interrupted call then
continues::

    def case(struck: Interruption) -> None:
        ...  # a fresh object each time
        struck(lambda: left.send(b"x"), left.disconnect)
        ...  # the object must be sound

    everywhere_handled(case)

Up to Python 3.11 the points are found by tracing, later by `sys.monitoring`.
"""

from __future__ import annotations

import dis
import functools
import gc
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import queuebroker
from queuebroker import _sync
from tests.strikes import CALLS, JUMPS_IF, LOOKS, RAISED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType, ModuleType

__all__ = ["Interruption", "everywhere_handled"]

# Makes the first call, and the second one in the middle of it.
Interruption = Callable[[Callable[[], object], Callable[[], object]], None]

_LIBRARY: Final = (queuebroker,)

# A tool id of `sys.monitoring` that no other tool here uses.
_TOOL: Final = 4


def everywhere_handled(
    case: Callable[[Interruption], None],
    *,
    packages: Sequence[ModuleType] = _LIBRARY,
) -> int:
    """Run a case repeatedly, each time with the handler one point later.

    In the last run the call ends before its handler runs. Return the number of points,
    which must be several.

    packages: the packages whose code is interrupted.
    """
    for point in itertools.count():
        ran: list[bool] = []

        def interrupted(
            act: Callable[[], object],
            handler: Callable[[], object],
            point: int = point,
            ran: list[bool] = ran,
        ) -> None:
            handling = _Handling(point, handler, packages)
            gc.disable()  # a finalizer would not come at the same point again
            try:
                with handling.traced():
                    act()
            finally:
                gc.enable()
                handling.forget()
            ran.append(handling.ran)

        case(interrupted)
        if not any(ran):
            assert point > 1
            return point
    raise AssertionError


class _Handling:
    """Counts the points of one thread and runs the handler once."""

    def __init__(
        self,
        point: int,
        handler: Callable[[], object],
        packages: Sequence[ModuleType],
    ) -> None:
        self.ran = False
        self._folders = tuple(
            f"{folder}{os.sep}" for each in packages for folder in each.__path__
        )
        self._left = point
        self._handler = handler
        # The instruction last executed in each frame, and its offset; None after a call
        # of a Python function.
        self._last: dict[FrameType, tuple[str, int] | None] = {}
        self._ident = _sync.get_ident()

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Watch each instruction of the library within the block."""
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            before = sys.gettrace()
            sys.settrace(self._enter)
            try:
                yield
            finally:
                sys.settrace(before)
            return
        event = monitoring.events.INSTRUCTION
        monitoring.use_tool_id(_TOOL, "handlers")
        monitoring.register_callback(_TOOL, event, self._monitored)
        monitoring.set_events(_TOOL, event)
        try:
            yield
        finally:
            monitoring.set_events(_TOOL, 0)
            monitoring.register_callback(_TOOL, event, None)
            monitoring.free_tool_id(_TOOL)
            monitoring.restart_events()

    def forget(self) -> None:
        """Release all frames, so that their own objects are collected."""
        self._last.clear()

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        self._note_call(frame.f_back, frame)
        if self.ran or not frame.f_code.co_filename.startswith(self._folders):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._last[frame] = "RESUME", 0  # which is not traced
        return self._step

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        elif event == "opcode":
            self._look(frame, frame.f_lasti)
        return self._step

    def _monitored(self, code: CodeType, offset: int) -> Any:
        if not code.co_filename.startswith(self._folders):
            return sys.monitoring.DISABLE  # type: ignore[attr-defined]  # 3.12
        if self._ident != _sync.get_ident():
            return None  # the events are those of all threads
        frame = sys._getframe(1)
        if frame not in self._last:
            self._note_call(frame.f_back, frame)
        self._look(frame, offset)
        return None

    def _note_call(self, caller: FrameType | None, frame: FrameType) -> None:
        # A Python function has already checked for signals at its start. A class is
        # called in C.
        if caller in self._last and frame.f_code.co_name != "__init__":
            self._last[caller] = None

    def _look(self, frame: FrameType, offset: int) -> None:
        before, at = self._last.get(frame) or ("", 0)
        name = _names(frame.f_code).get(offset, "")
        self._last[frame] = name, offset
        looks = name != RAISED and (
            before in LOOKS or before in CALLS or (before in JUMPS_IF and offset < at)
        )
        if looks and not self.ran:
            if not self._left:
                self.ran = True
                self._handler()
            self._left -= 1


@functools.cache
def _names(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}
