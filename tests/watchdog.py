"""A limit on what a test may take: `watchdog` raises in the main thread when it ends.

Python's locks give way to a signal handler that raises, so a test that waits for ever
fails and the run goes on. Where nothing gives way, pytest's own faulthandler timeout
shows the stacks, and whoever called pytest sets the last limit.
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

# What a step of a test may take: far above what any healthy thread needs, also on a
# busy machine. A run against a broken library, where to wait is to fail, says less.
_USUAL_LIMIT_S = 30.0
LIMIT_S = float(os.environ.get("TEST_LIMIT_S", _USUAL_LIMIT_S))

# Before pytest's own faulthandler timeout, which shows the same stacks again.
HANG_S = 115.0 * LIMIT_S / _USUAL_LIMIT_S

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

    To the descriptor, since pytest has put a file without one in its place.
    """
    faulthandler.dump_traceback(file=_STDERR, all_threads=True)
