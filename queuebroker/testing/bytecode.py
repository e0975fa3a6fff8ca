"""Switch points inside of lines, for the code that a test names: `Bytecode`.

Before each instruction of that code which others could notice, and where the
interpreter looks for interrupts in it, `Scheduler.reach` is called on the thread of the
task. How that comes about depends on the interpreter.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from queuebroker.testing.monitoring import Monitoring
from queuebroker.testing.named_code import NamedCode
from queuebroker.testing.tracing import Tracing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from queuebroker.testing.scheduler import Scheduler

__all__ = ["Bytecode"]


class Bytecode:
    """Some code, and what makes its instructions switch points.

    names: what a test has named, as one would write it.
    """

    def __init__(self, named: Iterable[object]) -> None:
        """Find the code.

        Raises:
            TypeError: what is named is something else, or has no code in Python.
        """
        code = NamedCode(named)
        self.names: list[str] = code.names
        self._way: Tracing | Monitoring
        if sys.version_info >= (3, 12):
            self._way = Monitoring(code)
        else:
            self._way = Tracing(code)

    def installed(self) -> AbstractContextManager[None]:
        """Be called back within a block.

        Raises:
            RuntimeError: another tool is in the way.
        """
        return self._way.installed()

    def begin(self, scheduler: Scheduler) -> None:
        """Called on the thread of each task, before its code."""
        self._way.begin(scheduler)
