"""`Monitoring`: callbacks before instructions of named code, by `sys.monitoring`.

For CPython 3.12 and newer. Other code has no callbacks. Nor have instructions that are
no switch points and give no information on the interpreter's checks for interrupts.
"""

from __future__ import annotations

import _thread
import sys
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from queuebroker.testing.places import is_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from queuebroker.testing.instructions import NamedCode
    from queuebroker.testing.scheduling import Scheduling

__all__ = ["Monitoring"]

_TOOL: Final = "queuebroker.testing"
_TOOL_NUMBERS: Final = (4, 3)  # the numbers not reserved for a kind of tool

_get_ident = _thread.get_ident
_sys: Any = sys


class Monitoring:
    """The monitoring of named code."""

    def __init__(self, named: NamedCode) -> None:
        self._named = named
        self._scheduler: Scheduling | None = None
        # By the number of a thread: the instruction before which the interpreter will
        # have checked for interrupts, if it is the next one executed.
        self._next: dict[int, tuple[int, int]] = {}
        # The offsets of instructions that need no callback.
        self._dull = {
            key: set(range(0, len(code.co_code), 2))
            - {*named.points[key], *named.looks[key], *named.looks[key].values()}
            for key, code in named.codes.items()
        }

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Enable the callbacks within the block.

        Raises:
            RuntimeError: too many other tools monitor the interpreter.
        """
        monitoring = _sys.monitoring
        events = monitoring.events
        callbacks = {
            events.PY_START: self._enter,
            events.PY_RESUME: self._enter,
            events.INSTRUCTION: self._reach,
            events.CALL: self._call,
        }
        tool = _free_tool()
        monitoring.use_tool_id(tool, _TOOL)
        try:
            for event, callback in callbacks.items():
                monitoring.register_callback(tool, event, callback)
            monitoring.restart_events()  # the dull offsets may have changed since
            for code in self._named.codes.values():
                monitoring.set_local_events(tool, code, sum(callbacks))
            yield
        finally:
            for code in self._named.codes.values():
                monitoring.set_local_events(tool, code, 0)
            for event in callbacks:
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

    def begin(self, scheduler: Scheduling) -> None:
        """Set the run that the callbacks belong to."""
        self._scheduler = scheduler
        self._next.pop(_get_ident(), None)

    def _enter(self, _code: CodeType, _offset: int) -> None:
        """Handle the start of a function, or the resumption of a generator."""
        scheduler = self._scheduler
        if scheduler is not None and _get_ident() == scheduler.holder:
            scheduler.reach(None, looked=True)

    def _reach(self, code: CodeType, offset: int) -> object:
        """Handle an instruction that is about to be executed."""
        key = id(code)
        if offset in self._dull[key]:
            return _sys.monitoring.DISABLE
        scheduler = self._scheduler
        ident = _get_ident()
        if scheduler is None or scheduler.holder != ident:
            return None
        looked = self._next.pop(ident, None) == (key, offset)
        following = self._named.looks[key].get(offset)
        if following is not None:
            self._next[ident] = (key, following)
        scheduler.reach(self._named.points[key].get(offset), looked=looked)
        return None

    def _call(
        self, _code: CodeType, _offset: int, called: object, _arg: object
    ) -> None:
        """Handle a call.

        For a function in Python, the interpreter checks for interrupts at its
        beginning, not at its end. The explorer's own functions replace functions in C
        and count as such.
        """
        if isinstance(called, MethodType):
            called = called.__func__
        if isinstance(called, FunctionType) and not is_own(called.__code__.co_filename):
            ident = _get_ident()
            self._next.pop(ident, None)
            scheduler = self._scheduler
            if scheduler is not None and ident == scheduler.holder:
                scheduler.reach(None, looked=True)


def _free_tool() -> int:
    users = {number: _sys.monitoring.get_tool(number) for number in _TOOL_NUMBERS}
    for number, user in users.items():
        if user is None:
            return number
    msg = f"cannot stop at each bytecode: the interpreter is monitored by {users}"
    raise RuntimeError(msg)
