"""What the explorer raises: `Failure`, and its special case `UncontrolledError`.

A failure is an `AssertionError` whose text is the story of the schedule that failed, so
that any test runner shows it; `replay` takes its ``schedule``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Failure", "FailureKind", "UncontrolledError"]


class FailureKind(enum.StrEnum):
    """What can be wrong with a schedule."""

    DEADLOCK = "deadlock"  # nobody can go on, no deadline is left
    LOST_WAKEUP = "lost wake-up"  # all sleep, and what one sleeps for is true
    EXCEPTION = "exception"  # one escaped, and nobody looked at it
    LIVELOCK = "livelock"  # it goes on and on
    UNCONTROLLED = "uncontrolled"  # the program uses what the explorer cannot drive
    NONDETERMINISTIC = "nondeterministic"  # the same choices, another run


class Failure(AssertionError):  # noqa: N818 # it is no error of the program's making
    """One schedule of a program went wrong. The exception that did it is the cause.

    kind: a `FailureKind`, equal to its text.
    story: what happened, step by step; also the text of this exception.
    schedule: the choices that lead here; `replay` takes them.
    seed: what the search began with; `explore(seed=...)` takes it. For a failure of
      the random part "seed:index", which repeats that one run.
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
    """The program waits, or could wait, in something the explorer cannot drive.

    Raised in the task that makes or calls such a thing, and by `explore` itself, also
    if the task has swallowed it: what such a program does depends on chance.
    """

    def __init__(
        self,
        kind: FailureKind = FailureKind.UNCONTROLLED,
        story: str = "",
        schedule: Iterable[int] = (),
        seed: str = "",
    ) -> None:
        super().__init__(kind, story, schedule, seed)
