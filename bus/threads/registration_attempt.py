"""`RegistrationAttempt`: a registration that an interrupt may cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.errors import UnknownTaskError
from bus.threads.mailbox import Mailbox
from queuebroker import _sync

if TYPE_CHECKING:
    from collections import deque

    from bus.core.local.actions import Action
    from bus.core.local.process_manager import ProcessManager
    from bus.core.local.routing_table import Entry
    from bus.core.local.trace import TraceSink
    from bus.registration import Visibility
    from bus.threads.mailbox import Client
    from bus.threads.thread_manager import ThreadManager

__all__ = ["RegistrationAttempt"]


class RegistrationAttempt:
    """The attempt to register a task in a thread, and its undoing.

    If an interrupt ends the attempt, its caller gets no task that it could deregister.
    So the name must be free again.

    Args:
        manager, todo: the process manager, and the queue of the actions it decides on.
        trace_sink: as in `Exchange`.
        host, client: the thread, and the task.
    """

    __slots__ = (
        "_client",
        "_host",
        "_mailbox",
        "_manager",
        "_queued",
        "_todo",
        "_trace_sink",
    )

    def __init__(
        self,
        manager: ProcessManager,
        todo: deque[Action],
        trace_sink: TraceSink | None,
        host: ThreadManager,
        client: Client,
    ) -> None:
        self._manager: Final = manager
        self._todo = todo
        self._trace_sink: Final = trace_sink
        self._host: Final = host
        self._client: Final = client
        self._mailbox: Final = Mailbox(client)
        # True once the actions of the registration are queued.
        self._queued: bool = False

    def announce(self) -> None:
        """Announce the task to its thread, which then does not end.

        Raises:
            UnknownTaskError: the thread has ended.
        """
        host = self._host
        if not host.expect(self._mailbox):
            raise UnknownTaskError("", f"thread {host.name!r} is stopped")

    def withdraw(self) -> None:
        """Withdraw the announcement of a task that is not registered."""
        self._host.cancel_expect(self._mailbox)

    # Called under the lock of the exchange.

    def register(self, name: str, visibility: Visibility, bus: str) -> Entry:
        """Register the task, and queue the actions that follow.

        Raises:
            NameTakenError: see `ProcessManager.register`.
        """
        manager, client = self._manager, self._client
        entry, actions = manager.register(
            *(name, visibility, bus, self._host, self._mailbox, _sync.monotonic()),
            client.account.overflow,
        )
        if manager.awaits_verdict(entry):
            client.await_verdict()  # under the lock: before the master answers
        if self._trace_sink is not None:
            self._trace_sink.on_registered(entry.id.number, name)
        # No call between these lines: an interrupt comes before all or after all.
        self._todo += actions
        manager.parked.removals = None
        self._queued = True
        return entry

    def find(self) -> Entry | None:
        """Return the entry of the task; None if the interrupt preceded it."""
        table, mailbox = self._manager.table, self._mailbox
        return next((each for each in table if each.mailbox is mailbox), None)

    def undo(self, entry: Entry) -> list[Action]:
        """Remove the entry of the task from the table."""
        if self._queued:
            return self._manager.leave(entry)
        return self._manager.undo(entry, _sync.monotonic())
