"""The worker processes of pytest-xdist: their tests, and their imports.

Files stay whole: their fixtures are set up once. Every test that may start Spark stays
with one worker, since a session takes seconds to start and as much memory as all the
others.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from xdist.workermanage import WorkerController

__all__ = ["Shares", "import_modules"]

_SPARK: Final = "tests/pipeline/"


class Shares(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Files in the order of their names, those of the pipeline as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        return _SPARK if nodeid.startswith(_SPARK) else super()._split_scope(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a worker; return the test that ended it, if one did.

        The base class gives that test to the next worker, which it ends as well, until
        the run has no workers left. Here others get the rest of its files alone.
        """
        files = self.assigned_work[node]
        left = [
            (file, test)
            for file in files.values()
            for test, is_done in file.items()
            if not is_done
        ]
        if left:
            file, test = left[0]
            file[test] = True
        self.assigned_work[node] = {
            name: file for name, file in files.items() if not all(file.values())
        }
        super().remove_node(node)
        return left[0][1] if left else None

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return  # it replaces another one, and still collects the tests
        super()._reschedule(node)
        # A worker begins a test once it has the next one, or knows that there is none.
        if self._pending_of(self.assigned_work[node]) == 1:
            super()._reschedule(node)


def import_modules(root: Path, folders: Iterable[str], worker: int, count: int) -> None:
    """Import the test modules below folders, beginning at the share of this worker.

    Each worker collects all tests, and pytest compiles the modules of a fresh clone
    anew, since it rewrites their assertions. Were the order the same in all workers,
    each would compile every module; so each finds two thirds compiled by the others.
    """
    files = [
        file for each in folders for file in sorted((root / each).rglob("test_*.py"))
    ]
    start = len(files) * worker // count
    for file in files[start:] + files[:start]:
        # Collection imports it again, and reports the error.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(
                ".".join(file.relative_to(root).with_suffix("").parts)
            )
