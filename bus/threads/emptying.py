"""`Emptying`: the removal of a deregistered task from its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.message import Incoming
from bus.threads.delivery import Answer
from bus.threads.mailbox import Mailbox
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.core.local.actions import Action
    from bus.core.local.process_manager import ProcessManager
    from bus.core.local.routing_table import Entry
    from bus.core.local.trace import TraceSink
    from bus.threads.thread_manager import ThreadManager

__all__ = ["Emptying"]


class Emptying:
    """The emptying of a mailbox, in the thread that hosts the task, and its report.

    Args:
        entry: the entry of the task, which is no longer found.
        final: as in `Task.deregister`.
    """

    __slots__ = ("_entry", "_final", "_now", "_unread")

    def __init__(self, entry: Entry, *, final: bool) -> None:
        self._entry: Final = entry
        self._final: Final = final
        self._unread: Final = _take_unread(entry)
        self._now: Final = _sync.monotonic()

    def report(
        self, manager: ProcessManager, trace_sink: TraceSink | None
    ) -> list[Action]:
        """Report the unread messages to the manager; return the actions that follow."""
        entry = self._entry
        actions = manager.on_emptied(entry, self._unread, self._now, final=self._final)
        if trace_sink is not None:
            trace_sink.on_deregistered(entry.id.number)
        return actions


def _take_unread(entry: Entry) -> list[Incoming]:
    """Remove a task from its host; return its unread messages, in order."""
    host: ThreadManager = entry.host
    client = entry.mailbox.client
    unread = []
    for item in [*client.take_unclaimed(), *host.remove(entry, None, Mailbox(client))]:
        if type(item) is Incoming and item._account.extract(item, host.inbox.lock):
            item._account.returned += 1
            item.gap = 0  # the gap concerned this receiver alone
            unread.append(item)
        elif type(item) is Answer:
            client.on_unread_answer(item)
    host.inbox.wake_senders()
    return unread
