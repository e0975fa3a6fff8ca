"""Interrupts at every point at which the interpreter can deliver one.

A signal's handler runs, and a Ctrl-C is raised, between two instructions, but not
between any two: only where a Python function begins, where a loop jumps back, and where
a call into C has returned, unless it has raised. `everywhere` goes through all of these
points in one call::

    def case(struck: Blow) -> None:
        ...  # a fresh object each time
        struck(lambda: left.send(b"x"))
        ...  # the object must be sound

    everywhere(case)

A second argument of ``struck`` is called in place of the Ctrl-C, as a signal handler.

Only the code of the library is interrupted, not that of the test or the interpreter; a
test may name the packages that count as the library.

On CPython 3.11 a trace function counts the points (`_Tracer`), from 3.12 on
`sys.monitoring` does (`_Monitor`): there a trace function that is set while a function
begins is called from the next call of that function on. A trace function raises at the
instruction after a call, `sys.monitoring` at the call itself, as the interpreter does.
That decides whether the exception comes out of a `with` statement or past it.
"""

from __future__ import annotations

import dis
import functools
import gc
import itertools
import os
import sys
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

import queuebroker
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, FrameType, ModuleType

__all__ = ["Blow", "everywhere", "strike"]


class Blow(Protocol):
    """Makes a call, and interrupts it, or calls a handler within it."""

    def __call__(
        self, act: Callable[[], object], handler: Callable[[], object] | None = None, /
    ) -> None: ...


_LIBRARY: Final = (queuebroker,)

# After these the interpreter checks for pending signals. A call counts if it is a call
# into C, since a Python function has checked at its start.
LOOKS = frozenset({"RESUME", "JUMP_BACKWARD"})
CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
# The next instruction if the last one has raised: then no check follows it.
RAISED = "PUSH_EXC_INFO"
# Only in 3.11: a check if the jump is made.
JUMPS_IF = frozenset(
    f"POP_JUMP_BACKWARD_IF_{condition}"
    for condition in ("TRUE", "FALSE", "NONE", "NOT_NONE")
)

# True if the interpreter checks between `__enter__`, if that is written in C, and the
# body of its `with` statement (CPython gh-148874, fixed in 3.15).
_LOOKS_IN_WITH: Final = sys.version_info[:2] == (3, 14)

# True if it checks after a jump backward, not before it.
_LOOKS_AFTER_JUMP: Final = sys.version_info < (3, 13)

# A `RESUME` with a larger argument follows `yield from` or `await`: no check.
_AFTER_YIELD: Final = 1

_TOOL: Final = "tests.strikes"
_TOOL_NUMBERS: Final = (4, 3)  # free for any kind of tool
_sys: Any = sys  # mypy reads 3.11's, which has no `monitoring`


def everywhere(
    case: Callable[[Blow], None],
    points: Iterable[int] | None = None,
    *,
    packages: Sequence[ModuleType] = _LIBRARY,
) -> None:
    """Run a case repeatedly, each time with the interrupt one point later.

    In the last run the call ends without one; there must be several points before.

    points: only these.
    packages: the packages whose code is interrupted.
    """
    for point in itertools.count() if points is None else points:
        blows: list[bool] = []

        def blow(
            act: Callable[[], object],
            handler: Callable[[], object] | None = None,
            point: int = point,
            blows: list[bool] = blows,
        ) -> None:
            blows.append(strike(act, point, packages=packages, handler=handler))

        try:
            case(blow)
        except BaseException as error:
            _number_lines(error)
            raise
        if not any(blows):
            break
    assert point > 1


def strike(
    act: Callable[[], object],
    point: int,
    *,
    packages: Sequence[ModuleType] = _LIBRARY,
    handler: Callable[[], object] | None = None,
) -> bool:
    """Make a call and raise `KeyboardInterrupt` at the point of that number, from 0.

    Return False if the call ended before that point, without an interrupt.

    handler: called there instead, as a signal handler.

    Raises:
        AssertionError: the interrupt did not come out of the call.
    """
    points = _Points(point, packages, handler or _interrupt)
    gc.disable()  # a finalizer's interrupt is lost, and would not repeat itself
    try:
        with _COUNTER(points).installed():
            act()
    except KeyboardInterrupt:
        if not points.interrupted:
            raise
        return True
    finally:
        gc.enable()
    was_due = points.interrupted and handler is None
    assert not was_due, f"the interrupt at point {point} was swallowed"
    return points.interrupted


def _interrupt() -> None:
    raise KeyboardInterrupt


class _Points:
    """The points of one call: calls a handler at one of them."""

    def __init__(
        self,
        point: int,
        packages: Sequence[ModuleType],
        handler: Callable[[], object],
    ) -> None:
        self.interrupted = False
        self._handler: Final = handler
        self._folders = tuple(
            f"{folder}{os.sep}" for each in packages for folder in each.__path__
        )
        self._left = point

    def cover(self, code: CodeType) -> bool:
        """Return whether this code is the library's, and not this module's."""
        name = code.co_filename
        return name.startswith(self._folders) and name != __file__

    def reach(self) -> None:
        """Count a point, and call the handler if it is the chosen one."""
        if self.interrupted:
            return
        if self._left:
            self._left -= 1
        else:
            self.interrupted = True
            self._handler()


class _Tracer:
    """Reaches the points of the calling thread by a trace function."""

    def __init__(self, points: _Points) -> None:
        self._points = points
        # The last instruction of each frame, and its offset; "" if no check follows it.
        self._last: dict[FrameType, tuple[str, int]] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Trace the calling thread within the block."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)
            self._last.clear()  # values that only these frames hold are collected

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """Trace a Python function that begins, if it is the library's."""
        caller = frame.f_back
        # A class is called in C, which then calls its __init__.
        if caller in self._last and frame.f_code.co_name != "__init__":
            self._last[caller] = "", 0
        if not self._points.cover(frame.f_code):
            return None
        if self._points.interrupted or _finalizes(frame):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        # The event for the start of a function comes without one for its first
        # instruction.
        self._last[frame] = "RESUME", 0
        return self._step

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        elif event == "opcode":
            before, at = self._last.get(frame, ("", 0))
            name = _names(frame.f_code).get(frame.f_lasti, "")
            self._last[frame] = name, frame.f_lasti
            if name != RAISED and (
                before in LOOKS
                or before in CALLS
                or (before in JUMPS_IF and frame.f_lasti < at)
            ):
                self._points.reach()
        return self._step


class _Monitor:
    """Reaches the points of the calling thread by `sys.monitoring`."""

    def __init__(self, points: _Points) -> None:
        self._points = points
        self._ident = _sync.get_ident()
        self._jumped: CodeType | None = None  # the code whose jump was its latest event
        self._codes: dict[int, CodeType] = {}  # by id: equal ones are not the same

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Monitor all code of the library that begins within the block."""
        monitoring = _sys.monitoring
        events = monitoring.events
        callbacks = {
            events.PY_START: self._start,
            events.PY_RESUME: self._resume,
            events.PY_THROW: self._throw,
            events.INSTRUCTION: self._instruction,
            events.C_RETURN: self._return,
        }
        tool = next(each for each in _TOOL_NUMBERS if not monitoring.get_tool(each))
        monitoring.use_tool_id(tool, _TOOL)
        self._watch = functools.partial(monitoring.set_local_events, tool)
        try:
            for event, callback in callbacks.items():
                monitoring.register_callback(tool, event, callback)
            monitoring.restart_events()  # an earlier strike may have had other packages
            monitoring.set_events(
                tool, events.PY_START | events.PY_RESUME | events.PY_THROW
            )
            yield
        finally:
            monitoring.set_events(tool, 0)
            for code in self._codes.values():
                self._watch(code, 0)
            for event in callbacks:
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

    def _covers(self, code: CodeType) -> bool:
        """Return whether this code is the library's; if so, turn on its events."""
        if not self._points.cover(code):
            return False
        # Only in the thread of the strike: another thread may be here while that one
        # ends this and frees the tool.
        if id(code) not in self._codes and self._ident == _sync.get_ident():
            self._codes[id(code)] = code
            events = _sys.monitoring.events
            # CALL stands for C_RETURN.
            self._watch(code, events.CALL | events.INSTRUCTION)
        return True

    def _start(self, code: CodeType, _offset: int) -> object:
        """Handle the start of a function."""
        if not self._covers(code):
            return _sys.monitoring.DISABLE
        self._reach()
        return None

    def _resume(self, code: CodeType, offset: int) -> object:
        """Handle the resumption of a generator or a coroutine."""
        if not self._covers(code):
            return _sys.monitoring.DISABLE
        if offset in _looks_of(code).resumes:
            self._reach()
        return None

    def _throw(self, code: CodeType, _offset: int, _error: BaseException) -> None:
        """Handle an exception thrown into a generator; the interpreter checks later."""
        self._covers(code)

    def _instruction(self, code: CodeType, offset: int) -> object:
        """Handle the next instruction: it may be a check that is not a call's.

        The event for jumps would be raised at either end of the jump, depending on the
        version.
        """
        looks = _looks_of(code)
        jumped, landed = offset in looks.jumps, offset in looks.landings
        if not jumped and not landed:
            return _sys.monitoring.DISABLE
        if self._ident == _sync.get_ident():
            looked = landed and self._jumped is code if _LOOKS_AFTER_JUMP else jumped
            self._jumped = code if jumped else None
            if looked:
                self._reach()
        return None

    def _return(
        self, code: CodeType, offset: int, _called: object, _arg: object
    ) -> None:
        """Handle the return of a call into C."""
        if offset in _looks_of(code).calls:
            self._reach()

    def _reach(self) -> None:
        if self._ident == _sync.get_ident() and not _finalizes(sys._getframe(2)):
            self._points.reach()


_COUNTER: Final = _Monitor if sys.version_info >= (3, 12) else _Tracer


def _finalizes(frame: FrameType | None) -> bool:
    """Return whether this is within a finalizer, whose exceptions are lost."""
    while frame is not None and frame.f_code is not strike.__code__:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _number_lines(error: BaseException) -> None:
    """Give a line to each instruction that has none, since pytest needs one."""
    chain: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None and all(each is not one for one in chain):
            chain.append(each)
            todo += [each.__cause__, each.__context__]
    for each in chain:
        steps = []
        step = each.__traceback__
        while step is not None:
            steps.append(step)
            step = step.tb_next
        made: TracebackType | None = None
        for step in reversed(steps):
            line: int | None = step.tb_lineno
            frame = step.tb_frame
            line = frame.f_code.co_firstlineno if line is None else line
            made = TracebackType(made, frame, step.tb_lasti, line)
        each.__traceback__ = made


@attrs.frozen
class _Looks:
    """The offsets in a code at which the interpreter checks, by kind; from 3.12 on.

    A call with a prefix has the offsets of both.

    landings: the targets of jumps backward.
    """

    calls: frozenset[int]
    jumps: frozenset[int]
    landings: frozenset[int]
    resumes: frozenset[int]


def _looks_of(code: CodeType) -> _Looks:
    # By id, since hashing a code takes time for its whole length; the code keeps its
    # id.
    if id(code) not in _known:
        _known[id(code)] = code, _find_looks(code)
    return _known[id(code)][1]


_known: Final[dict[int, tuple[CodeType, _Looks]]] = {}


def _find_looks(code: CodeType) -> _Looks:
    calls: list[int] = []
    jumps: list[int] = []
    landings: list[int] = []
    resumes: list[int] = []
    prefixes: list[int] = []
    before = ""
    for each in dis.get_instructions(code):
        if each.opname == "EXTENDED_ARG":
            prefixes.append(each.offset)
            continue
        if each.opname == "JUMP_BACKWARD":
            jumps.append(each.offset)
            landings.append(each.argval)
        elif each.opname == "RESUME" and (each.arg or 0) & 3 <= _AFTER_YIELD:
            resumes.append(each.offset)
        elif each.opname in CALLS and (_LOOKS_IN_WITH or before != "LOAD_SPECIAL"):
            calls += [*prefixes, each.offset]
        before = each.opname
        prefixes.clear()
    return _Looks(*map(frozenset, (calls, jumps, landings, resumes)))


@functools.cache
def _names(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}
