"""`Joining`: what became of a process that looks for the others of its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker import _sync
from queuebroker.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.errors import BusError

__all__ = ["Joining"]


class Joining:
    """Settled once, by the comm thread; waited for by who has opened the bus."""

    __slots__ = ("_error", "_lock", "settled")

    def __init__(self) -> None:
        self.settled: bool = False
        self._error: BusError | None = None
        self._lock: _thread.LockType = taken_lock()

    def settle(self, error: BusError | None = None) -> None:
        """Say that it is among others, or alone for now, or why it never will be."""
        if not self.settled:
            self._error = error
            self.settled = True
            self._lock.release()

    def wait(self, deadline: float) -> None:
        """Wait until that is known, or time is up.

        Raises:
            BusError: it is turned away.
        """
        if not self.settled:
            _sync.park(self._lock, lambda: self.settled, deadline)
        if self._error is not None:
            raise self._error
