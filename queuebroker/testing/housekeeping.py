"""What the interpreter is asked for while schedules are explored: `housekeeping`.

All of it is about the process, none about a run, and all is undone at the end.
"""

from __future__ import annotations

import _thread
import gc
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from queuebroker.testing.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Housekeeper", "housekeeping"]

_RUNS_PER_COLLECTION: Final = 256
_RUNS_PER_FULL_COLLECTION: Final = 4_096
_THREADS_END_S: Final = 2.0

_real_sleep = time.sleep
_real_monotonic = time.monotonic


class Housekeeper:
    """Collects garbage between runs."""

    def __init__(self) -> None:
        self._runs = 0

    def tidy(self) -> None:
        """Call after each run."""
        self._runs += 1
        if self._runs % _RUNS_PER_FULL_COLLECTION == 0:
            gc.collect()
        elif self._runs % _RUNS_PER_COLLECTION == 0:
            gc.collect(1)


@contextmanager
def housekeeping() -> Iterator[Housekeeper]:
    """Let garbage, processors and threads be the explorer's business in the block."""
    with ExitStack() as stack:
        stack.enter_context(_threads_ended())
        stack.enter_context(_one_processor())
        stack.enter_context(_no_collector())
        yield Housekeeper()


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the collector out of the runs.

    It starts when enough objects have been made, which depends on all the process has
    done so far, and would run finalizers, which take locks, at a point of its choice:
    the same schedule would then not be the same run. What exists already is frozen, so
    that a program that calls `gc.collect` itself, as some must, does it in no time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect(1)
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _one_processor() -> Iterator[None]:
    """Keep this thread, and those it starts, on one processor.

    Only one of them ever runs. On two processors the one that is given the baton wakes
    at once, finds the interpreter's lock still held by the giver, and sleeps again: a
    run takes up to seven times as long. Other threads are not affected.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    # Several processes that explore should not all choose the same one.
    chosen = sorted(before)[os.getpid() % len(before)]
    with suppress(OSError):
        os.sched_setaffinity(0, {chosen})
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)


@contextmanager
def _threads_ended() -> Iterator[None]:
    """Wait at the end until the threads of the last run are gone, not just done."""
    before = _thread._count() - Scheduler.lost
    yield
    deadline = _real_monotonic() + _THREADS_END_S
    while _thread._count() - Scheduler.lost > before and _real_monotonic() < deadline:
        _real_sleep(0.0001)
