"""`Verdict`: what others say of something that a process, or a task, wants to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.errors import BusError

__all__ = ["Verdict"]


class Verdict:
    """Settled once, by whoever is first; waited for by one who asked, once.

    settled: whether it is known.
    """

    __slots__ = ("_error", "_first", "_lock", "settled")

    def __init__(self) -> None:
        self.settled: bool = False
        self._error: BusError | None = None
        # Taken by whoever settles it: who waits may give up just then.
        self._first: Final[_thread.LockType] = _sync.Lock()
        self._lock: Final[_thread.LockType] = taken_lock()

    def settle(self, error: BusError | None = None) -> bool:
        """Say that it may be so, or why not; False if that was said before."""
        if not self._first.acquire(False):
            return False
        self._error = error
        self.settled = True
        self._lock.release()
        return True

    def wait(self, deadline: float) -> None:
        """Wait until it is known, or time is up: then it counts as yes.

        Raises:
            BusError: it may not be so.
        """
        if (
            not self.settled
            and not _sync.park(self._lock, lambda: self.settled, deadline)
            and not self.settle()
        ):
            _sync.park(self._lock, lambda: self.settled, None)  # it is just being said
        if self._error is not None:
            raise self._error
