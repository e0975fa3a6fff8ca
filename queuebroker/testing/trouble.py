"""`Trouble`: the reason for which a run failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from queuebroker.testing.failure import FailureKind
    from queuebroker.testing.task import Task

__all__ = ["Trouble"]


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
