"""The thread that hosts a task: calls in it, and moves to another thread.

A task may move, or deregister, at any time. So each call looks up the host again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.threads.mailbox import Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.local.routing_table import Entry
    from bus.core.local.trace import TraceSink
    from bus.threads.thread_manager import ThreadManager

__all__ = ["call_in_host_thread", "move"]


def call_in_host_thread(entry: Entry, act: Callable[[], None]) -> None:
    """Call ``act`` in the thread that hosts a task, between two callbacks.

    If the calling thread hosts the task and is between two callbacks, it calls
    ``act`` at once. A thread that waits on the fast path does not: there it may
    execute actions of its whole process. The call never precedes the opening of the
    mailbox.
    """

    def here() -> None:
        host = entry.host
        if host is None:
            return
        if not host.is_owner():
            host.ask(here)  # the task has moved since
        elif entry.mailbox.held:
            entry.mailbox.deferred.append(here)
        else:
            act()

    host = entry.host
    if host is None:
        return
    if host.between_callbacks():
        here()
    else:
        host.ask(here)


def move(entry: Entry, to: ThreadManager, trace_sink: TraceSink | None = None) -> None:
    """Move a task to another thread, after the current callback (BUS-MOVE-2).

    Its unread items move along. If that thread has ended, the task stays.
    """

    def go() -> None:
        if entry.host is not None and entry.host is not to:
            _hand_over(entry, to)
            if trace_sink is not None and entry.host is to:
                trace_sink.on_moved(entry.id.number)

    call_in_host_thread(entry, go)


def _hand_over(entry: Entry, to: ThreadManager) -> None:
    host: ThreadManager = entry.host
    new = Mailbox(entry.mailbox.client)
    unread: list[Any] = []

    def opens() -> None:
        if new.held:
            to.open(entry, unread)

    try:
        if to.expect(new):
            unread.extend(host.remove(entry, to, new))
            to.ask(opens)
    except BaseException:
        # An interrupt: the other thread must not wait for a task that never comes.
        if entry.host is to:
            to.ask(opens)
        else:
            to.cancel_expect(new)
        raise
