"""`AwaitedOutcome`: an outcome for which one caller waits.

If the calling thread hosts the task that gets the outcome, it serves its tasks while it
waits. Otherwise it is parked, and the thread that receives the outcome wakes it.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from bus.kernel.tasks.routing_table import Entry
from bus.process.thread_manager import ThreadManager
from queuebroker import _sync
from queuebroker.waiting.parking import Parker, taken_lock

__all__ = ["Awaited", "AwaitedOutcome"]

T = TypeVar("T")


class Awaited(Generic[T]):
    """An outcome at a task, and the caller that waits for it; a base class.

    A subclass has these attributes:
        entry: the task.
        host: the thread manager whose tasks the caller serves while it waits; None if
            it sleeps.
        parker: the parker on which the caller sleeps; None if it serves its tasks.
        outcome: the outcome; None until there is one.
    """

    __slots__ = ()

    entry: Entry
    host: ThreadManager | None
    parker: Any
    outcome: T | None

    def is_over(self) -> bool:
        """Return True if there is an outcome, or the task has deregistered."""
        return self.outcome is not None or self.entry.host is None

    # Called in any thread, without a lock: the outcome is stored before the wake-up,
    # and the caller checks it before each sleep.

    def on_outcome(self, outcome: T) -> None:
        """Store the outcome and wake the caller."""
        self.outcome = outcome  # type: ignore[misc]  # a slot of the subclass
        self.wake()

    def wake(self) -> None:
        """Wake the caller, so that it calls `is_over` again."""
        if self.parker is not None:
            try:  # noqa: SIM105 # `suppress` costs three calls for each answer
                self.parker.release()
            except RuntimeError:
                pass  # the caller has been woken, but has not run
        elif (
            self.host is not None and self.host.ident != _sync.get_ident()
        ):  # the task has moved to another thread
            self.host.ask(_nothing)


def _nothing() -> None:
    """Do nothing: the request alone makes a thread check its condition again."""


class AwaitedOutcome(Awaited[T]):
    """An outcome that is no answer; see `Awaited`.

    Args:
        entry: the task.
        host: its thread manager at the time of the call.
        serves: False if the caller sleeps even if its thread hosts the task.
        parker: the parker of a coroutine, which sleeps on it (`wait_until_over` is for
          threads).
    """

    __slots__ = ("entry", "host", "outcome", "parker")

    def __init__(
        self,
        entry: Entry,
        host: ThreadManager,
        *,
        serves: bool = True,
        parker: Parker | None = None,
    ) -> None:
        serves = serves and parker is None and host.is_owner()
        self.entry = entry
        self.host = host if serves else None
        self.parker = parker or (None if serves else taken_lock())
        self.outcome = None

    def wait_until_over(self, deadline: float | None) -> None:
        """Wait until it is over, or until ``deadline``."""
        if self.parker is not None:
            _sync.park(self.parker, self.is_over, deadline)
        else:
            assert self.host is not None
            self.host.thread._serve_until(self.is_over, deadline)
