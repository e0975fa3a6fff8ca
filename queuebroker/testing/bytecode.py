"""`Bytecode`: switch points inside of lines, for the code that a test names.

`Scheduler.reach` is called on the thread of the task: before each instruction of that
code which others could notice, and where the interpreter checks for interrupts in it.
The mechanism depends on the version of the interpreter.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from queuebroker.testing.instructions import NamedCode
from queuebroker.testing.monitoring import Monitoring
from queuebroker.testing.tracing import Tracing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from queuebroker.testing.scheduling import Scheduling

__all__ = ["Bytecode"]


class Bytecode:
    """Named code, with the mechanism that makes its instructions switch points.

    names: the names of the named objects, as written in source.
    """

    def __init__(self, named: Iterable[object]) -> None:
        """Find the code.

        Raises:
            TypeError: an object is of another kind, or has no code in Python.
        """
        code = NamedCode(named)
        self.names: list[str] = code.names
        self._way: Tracing | Monitoring
        if sys.version_info >= (3, 12):
            self._way = Monitoring(code)
        else:
            self._way = Tracing(code)

    def installed(self) -> AbstractContextManager[None]:
        """Enable the switch points within a block.

        Raises:
            RuntimeError: another tool prevents it.
        """
        return self._way.installed()

    def begin(self, scheduler: Scheduling) -> None:
        """Start on the thread of a task; called before the task's code."""
        self._way.begin(scheduler)
