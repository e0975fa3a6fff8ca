"""`housekeeping`: the settings of the process during an exploration.

They concern the process, not a single run, and are restored at the end.
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
    """The garbage collection between runs."""

    def __init__(self) -> None:
        self._runs = 0

    def tidy(self) -> None:
        """Collect garbage if it is due; called after each run."""
        self._runs += 1
        if self._runs % _RUNS_PER_FULL_COLLECTION == 0:
            gc.collect()
        elif self._runs % _RUNS_PER_COLLECTION == 0:
            gc.collect(1)


@contextmanager
def housekeeping() -> Iterator[Housekeeper]:
    """Control garbage collection, processors and threads within the block."""
    with ExitStack() as stack:
        stack.enter_context(_threads_ended())
        stack.enter_context(_one_processor())
        stack.enter_context(_no_collector())
        yield Housekeeper()


@contextmanager
def _no_collector() -> Iterator[None]:
    """Disable automatic garbage collection during the runs.

    A collection starts when enough objects were created, which depends on the whole
    past of the process. It would run finalizers, which take locks, at an arbitrary
    point: the same schedule would not be the same run. Existing objects are frozen, so
    that a `gc.collect` by the program itself, which some programs need, is fast.
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
    """Bind this thread, and those it starts, to one processor.

    Only one of them runs at a time. On two processors the thread that receives the
    baton wakes at once, finds the interpreter's lock still held by the sender, and
    sleeps again: a run takes up to seven times as long. Other threads are not affected.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    # Several exploring processes should not all choose the same processor.
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
    """Wait at the end until the real threads of the last run have exited."""
    before = _thread._count() - Scheduler.lost
    yield
    deadline = _real_monotonic() + _THREADS_END_S
    while _thread._count() - Scheduler.lost > before and _real_monotonic() < deadline:
        _real_sleep(0.0001)
