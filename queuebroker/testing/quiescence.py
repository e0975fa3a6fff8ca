"""The handling of a run in which no task can go on: time advances, or the run fails.

Only `who_goes_on` distinguishes deadlocks from lost wake-ups. The holder of the baton
calls it, while every task is at a switch point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker.testing.ending import fail
from queuebroker.testing.failure import FailureKind
from queuebroker.testing.task import NEVER, OTHERS

if TYPE_CHECKING:
    from queuebroker.testing.scheduling import Scheduling
    from queuebroker.testing.task import Task

__all__ = ["blame_errors", "who_goes_on"]


def who_goes_on(scheduler: Scheduling) -> list[Task]:
    """Return the tasks to wake when every task waits; fail if none can be woken.

    If the predicate of a sleeper is true, its wake-up is lost. This holds even if a
    deadline or a settling test would go on and mask the loss.
    """
    for task in scheduler.alive:
        if task.asleep and task.predicate is not None and _is_true(scheduler, task):
            fail(
                scheduler,
                FailureKind.LOST_WAKEUP,
                f"{task.name} sleeps, its predicate is true, and no thread will"
                " wake it",
                task,
            )
    if scheduler.settling:
        return [task for task in scheduler.alive if task.obstacle is OTHERS]
    earliest = min((task.deadline for task in scheduler.alive), default=NEVER)
    if earliest == NEVER:
        blame_errors(scheduler)
        names = ", ".join(task.name for task in scheduler.alive)
        fail(scheduler, FailureKind.DEADLOCK, f"no thread can continue: {names}")
    scheduler.go_to(earliest, early=False)
    return [task for task in scheduler.alive if task.deadline <= earliest]


def blame_errors(scheduler: Scheduling) -> None:
    """Fail if an exception escaped from a task and the test has not read it."""
    for task in scheduler.ended_badly:
        error = task.error
        if error is None or task.error_known or error is task.awaited:
            continue
        what = f"{type(error).__name__}: {error}" if str(error) else repr(error)
        fail(
            scheduler, FailureKind.EXCEPTION, f"{task.name} raised {what}", task, error
        )


def _is_true(scheduler: Scheduling, sleeper: Task) -> bool:
    """Evaluate the predicate of a sleeper; meanwhile no lock blocks it."""
    assert sleeper.predicate is not None
    holder, scheduler.holder = scheduler.holder, 0
    scheduler.inspected = sleeper
    flaw = None
    try:
        # In a copy: the sleeper's thread has entered its context and remains in it.
        is_true = bool(sleeper.context.copy().run(sleeper.predicate))
    except BaseException as error:  # noqa: BLE001 # a user's code, it is reported
        flaw = error
    finally:
        scheduler.inspected = None
        scheduler.holder = holder
    if flaw is not None:
        fail(
            scheduler,
            FailureKind.EXCEPTION,
            f"what {sleeper.name} sleeps for cannot be evaluated:"
            f" {type(flaw).__name__}: {flaw}",
            sleeper,
            flaw,
        )
    return is_true
