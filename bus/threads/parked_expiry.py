"""`ParkedExpiry`: the timer that expires parked messages (BUS-ROUTE-19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from bus.core.local.actions import Action
    from bus.core.local.process_manager import ProcessManager
    from bus.threads.thread_manager import ThreadManager

__all__ = ["ParkedExpiry"]


class ParkedExpiry:
    """The timer of one process for its parked messages, set in one of its threads.

    Lock: the exchange's lock guards ``_check_at``, with the manager.

    Args:
        decide: `Exchange.decide`.
    """

    __slots__ = ("_armed", "_check_at", "_decide", "_lock", "_manager")

    def __init__(
        self,
        manager: ProcessManager,
        lock: _thread.LockType,
        decide: Callable[[Callable[[], list[Action]]], None],
    ) -> None:
        self._manager: Final = manager
        self._lock: Final = lock
        self._decide: Final = decide
        # The time of the next check of the parked list, if a timer is set.
        self._check_at: float | None = None
        # The timers that are set refer to this list, which `release` empties.
        self._armed: list[ParkedExpiry] = [self]

    def schedule(self, host: ThreadManager, *, anew: bool = False) -> None:
        """Set the timer in a thread, unless it is set early enough.

        anew: True if the thread that had the timer has ended.
        """

        with self._lock:
            deadline = self._manager.parked.next_deadline()
            reminded = None if anew else self._check_at
            if deadline is None or (reminded is not None and reminded <= deadline):
                return
            self._check_at = deadline
            armed = self._armed

        def look() -> None:
            for each in armed:
                each._look(host)

        host.set_timer(deadline, look)

    def release(self) -> None:
        """Disarm the timers that are set, since the bus is closed.

        The thread that has one may be another bus's, and need not ever serve again: its
        timer would keep the closed bus in memory.
        """
        with self._lock:
            armed, self._armed = self._armed, [self]
            self._check_at = None
        armed.clear()

    def _look(self, host: ThreadManager) -> None:
        now = _sync.monotonic()
        with self._lock:
            self._check_at = None
        self._decide(lambda: self._manager.expire(now))
        self.schedule(host)
