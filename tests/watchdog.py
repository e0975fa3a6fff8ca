"""A time limit on a test: `watchdog` raises in the main thread at its end.

A signal handler that raises interrupts Python's locks, so a test that waits forever
fails and the run goes on. If nothing can be interrupted, pytest's own faulthandler
timeout shows the stacks, and the caller of pytest sets the last limit.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["HANG_S", "LIMIT_S", "show_stacks", "watchdog"]

# Time limit for a step of a test: far above the needs of any healthy thread, even on a
# busy machine. A run against a broken library, where a wait is a failure, sets less.
LIMIT_S = float(os.environ.get("TEST_LIMIT_S", "30"))

# Earlier than pytest's own faulthandler timeout, which shows the same stacks again.
HANG_S = 115.0

_STDERR = 2


@contextmanager
def watchdog(limit_s: float = HANG_S) -> Iterator[None]:
    """Fail the test, with the stacks of all threads, after ``limit_s`` seconds."""

    def bark(_number: int, _frame: FrameType | None) -> None:
        show_stacks()
        names = ", ".join(thread.name for thread in threading.enumerate())
        pytest.fail(f"hangs: not done after {limit_s:g} s; threads: {names}")

    before = signal.signal(signal.SIGALRM, bark)
    remaining_s, _ = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, remaining_s)
        signal.signal(signal.SIGALRM, before)


def show_stacks() -> None:
    """Write the stacks of all threads to the descriptor of standard error.

    It uses the descriptor, since pytest has replaced the file by one without a
    descriptor.
    """
    faulthandler.dump_traceback(file=_STDERR, all_threads=True)
