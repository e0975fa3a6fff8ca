"""`Condition`: the processors of a job, and the other load on them.

A library must be fast on a busy machine, too. So a job between two processes is
measured on two processors, on one, and on two that a busy loop shares.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BUSY", "ONE_CORE", "TWO_CORES", "Condition", "possible"]

_LOOP: Final = "while True: pass"


@attrs.frozen
class Condition:
    """A number of processors, and a number of busy loops that share them.

    name: as the tables show it.
    processors, loops: both for the job as a whole, however many processes it has.
    """

    name: str
    processors: int
    loops: int = 0

    @property
    def is_possible(self) -> bool:
        """True if this process may use that many processors."""
        return len(os.sched_getaffinity(0)) >= self.processors

    @contextmanager
    def imposed(self) -> Iterator[None]:
        """Restrict this process, and the processes that it starts in the block.

        Raises:
            OSError: the system refuses the restriction.
        """
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(before)[: self.processors])
        loops: list[subprocess.Popen[bytes]] = []
        try:
            loops += [
                subprocess.Popen([sys.executable, "-c", _LOOP])
                for _ in range(self.loops)
            ]
            yield
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
            os.sched_setaffinity(0, before)


TWO_CORES: Final = Condition("two cores", 2)
ONE_CORE: Final = Condition("one core", 1)
BUSY: Final = Condition("busy loop", 2, loops=1)


def possible(*, quick: bool = False) -> tuple[list[Condition], list[str]]:
    """Return the conditions this process can impose, and a sentence for each other.

    quick: at most one condition.
    """
    conditions = (TWO_CORES, ONE_CORE, BUSY)
    if quick:
        return [each for each in conditions if each.is_possible][:1], []
    return (
        [each for each in conditions if each.is_possible],
        [
            f"{each.name}: left out, since this process may not use"
            f" {each.processors} processors"
            for each in conditions
            if not each.is_possible
        ],
    )
