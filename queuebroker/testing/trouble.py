"""What a run has come to if it failed: `Trouble`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from queuebroker.testing.failure import FailureKind
    from queuebroker.testing.task import Task

__all__ = ["Trouble"]


@attrs.frozen
class Trouble:
    """What went wrong: its kind, one sentence, and the exception if there is one.

    task: whom it is about.
    hung: that task's thread never came back, so that no replay is worth trying.
    """

    kind: FailureKind
    text: str
    task: Task | None = None
    error: BaseException | None = None
    hung: bool = False
