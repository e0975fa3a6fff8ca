"""`AwaitedBinding`: the wait until a name of any machine has a task."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from bus.api.awaited_outcome import AwaitedOutcome
from bus.errors import CommandTimeoutError, UnknownTaskError
from bus.threads.binding import Binding
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.address import Address
    from bus.api.bus_thread import BusThread
    from bus.api.task_owner import TaskOwner
    from bus.core.local.routing_table import Entry
    from bus.threads.thread_manager import ThreadManager

__all__ = ["AwaitedBinding"]


class AwaitedBinding(AwaitedOutcome["Address"]):
    """The first task of a name of any machine (BUS-NAME-8).

    Args:
        entry, host: the task of the waiting thread, which hosts it.
        name: the name, as `bus.address.name_anywhere` writes it.
    """

    __slots__ = ("_name",)

    def __init__(self, entry: Entry, host: ThreadManager, name: str) -> None:
        super().__init__(entry, host)
        self._name: Final = name

    def wait(
        self,
        bus: TaskOwner,
        there: TaskOwner,
        timeout: float | None,
        deadline: float | None,
    ) -> Address:
        """Search for the name until it is found, and return the task's address.

        bus: the bus of the waiting task. there: that of the name.

        However the wait ends, no search and no parked message remains.

        Raises:
            CommandTimeoutError: no machine had the name in time.
            UnknownTaskError: the task of this thread deregisters, or a bus is closed
                meanwhile.
        """
        exchange, round_s = there._exchange, there._config.resolve_timeout_s
        thread: BusThread = self._host.thread
        while not self.is_over():
            now = _sync.monotonic()
            if deadline is not None and deadline <= now:
                assert timeout is not None
                raise CommandTimeoutError(
                    self._name, timeout, missing="task found under the name"
                )
            # A parked message expires, so the search is begun anew from time to time.
            until = now + round_s if deadline is None else min(deadline, now + round_s)
            probe = Binding(self.on_outcome).probe(self._entry, self._name, deadline)
            try:
                found = exchange.park(self._name, probe, again=True)
                there._lifetime.check()
                if found is not None:
                    return found.address
                thread._serve_until(
                    lambda: self.is_over() or there._lifetime.closed, until
                )
            finally:
                exchange.decide_remote(partial(exchange.manager.withdraw, probe))
        if self.outcome is None:
            bus._lifetime.check()  # a closed bus is the more precise error
            raise UnknownTaskError(self._entry.name)
        return self.outcome
