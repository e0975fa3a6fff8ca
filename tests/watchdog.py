"""A time limit on a test: `watchdog` raises in the main thread at its end.

A signal handler that raises interrupts Python's locks, so a test that waits forever
fails and the run goes on. If nothing can be interrupted, pytest's own faulthandler
timeout shows the stacks, and the caller of pytest sets the last limit.

On Windows no signal interrupts a lock: a wait of the library ends, since it looks for
signals now and then; a wait of the test itself ends the process.
"""

from __future__ import annotations

import _thread
import faulthandler
import functools
import os
import signal
import threading
from contextlib import contextmanager
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

__all__ = ["HANG_S", "LIMIT_S", "show_stacks", "watchdog"]

# Time limit for a step of a test: far above the needs of any healthy thread, even on a
# busy machine. A run against a broken library, where a wait is a failure, sets less.
LIMIT_S = float(os.environ.get("TEST_LIMIT_S", "30"))

# Earlier than pytest's own faulthandler timeout, which shows the same stacks again.
HANG_S = 115.0

# On Windows: the signal that stands for the timer, how often a thread checks the time,
# the ends of the current watchdogs, and how long a test may take to fail.
_BREAK = getattr(signal, "SIGBREAK", signal.SIGINT)
_LOOK_S = 0.2
_BARK_S = 20.0
_ends: list[float] = []

_STDERR = 2


@contextmanager
def watchdog(limit_s: float = HANG_S) -> Iterator[None]:
    """Fail the test, with the stacks of all threads, after ``limit_s`` seconds."""

    def bark(_number: int, _frame: FrameType | None) -> None:
        show_stacks()
        names = ", ".join(thread.name for thread in threading.enumerate())
        pytest.fail(f"hangs: not done after {limit_s:g} s; threads: {names}")

    if not hasattr(signal, "setitimer"):
        with _watched(limit_s, bark):
            yield
        return
    before = signal.signal(signal.SIGALRM, bark)
    remaining_s, _ = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, remaining_s)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _watched(
    limit_s: float, bark: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Call ``bark`` in the main thread of a process on Windows, which has no timer."""
    if not _ends:
        _start_watching()
    before = signal.signal(_BREAK, bark)
    _ends.append(monotonic() + limit_s)
    try:
        yield
    finally:
        _ends.pop()
        signal.signal(_BREAK, before)


@functools.cache
def _start_watching() -> None:
    # One thread for all tests, since some tests count threads. Not `threading.Thread`:
    # it would count as left behind by the first test.
    _thread.start_new_thread(_watch, ())


def _watch() -> None:
    interrupted = inf
    while True:
        sleep(_LOOK_S)
        end = min(_ends, default=inf)
        if monotonic() < end:
            continue
        if end != interrupted:
            interrupted = end
            _thread.interrupt_main(_BREAK)
        elif monotonic() > end + _BARK_S:
            show_stacks()
            os._exit(1)


def show_stacks() -> None:
    """Write the stacks of all threads to the descriptor of standard error.

    It uses the descriptor, since pytest has replaced the file by one without a
    descriptor.
    """
    faulthandler.dump_traceback(file=_STDERR, all_threads=True)
