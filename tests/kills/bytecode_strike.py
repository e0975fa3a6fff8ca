"""`BytecodeStrike`: a process that kills itself before a chosen bytecode.

`Strike` wraps chosen functions; this one counts the bytecodes that all threads execute,
in any function. A trace function does that, which must be set before a thread
starts: Python 3.11 cannot set it for threads that run. Until the strike is armed, the
trace function costs one call for each call of a function.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import bus
import queuebroker
from tests.kills.notes import Note

if TYPE_CHECKING:
    from types import FrameType

    from tests.kills.notes import Notebook

__all__ = ["BUS", "MEMORY", "BytecodeStrike"]

MEMORY: Final = "memory"
BUS: Final = "bus"

_BUS: Final = Path(bus.__file__).parent
_QUEUEBROKER: Final = Path(queuebroker.__file__).parent
# By place: the beginnings of the paths of the code that counts.
_CODE: Final = {
    MEMORY: (str(_BUS / "features" / "memory"),),
    BUS: (str(_BUS), str(_QUEUEBROKER)),
}


class BytecodeStrike:
    """Kills its process once, in the thread that reaches the chosen bytecode.

    Threads that started before it do not count.

    Args:
        book: for the note of the place.
    """

    def __init__(self, book: Notebook) -> None:
        self._book: Final = book
        self._code: tuple[str, ...] = ()
        self._left: int = 0
        threading.settrace(self._enter)

    def arm(self, place: str, number: int) -> None:
        """Strike before a bytecode of a place, counted from now on.

        place: `MEMORY`, the code of shared memory; `BUS`, all code of both packages.
        number: which bytecode, from 0.
        """
        self._left = number
        self._code = _CODE[place]  # last: it arms the trace function

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """Trace a function that begins, if its code counts."""
        if not self._code or not frame.f_code.co_filename.startswith(self._code):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "opcode":
            if self._left <= 0:
                self._strike(frame)
            # Without a lock: if two threads count one, the strike is one later.
            self._left -= 1
        return self._step

    def _strike(self, frame: FrameType) -> None:
        path = Path(frame.f_code.co_filename)
        place = f"{path.name}:{frame.f_lineno}+{frame.f_lasti}"
        self._book.note(Note.KILLED, place, frame.f_code.co_name)
        os.kill(os.getpid(), signal.SIGKILL)
