"""The end of a run, with or without a failure: its tasks are unwound one by one.

The code that finds a failure calls `fail`, `refuse` or `give_up`; the first trouble is
kept. From then on the run is out of control: each task gets the baton once more, to
end. The holder of the baton does all of this, or the supervisor while no task returns
it.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, Final, NoReturn

from queuebroker.testing.failure import FailureKind, Trouble, UncontrolledError
from queuebroker.testing.places import is_own

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from queuebroker.testing.scheduling import Scheduling
    from queuebroker.testing.task import Task

    TraceFunction = Callable[[FrameType, str, Any], Any]

__all__ = [
    "Unwind",
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


class Unwind(BaseException):  # nothing is wrong
    """The exception that ends a task whose run is over. No user sees it."""


def insist() -> None:
    """Raise `Unwind` at the next line of a user's code in the calling thread.

    `Unwind` is raised where the task waits. Code that catches everything, such as the
    loop of many a worker, catches it too. From this call on every line of that code
    raises, also those of the handler: an exception raised there leaves the loop.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if not is_own(frame.f_code.co_filename):
            frame.f_trace = _raise
        frame = frame.f_back
    # Without a global trace function the frames' functions are not called.
    sys.settrace(_ignore)


def _raise(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
    # Not at an exception event, which is still inside the block that catches it. And a
    # trace function that has raised is not called again.
    if event == "line":
        raise Unwind
    return _raise


def _ignore(_frame: FrameType, _event: str, _arg: object) -> None:
    """Trace no new frame."""


def fail(
    scheduler: Scheduling,
    kind: FailureKind,
    text: str,
    task: Task | None = None,
    error: BaseException | None = None,
) -> NoReturn:
    """End the run as a failure: every task is unwound, the caller first."""
    give_up(scheduler, Trouble(kind, text, task, error))
    scheduler.running.unwinding = True
    raise Unwind


def refuse(scheduler: Scheduling, what: str) -> NoReturn:
    """End the run because the calling task uses an object that cannot be controlled."""
    task = scheduler.running
    error = UncontrolledError(story=what)
    give_up(scheduler, Trouble(FailureKind.UNCONTROLLED, what, task, error))
    task.unwinding = True
    raise error


def give_up(scheduler: Scheduling, trouble: Trouble) -> None:
    """Record the trouble, unless there is one already, and unwind all tasks."""
    if scheduler.trouble is None:
        scheduler.trouble = trouble
        if scheduler.recorder is not None:
            scheduler.recorder.stopped(scheduler)
    lose_control(scheduler)


def lose_control(scheduler: Scheduling) -> None:
    """Start the unwinding of every task that is still alive."""
    if scheduler.alive and not scheduler.unwinding:
        # A resource left open by an unwound task is no fault of the program.
        scheduler.quiet.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", ResourceWarning)
    scheduler.unwinding = True
    scheduler.holder = 0


def unwind_next(scheduler: Scheduling) -> None:
    """Let the oldest task that is still alive unwind, or release ``over``."""
    while scheduler.alive:
        task = scheduler.alive[0]
        if task.ident:
            scheduler.running = task
            task.gate.release()
            return
        scheduler.alive.remove(task)  # it never ran
        task.taken = False
    scheduler.over.release()


def pass_by(scheduler: Scheduling, task: Task) -> None:
    """Handle a primitive that must not block, for a task out of control.

    For a predicate under inspection do nothing. For a task that is being unwound do
    nothing either, so that its ``finally`` blocks work; after `PASSES_MAX` calls raise.
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


def _freeze(scheduler: Scheduling, task: Task) -> NoReturn:
    """Drop a task that cannot be ended: its thread waits forever."""
    let_go(scheduler, task)
    unwind_next(scheduler)
    while True:
        task.gate.acquire()


def let_go(scheduler: Scheduling, task: Task) -> None:
    """Count a task as ended although its thread has not ended."""
    type(scheduler).lost += 1
    if task in scheduler.alive:
        scheduler.alive.remove(task)
        task.taken = False


def dispose(scheduler: Scheduling) -> None:
    """Free the objects of the run now, not at a later garbage collection."""
    for task in scheduler.by_thread.values():
        task.thread = None
    scheduler.by_thread.clear()
    scheduler.order.clear()
    scheduler.alive.clear()
    scheduler.ended_badly.clear()
    del scheduler.main, scheduler.running
    scheduler.quiet.close()
