"""Ours: `queuebroker.testing.explore` with default arguments."""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest import mock

from queuebroker.testing import Failure, explore
from queuebroker.testing.program_file import ProgramFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuebroker.testing import Run

__all__ = ["NAME", "NEEDS", "hunt"]

NAME = "queuebroker.testing"
NEEDS = None


def hunt(path: Path, seed: int, note: Callable[[], None]) -> bool:
    """Explore. The time includes writing the story; the runs for that do not count."""
    module: Any = importlib.import_module("queuebroker.testing.survey")
    searching = True

    def program(run: Run) -> None:
        if searching:
            note()
        file(run)

    def after_the_search(real: Any) -> Any:
        def called(*args: Any) -> Any:
            nonlocal searching
            searching = False
            return real(*args)

        return called

    with ProgramFile.opened(path, "program") as file, ExitStack() as stack:
        for name in ("translate", "diagnose"):
            real = getattr(module, name)
            stack.enter_context(mock.patch.object(module, name, after_the_search(real)))
        try:
            explore(program, seed=seed)
        except Failure:
            return True
    return False
