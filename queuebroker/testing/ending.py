"""How a run ends, well or badly: its tasks are unwound, one after another.

Whoever finds that something is wrong calls `fail`, `refuse` or `give_up`; the first
trouble stays. From then on nobody has control: each task gets the baton once more, to
end. All of it is done with the baton, or by the supervisor while no task comes back.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final, NoReturn

from queuebroker.testing.failure import FailureKind, UncontrolledError
from queuebroker.testing.trouble import Trouble
from queuebroker.testing.unwinding import Unwind, insist

if TYPE_CHECKING:
    from queuebroker.testing.scheduler import Scheduler
    from queuebroker.testing.task import Task

__all__ = [
    "dispose",
    "fail",
    "give_up",
    "let_go",
    "lose_control",
    "pass_by",
    "refuse",
    "unwind_next",
]

PASSES_MAX: Final = 100  # primitives a task may use while it is unwound


def fail(
    scheduler: Scheduler,
    kind: FailureKind,
    text: str,
    task: Task | None = None,
    error: BaseException | None = None,
) -> NoReturn:
    """End the run as a failure: every task is unwound, the caller first."""
    give_up(scheduler, Trouble(kind, text, task, error))
    scheduler.running.unwinding = True
    raise Unwind


def refuse(scheduler: Scheduler, what: str) -> NoReturn:
    """End the run because the calling task uses what cannot be controlled."""
    task = scheduler.running
    error = UncontrolledError(story=what)
    give_up(scheduler, Trouble(FailureKind.UNCONTROLLED, what, task, error))
    task.unwinding = True
    raise error


def give_up(scheduler: Scheduler, trouble: Trouble) -> None:
    """Note what is wrong, if nothing was, and let all tasks be unwound."""
    if scheduler.trouble is None:
        scheduler.trouble = trouble
        if scheduler.recorder is not None:
            scheduler.recorder.stopped(scheduler)
    lose_control(scheduler)


def lose_control(scheduler: Scheduler) -> None:
    """From now on every task that is still there is unwound."""
    if scheduler.alive and not scheduler.unwinding:
        # What is left open because its task was cut short is nobody's mistake.
        scheduler.quiet.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", ResourceWarning)
    scheduler.unwinding = True
    scheduler.holder = 0


def unwind_next(scheduler: Scheduler) -> None:
    """Let the oldest task that is still there unwind, or release ``over``."""
    while scheduler.alive:
        task = scheduler.alive[0]
        if task.ident:
            scheduler.running = task
            task.gate.release()
            return
        scheduler.alive.remove(task)  # it never ran
        task.taken = False
    scheduler.over.release()


def pass_by(scheduler: Scheduler, task: Task) -> None:
    """What a primitive does instead of blocking, for a task out of control.

    For a predicate under inspection nothing. For a task that is being unwound nothing
    either, so that its ``finally`` blocks work; yet not for ever.
    """
    if not scheduler.unwinding:
        return
    task.passes += 1
    if not task.unwinding or task.passes > PASSES_MAX:
        task.unwinding = True
        if task.passes > PASSES_MAX:
            insist()
        if task.passes > 2 * PASSES_MAX:
            _freeze(scheduler, task)
        raise Unwind


def _freeze(scheduler: Scheduler, task: Task) -> NoReturn:
    """Go on without a task that nothing can end: its thread waits for ever."""
    let_go(scheduler, task)
    unwind_next(scheduler)
    while True:
        task.gate.acquire()


def let_go(scheduler: Scheduler, task: Task) -> None:
    """Count a task as ended whose thread is not."""
    type(scheduler).lost += 1
    if task in scheduler.alive:
        scheduler.alive.remove(task)
        task.taken = False


def dispose(scheduler: Scheduler) -> None:
    """Let all that the run has made be freed now, not at some collection."""
    for task in scheduler.by_thread.values():
        task.thread = None
    scheduler.by_thread.clear()
    scheduler.order.clear()
    scheduler.alive.clear()
    scheduler.ended_badly.clear()
    del scheduler.main, scheduler.running
    scheduler.quiet.close()
