"""`ParkedExpiry`: the timer that expires parked messages (BUS-ROUTE-19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections import deque
    from collections.abc import Callable

    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.process.thread_manager import ThreadManager

__all__ = ["ParkedExpiry"]

# Messages whose deadlines are so close, in seconds, expire together: a decision for
# each would wake two threads.
_TOGETHER_S: Final = 0.005


class ParkedExpiry:
    """The timer of one process for its parked messages, set in one of its threads.

    Lock: the exchange's lock guards ``_check_at``, ``_host``, ``_armed`` and
    ``_closed_bus``, with the manager.

    Args:
        todo: the actions that the exchange has yet to execute.
        decide: `Exchange.decide`.
    """

    __slots__ = (
        "_armed",
        "_check_at",
        "_closed_bus",
        "_decide",
        "_host",
        "_lock",
        "_manager",
        "_todo",
    )

    def __init__(
        self,
        manager: ProcessManager,
        lock: _thread.LockType,
        todo: deque[Action],
        decide: Callable[[Callable[[], list[Action]]], None],
    ) -> None:
        self._manager: Final = manager
        self._lock: Final = lock
        self._todo: Final = todo
        self._decide: Final = decide
        # The time of the next check of the parked list, if a timer is set.
        self._check_at: float | None = None
        # The thread in which that timer is set.
        self._host: ThreadManager | None = None
        # The name of the bus, once it is closed.
        self._closed_bus: str | None = None
        # The timers that are set refer to this list, which `close` empties.
        self._armed: Final[list[ParkedExpiry]] = [self]

    def schedule(self, host: ThreadManager, not_before: float = 0.0) -> None:
        """Set the timer in a thread, unless one is set early enough that still runs.

        If the bus is closed, no timer is set: the messages fail at once.

        not_before: the earliest time of the next check.
        """
        try:
            self._schedule(host, not_before)
        except BaseException:
            with self._lock:  # after an interrupt, the next call sets the timer
                self._check_at = self._host = None
            raise

    def _schedule(self, host: ThreadManager, not_before: float) -> None:
        with self._lock:
            closed = self._closed_bus is not None
            deadline = self._manager.parked.next_deadline()
            reminded = self._check_at
            if self._host is not None and self._host.ended:
                reminded = None  # that thread took its timer along
            if deadline is None or (reminded is not None and reminded <= deadline):
                return
            deadline = max(deadline, not_before)
            if not closed:
                self._check_at, self._host = deadline, host
            armed = self._armed
        if closed:
            self._fail_those_of_others()
            return

        def look() -> None:
            for each in armed:
                each._look(host, deadline)

        host.set_timer(deadline, look)

    def on_thread_ended(self, heir: ThreadManager | None) -> None:
        """Set the timer anew if the thread that had it has ended.

        heir: the thread that gets the timer; None if no thread is left. Then the next
          message that is parked sets it.
        """
        with self._lock:
            if self._host is None or not self._host.ended:
                return
            self._check_at = self._host = None
        if heir is not None:
            self.schedule(heir)

    def close(self, bus: str) -> None:
        """Disarm the timers, and fail the messages that tasks of other buses parked.

        From now on such messages fail as they are parked (BUS-DEREG-12). The thread
        that has a timer may be another bus's, and need not ever serve again: its timer
        would keep the closed bus in memory.

        bus: the name of the bus, which is closed.
        """
        with self._lock:
            self._closed_bus = bus
            self._check_at = self._host = None
        self._armed.clear()
        self._fail_those_of_others()

    def _fail_those_of_others(self) -> None:
        bus, now = self._closed_bus, _sync.monotonic()
        assert bus is not None

        def fail() -> list[Action]:
            self._manager.fail_those_of_others(bus, now, self._todo)
            return []

        self._decide(fail)

    def _look(self, host: ThreadManager, at: float) -> None:
        """Expire messages, and set the next timer; ``at``: the time of this one."""
        now = _sync.monotonic()
        with self._lock:
            if self._check_at is not None and self._check_at > at:
                return  # an earlier timer was set since, and set the next one
            # An earlier one that is overdue is in a thread that is in a callback.
            self._check_at = self._host = None

        def expire() -> list[Action]:
            self._manager.expire(now, self._todo)
            return []

        # Also if nothing is due: after an interrupt, this executes the pending actions.
        self._decide(expire)
        self.schedule(host, now + _TOGETHER_S)
