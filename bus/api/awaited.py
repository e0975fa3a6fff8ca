"""`AwaitedAnswer`: the answer that one call waits for.

The caller may be the thread that hosts the asking task, and serves its tasks meanwhile;
else it is parked, and whoever gets the answer rouses it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from queuebroker.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.core.routing_table import Entry
    from bus.message import Response
    from bus.threads.thread_manager import ThreadManager

__all__ = ["AwaitedAnswer", "AwaitedWord"]


class AwaitedAnswer:
    """What one caller waits for.

    Args:
        entry: the task that asks.
        place: where that was when it did.

    Attributes:
        drives: whether the caller is the thread of the task.
        parker: what it sleeps on; None if it serves its tasks.
        response: what came; None as long as nothing has.
    """

    __slots__ = ("_entry", "_place", "drives", "parker", "response")

    def __init__(self, entry: Entry, place: ThreadManager) -> None:
        self._entry: Final = entry
        self._place: Final = place
        self.drives: Final = place.owned()
        self.parker: Final[_thread.LockType | None] = (
            None if self.drives else taken_lock()
        )
        self.response: Response | None = None

    def over(self) -> bool:
        """Whether nothing is to be waited for any more."""
        return self.response is not None or self._entry.place is None

    def begin(self) -> None:
        """Note that the caller is about to wait."""
        if self.drives:
            self._place.waits_next = True

    def give_up(self) -> None:
        """Note that it is not, after all."""
        if self.drives and self._place.owned():
            self._place.leave_way()

    # In any thread.

    def heard(self, response: Response) -> None:
        """Note what came; the callback of the question."""
        self.response = response
        self.rouse()

    def rouse(self) -> None:
        """Let the caller look whether it is over."""
        if self.parker is not None:
            with suppress(RuntimeError):  # roused before, and not awake yet
                self.parker.release()
        elif not self._place.owned():  # the task has moved away from who waits
            self._place.ask(_nothing)


class AwaitedWord(AwaitedAnswer):
    """A signal without content.

    said: whether it was given.
    """

    __slots__ = ("said",)

    def __init__(self, entry: Entry, place: ThreadManager) -> None:
        super().__init__(entry, place)
        self.said: bool = False

    def over(self) -> bool:
        """Whether the wait is over."""
        return self.said or super().over()

    def say(self) -> None:
        """Give the signal; callable in any thread."""
        self.said = True
        self.rouse()


def _nothing() -> None:
    """Be what a thread is asked to do that shall only look once more."""
