"""`Remote`: the interface of a process manager to the other processes of its bus.

`bus.core.remote.task_announcer.TaskAnnouncer` implements it. The manager of a process
that is alone on its bus has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.local.actions import Action
    from bus.core.local.interests import Interest
    from bus.core.local.routing_table import Entry

__all__ = ["Remote"]


class Remote(Protocol):
    """The decisions about other processes that follow from decisions about own tasks.

    The process manager makes these calls, under the lock that guards both.
    """

    def claim(self, name: str) -> list[Action]:
        """Claim a name for a task of this process; supersede a relay that holds it.

        Raises:
            NameTakenError: another process holds the name.
        """

    def awaits_verdict(self, entry: Entry) -> bool:
        """Return True if the verdict on the name of a task will come soon (OPEN-3)."""

    def on_named(self, entry: Entry) -> None:
        """End the search for a name that is now found."""

    def on_registered(self, task: Entry, now: float) -> list[Action]:
        """Announce a new public task of this process to the processes concerned."""

    def on_departure(self, task: Entry, *, final: bool) -> list[Action]:
        """Announce that a task of this process can no longer be found."""

    def on_emptied(self, entry: Entry, now: float, *, final: bool) -> list[Action]:
        """Announce the last message that a departed task took; search for its name."""

    def end_proxy(self, task: Entry, now: float) -> list[Action]:
        """Announce that a task of another bus has departed from that bus."""

    def seek(self, name: str, now: float) -> None:
        """Search for a name that parked messages wait for."""

    def end_search(self, name: str) -> None:
        """End the search for a name that no message waits for any more."""

    def on_subscribed(
        self, interest: Interest, settled: Callable[[], object] | None = None
    ) -> list[Action]:
        """Extend a subscription to the tasks of other processes.

        settled: called once all processes have received it.
        """

    def subscribers_of(self, entry: Entry) -> int:
        """Return how many other processes have a subscriber to a task of this one."""

    def on_unsubscribed(self, interest: Interest) -> None:
        """End a subscription to the tasks of other processes."""

    def on_watched(self, interest: Interest) -> None:
        """Extend a watch to the tasks of other processes."""

    def on_unwatched(self, interest: Interest) -> None:
        """End a watch of the tasks of other processes."""
