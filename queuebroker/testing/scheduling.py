"""`Scheduling`: a run, as the parts of its scheduler see it.

The parts read the state of the run and end it; `Scheduler` calls them. It is the only
class with these members, and documents each of them with its writers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    import _thread
    import contextlib

    from queuebroker.testing.instructions import Instruction
    from queuebroker.testing.recorder import Recorder
    from queuebroker.testing.task import Task
    from queuebroker.testing.trouble import Trouble

__all__ = ["Ordered", "Scheduling"]


class Ordered(Protocol):
    """A lock, as far as the order of acquisitions needs it."""

    @property
    def key(self) -> int:
        """A key that is the same in every schedule."""


class Scheduling(Protocol):
    """One run of a program; see `Scheduler` for each member."""

    recorder: Recorder | None

    now: float
    ended_badly: list[Task]

    main: Task
    running: Task
    alive: list[Task]
    holder: int

    order: list[tuple[Instruction | Ordered, int]]
    settling: int
    by_thread: dict[int, Task]
    inspected: Task | None

    lost: ClassVar[int]
    trouble: Trouble | None
    unwinding: bool
    over: _thread.LockType
    quiet: contextlib.ExitStack

    def reach(self, instruction: Instruction | None, *, looked: bool) -> None:
        """Handle the next instruction of named code."""

    def go_to(self, time_s: float, *, early: bool) -> None:
        """Advance the virtual time."""
