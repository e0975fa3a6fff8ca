"""`AwaitedSubscribers`: the wait of a notifier until it has subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.api.awaited_outcome import AwaitedOutcome
from bus.errors import UnknownTaskError
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.task_owner import TaskOwner

__all__ = ["AwaitedSubscribers"]


class AwaitedSubscribers(AwaitedOutcome[bool]):
    """The subscribers of a task (BUS-MSG-19): True once there are enough.

    The outcome is False if the task deregisters first.
    """

    __slots__ = ()

    def wait(self, bus: TaskOwner, count: int, deadline: float | None) -> bool:
        """Wait until the task has ``count`` subscribers; return False if time is up.

        bus: the bus of the task.

        Raises:
            UnknownTaskError: the task deregisters, or its bus is closed meanwhile.
        """
        exchange, told = bus._exchange, self.on_outcome
        manager, entry = exchange.manager, self._entry
        try:
            exchange.decide(lambda: manager.await_subscribers(entry, count, told))
            if self.parker is None:
                thread = bus._threads.of(entry, self._host)
                thread._serve_until(self.is_over, deadline)
            else:
                _sync.park(self.parker, self.is_over, deadline)
        finally:
            exchange.decide_remote(lambda: manager.forget_subscribers(told))
        if self.outcome:
            return True
        bus._lifetime.check()  # a closed bus is the more precise error
        if self.is_over():
            raise UnknownTaskError(entry.name)
        return False
