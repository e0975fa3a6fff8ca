"""`why_unanswered`, `why_unread`: why an answer is missing, as seen in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _sync

if TYPE_CHECKING:
    from bus.core.local.routing_table import Entry
    from bus.threads.thread_manager import ThreadManager

__all__ = ["why_unanswered", "why_unread"]

_BUSY_S: Final = 0.05  # a callback that has run for less is not worth a mention


def why_unanswered(entry: Entry | None) -> str:
    """Return the reason why a task of this process does not answer, and the remedy.

    Return an empty string if the task is in another process, or no reason is visible.
    Any thread may call this; it takes no lock.
    """
    host: ThreadManager | None = None if entry is None else entry.host
    if entry is None or entry.remote or host is None:
        return ""
    scheduler, name = host.scheduler, host.name
    running, since = scheduler.running, scheduler.since
    if running is not None and since is not None:
        for_s = _sync.monotonic() - since
        if for_s >= _BUSY_S:
            return (
                f"its thread {name!r} has been in a callback of task"
                f" {running.name!r} for {for_s:.1f} s; register it with another"
                " thread=bus.thread(), or shorten that callback"
            )
    if not host.driving.locked():
        return (
            f"its thread {name!r} is not being served; call run() or poll() there,"
            " or register it with thread=bus.thread()"
        )
    if not entry.mailbox.client.has_callback:
        return "it has no callback; register it with on_command="
    return ""


def why_unread(asker: Entry) -> str:
    """Return why a task cannot read its answer, and the remedy; empty if it can."""
    host: ThreadManager | None = asker.host
    if host is None or host.driving.locked():
        return ""
    return (
        f"an answer to task {asker.name!r} is read in its thread {host.name!r}, which"
        " is not being served; call run() or poll() there, or register the task with"
        " thread=bus.thread()"
    )
