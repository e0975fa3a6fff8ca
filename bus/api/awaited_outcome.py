"""`AwaitedOutcome`: an outcome for which one caller waits.

If the calling thread hosts the task that gets the outcome, it serves its tasks while it
waits. Otherwise it is parked, and the thread that receives the outcome wakes it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from queuebroker import _sync
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.core.local.routing_table import Entry
    from bus.threads.thread_manager import ThreadManager

__all__ = ["AwaitedOutcome"]

T = TypeVar("T")


class AwaitedOutcome(Generic[T]):
    """An outcome at a task, and the caller that waits for it.

    Args:
        entry: the task.
        host: its thread manager at the time of the call.
        serves: False if the caller sleeps even if its thread hosts the task.

    Attributes:
        in_host_thread: True if the calling thread hosts the task.
        parker: the lock on which the caller sleeps; None if it serves its tasks.
        outcome: the outcome; None until there is one.
    """

    __slots__ = ("_entry", "_host", "in_host_thread", "outcome", "parker")

    def __init__(
        self, entry: Entry, host: ThreadManager, *, serves: bool = True
    ) -> None:
        self._entry: Final = entry
        self._host: Final = host
        self.in_host_thread: Final = host.ident == _sync.get_ident()
        self.parker: Final[_thread.LockType | None] = (
            None if self.in_host_thread and serves else taken_lock()
        )
        self.outcome: T | None = None

    def is_over(self) -> bool:
        """Return True if there is an outcome, or the task has deregistered."""
        return self.outcome is not None or self._entry.host is None

    def wait_until_over(self, deadline: float | None) -> None:
        """Wait until it is over, or until ``deadline``."""
        if self.parker is not None:
            _sync.park(self.parker, self.is_over, deadline)
        else:
            self._host.thread._serve_until(self.is_over, deadline)

    # Called in any thread, without a lock: the outcome is stored before the wake-up,
    # and the caller checks it before each sleep.

    def on_outcome(self, outcome: T) -> None:
        """Store the outcome and wake the caller."""
        self.outcome = outcome
        self.wake()

    def wake(self) -> None:
        """Wake the caller, so that it calls `is_over` again."""
        if self.parker is not None:
            with suppress(RuntimeError):  # the caller has been woken, but has not run
                self.parker.release()
        elif (
            self._host.ident != _sync.get_ident()
        ):  # the task has moved to another thread
            self._host.ask(_nothing)


def _nothing() -> None:
    """Do nothing: the request alone makes a thread check its condition again."""
