"""`Scheduling`: a run, as the parts of its scheduler see it; `Strategy`: its choices.

The parts read the state of the run and end it; `Scheduler` calls them. It is the only
class with these members, and documents each of them with its writers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    import _thread
    import contextlib
    from collections.abc import Sequence

    from queuebroker.testing.failure import Trouble
    from queuebroker.testing.instructions import Instruction
    from queuebroker.testing.recorder import Recorder
    from queuebroker.testing.task import Task

__all__ = ["DivergenceError", "Ordered", "Scheduling", "Strategy"]


class Strategy(Protocol):
    """The decisions of a scheduler: it selects an option, by number, among several.

    An option is a task that could run next. Option 0 is the running task, if it can go
    on; the other tasks that can go on follow, oldest first. Options from number
    ``odd_from`` on occur only on a slow or odd machine: the earliest deadline passes
    early, or a sleeper wakes spuriously. Options from ``preempts_from`` on count as a
    preemption.

    Both methods raise `DivergenceError` if the options differ from the expected ones.
    """

    def choose(self, options: Sequence[Task], preempts_from: int, odd_from: int) -> int:
        """Choose where a task is about to take a lock, to wait, or to start a task."""

    def choose_after_release(
        self, options: Sequence[Task], preempts_from: int, odd_from: int
    ) -> int:
        """Choose where a task has just released a lock, and could go on."""


class DivergenceError(Exception):
    """The options differ from those of an earlier run with the same choices."""


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
    by_thread: dict[int, Task]

    lost: ClassVar[int]
    trouble: Trouble | None
    unwinding: bool
    over: _thread.LockType
    quiet: contextlib.ExitStack

    def reach(self, instruction: Instruction | None, *, looked: bool) -> None:
        """Handle the next instruction of named code."""
