"""`perform`: the supervision of one run, in the thread that started it.

The supervisor takes no part in the run. It waits for the end, and intervenes if a task
never returns the baton: it is blocked in a call that is not simulated, or in an endless
loop. The supervisor drops such a task and unwinds the others.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Final

from queuebroker.testing import ending, substitute, threads
from queuebroker.testing.ending import Unwind
from queuebroker.testing.failure import FailureKind, Trouble
from queuebroker.testing.instructions import Instruction
from queuebroker.testing.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing.task import Task

__all__ = ["perform"]

# Real seconds without a switch point after which a task counts as lost.
WATCHDOG_S: float = 10.0

_LOOKS: Final = 4  # checks by the supervisor in that time


def perform(scheduler: Scheduler, body: Callable[[], object]) -> int:
    """Run ``body`` as the main task; return when every task has ended.

    A failure is in ``scheduler.trouble``; otherwise the result is the fingerprint of
    the order of all steps.
    """
    substitute.freshen()
    Scheduler.active = scheduler
    try:
        scheduler.begin(body)
        _watch(scheduler)
        return _fingerprint(scheduler)
    except BaseException:
        # An interrupt by the waiting user: no task may remain.
        ending.lose_control(scheduler)
        _watch(scheduler)
        raise
    finally:
        Scheduler.active = None
        for task in scheduler.by_thread.values():
            if task.thread is not None:
                threads.mark_ended(task.thread)
        ending.dispose(scheduler)


def _watch(scheduler: Scheduler) -> None:
    seen = (0, 0)
    still = 0
    while not scheduler.over.acquire(True, WATCHDOG_S / _LOOKS):
        progress = (scheduler.steps, scheduler.running.passes)
        still = still + 1 if progress == seen else 0
        seen = progress
        if still >= _LOOKS:
            _give_up(scheduler, scheduler.running)
            still = 0


def _give_up(scheduler: Scheduler, task: Task) -> None:
    """Drop a task that does not return the baton, and unwind the others."""
    frame = sys._current_frames().get(task.ident)
    stack = "".join(traceback.format_stack(frame)) if frame else ""
    ending.give_up(
        scheduler,
        Trouble(
            FailureKind.UNCONTROLLED,
            f"{task.name} has not come to a switch point for {WATCHDOG_S:g} s: it waits"
            " for something that the explorer does not control (a lock made before the"
            f" run, input, another process), or it computes\n{stack}",
            task,
            hung=True,
        ),
    )
    ending.let_go(scheduler, task)
    # If the task is in a loop, this ends it; else it is raised when its call returns.
    import ctypes  # noqa: PLC0415 # slow to load, and rarely needed

    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(task.ident), ctypes.py_object(Unwind)
    )
    ending.unwind_next(scheduler)


def _fingerprint(scheduler: Scheduler) -> int:
    """Return a hash of the order of tasks at each lock.

    It is equal for runs that guarded code cannot distinguish. With switch points at
    instructions it includes the writers of each variable, and the readers between two
    writers. Any other instruction counts as a write of everything.
    """
    takers: dict[object, list[object]] = {}
    readers: dict[str, list[int]] = {}

    def touches(variable: str, who: int, *, writes: bool) -> None:
        if not writes:
            readers.setdefault(variable, []).append(who)
            return
        before = sorted(readers.pop(variable, ()))
        takers.setdefault(variable, []).append((who, *before))

    for taken, taker in scheduler.order:
        if isinstance(taken, Instruction):
            touches("", taker, writes=not taken.variable)
            if taken.variable:
                touches(taken.variable, taker, writes=taken.writes)
        else:
            takers.setdefault(taken.key, []).append(taker)
    for variable in list(readers):
        touches(variable, 0, writes=True)
    return hash(frozenset((what, tuple(keys)) for what, keys in takers.items()))
