"""The exceptions of the explorer: `Failure`, and its subclass `UncontrolledError`.

A failure is an `AssertionError` with the story of the failed schedule as its text, so
that any test runner shows it; `replay` takes its ``schedule``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from queuebroker.testing.task import Task

__all__ = ["Failure", "FailureKind", "Trouble", "UncontrolledError"]


class FailureKind(enum.StrEnum):
    """The kinds of failure of a schedule."""

    DEADLOCK = "deadlock"  # no task can go on, no deadline is left
    LOST_WAKEUP = "lost wake-up"  # all tasks sleep, and the predicate of one is true
    EXCEPTION = "exception"  # one escaped, and the test has not read it
    LIVELOCK = "livelock"  # the run does not end
    UNCONTROLLED = "uncontrolled"  # the program uses an uncontrollable object
    NONDETERMINISTIC = "nondeterministic"  # the same choices gave another run


class Failure(AssertionError):  # noqa: N818 # the program does not raise it
    """One schedule of a program failed. An exception behind it is the cause.

    kind: a `FailureKind`, equal to its text.
    story: the steps of the run; also the text of this exception.
    schedule: the choices that lead here; `replay` takes them.
    seed: the seed of the search; `explore(seed=...)` takes it. For a failure of the
      random part it is "seed:index", which repeats that one run.
    """

    def __init__(
        self,
        kind: FailureKind,
        story: str,
        schedule: Iterable[int] = (),
        seed: str = "",
    ) -> None:
        super().__init__(story)
        self.kind = kind
        self.story = story
        self.schedule: list[int] = list(schedule)
        self.seed = seed

    def __reduce__(self) -> tuple[type[Failure], tuple[object, ...]]:
        return type(self), (self.kind, self.story, self.schedule, self.seed)


class UncontrolledError(Failure):
    """The program waits, or could wait, on an object that the explorer cannot control.

    It is raised in the task that creates or calls such an object. `explore` also raises
    it, even if the task has suppressed it: the result of such a program depends on
    chance.
    """

    def __init__(
        self,
        kind: FailureKind = FailureKind.UNCONTROLLED,
        story: str = "",
        schedule: Iterable[int] = (),
        seed: str = "",
    ) -> None:
        super().__init__(kind, story, schedule, seed)


@attrs.frozen
class Trouble:
    """The failure of a run: its kind, one sentence, and the exception if there is one.

    task: the task concerned.
    hung: True if that task's thread never returned: then a replay is useless.
    """

    kind: FailureKind
    text: str
    task: Task | None = None
    error: BaseException | None = None
    hung: bool = False
