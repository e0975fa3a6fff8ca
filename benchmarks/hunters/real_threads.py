"""One run of a fault file on real threads, and whether it fails."""

from __future__ import annotations

import functools
import threading
import types
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["fresh", "goes_wrong"]

# Real seconds after which a program that does next to nothing counts as stuck.
_STUCK_S = 1.0


def fresh(path: Path) -> Any:
    """Execute a file as a new module."""
    module = types.ModuleType("fault")
    exec(_code(path), vars(module))  # it is one of our own examples
    return module


@functools.cache
def _code(path: Path) -> types.CodeType:
    return compile(path.read_text(encoding="utf-8"), str(path), "exec")


def goes_wrong(path: Path) -> bool:
    """Run a program once; return True if a thread raised, or did not end.

    Stuck threads remain, so the process must end by `os._exit`.
    """
    errors: list[BaseException] = []
    started: list[threading.Thread] = []

    class Watched(threading.Thread):
        def start(self) -> None:
            self.daemon = True
            started.append(self)
            super().start()

        def run(self) -> None:
            try:
                super().run()
            except Exception as error:  # noqa: BLE001 # the fault to be found
                errors.append(error)

    module = fresh(path)
    module.Thread = Watched
    try:
        module.program()
    except Exception as error:  # noqa: BLE001 # likewise
        errors.append(error)
    deadline = monotonic() + _STUCK_S
    for thread in started:
        thread.join(max(0.0, deadline - monotonic()))
    return bool(errors) or any(thread.is_alive() for thread in started)
