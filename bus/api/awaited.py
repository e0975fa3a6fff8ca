"""`AwaitedAnswer`: the wait of one call for its answer.

If the calling thread hosts the asking task, it serves its tasks while it waits.
Otherwise it is parked, and the thread that receives the answer wakes it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.core.local.routing_table import Entry
    from bus.message import Response
    from bus.threads.thread_manager import ThreadManager

__all__ = ["AwaitedAnswer", "AwaitedSignal"]


class AwaitedAnswer:
    """The wait of one caller for its answer.

    Args:
        entry: the asking task.
        host: its thread manager at the time of the call.

    Attributes:
        drives: True if the calling thread hosts the task.
        parker: the lock on which the caller sleeps; None if it serves its tasks.
        response: the response; None until one arrives.
    """

    __slots__ = ("_entry", "_host", "drives", "parker", "response")

    def __init__(self, entry: Entry, host: ThreadManager) -> None:
        self._entry: Final = entry
        self._host: Final = host
        self.drives: Final = host.is_owner()
        self.parker: Final[_thread.LockType | None] = (
            None if self.drives else taken_lock()
        )
        self.response: Response | None = None

    def over(self) -> bool:
        """Return True if the wait is over: answered, or the task has deregistered."""
        return self.response is not None or self._entry.host is None

    def begin(self) -> None:
        """Announce that the caller is about to wait."""
        if self.drives:
            self._host.waits_next = True

    def give_up(self) -> None:
        """Withdraw the announcement of `begin`."""
        if self.drives and self._host.is_owner():
            self._host.return_lease()

    # Called in any thread.

    def on_response(self, response: Response) -> None:
        """Store the response and wake the caller; the callback of the question."""
        self.response = response
        self.wake_up()

    def wake_up(self) -> None:
        """Wake the caller, so that it calls `over` again."""
        if self.parker is not None:
            with suppress(RuntimeError):  # the caller has been woken, but has not run
                self.parker.release()
        elif not self._host.is_owner():  # the task has moved to another thread
            self._host.ask(_nothing)


class AwaitedSignal(AwaitedAnswer):
    """The wait of one caller for a signal without content.

    said: True once the signal was given.
    """

    __slots__ = ("signalled",)

    def __init__(self, entry: Entry, host: ThreadManager) -> None:
        super().__init__(entry, host)
        self.signalled: bool = False

    def over(self) -> bool:
        """Return True if the wait is over: signalled, or the task has deregistered."""
        return self.signalled or super().over()

    def signal(self) -> None:
        """Give the signal and wake the caller; callable in any thread."""
        self.signalled = True
        self.wake_up()


def _nothing() -> None:
    """Do nothing: the request alone makes a thread check its condition again."""
