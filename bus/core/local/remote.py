"""The interfaces of a process manager to what lies above it.

`Remote` stands for the other processes of its bus; the `TaskAnnouncer` implements it.
The manager of a process that is alone on its bus has none. `AnyMachine` is a slot that
a feature fills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.core.local.actions import Action
    from bus.core.local.interests import Interest
    from bus.core.local.routing_table import Entry

__all__ = ["AnyMachine", "Remote"]


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


class AnyMachine:
    """The slot for names whose machine is ``*``; this null object knows no such name.

    `bus.core.remote.any_machine.AnyMachineNames` fills it.

    collector: the class of the `AnswerCollector` to use; None for that one.
    """

    __slots__ = ()

    collector: ClassVar[type[Any] | None] = None

    def find(self, name: str) -> Entry | None:
        """Return the task of this machine that receives a new message for a name."""

    def is_binding(self, _name: str) -> bool:
        """Return True while the messages parked for a name are sent to its task."""
        return False

    def on_registered(self, _entry: Entry) -> Sequence[Action]:
        """Handle a new public task of this process."""
        return ()

    def on_found(self, _name: str, _entry: Entry) -> Sequence[Action]:
        """Handle the task that answers the search for a name."""
        return ()

    def restore(self) -> None:
        """Forget the actions that an interrupt has lost, before the messages return."""
