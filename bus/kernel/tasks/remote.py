"""The interfaces of a process manager to the layers above it.

`Remote` stands for the other processes of its bus; the `TaskAnnouncer` implements it.
The manager of a process that is alone on its bus has none. `Audiences` and `AnyMachine`
are slots that features fill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Audience, Entry
    from bus.model.registration import RegistrationId

__all__ = ["AnyMachine", "Audiences", "NoAudiences", "Remote"]


class Remote(Protocol):
    """The decisions about other processes that follow from decisions about own tasks.

    The process manager makes these calls, under the lock that guards both.
    """

    @property
    def todo(self) -> list[Action]:
        """The actions of a decision so far; they are replaced when they are taken."""

    def put_back(self, todo: list[Action], left: Iterable[Action]) -> None:
        """Put the first actions of ``todo`` back, if it was taken, and lost."""

    def restore(self) -> None:
        """Continue a decision that an interrupt has ended, as far as it must be."""

    def claim(self, name: str) -> list[Action]:
        """Claim a name for a task of this process; supersede a relay that holds it.

        After an interrupt, `restore` continues.

        Raises:
            NameTakenError: another process holds the name.
        """

    def awaits_verdict(self, entry: Entry) -> bool:
        """Return True if the verdict on the name of a task will come soon (OPEN-3)."""

    def on_named(self, entry: Entry) -> None:
        """End the search for a name that is now found."""

    def on_registered(self, task: Entry, now: float) -> list[Action]:
        """Announce a new public task of this process to the processes concerned."""

    def on_departure(self, task: Entry, *, final: bool) -> None:
        """Announce that a task of this process can no longer be found.

        After an interrupt the call is repeated.
        """

    def on_emptied(self, entry: Entry, now: float, *, final: bool) -> list[Action]:
        """Announce the last message that a departed task took; search for its name."""

    def end_proxy(self, task: Entry, now: float) -> list[Action]:
        """Announce that a task of another bus has departed from that bus."""

    def seek(self, name: str, now: float) -> None:
        """Search for a name that parked messages wait for."""

    def end_search(self, name: str) -> None:
        """End the search for a name that no message waits for any more."""


class Audiences(Protocol):
    """The tasks of this process that receive notifications and news of other tasks.

    The caller holds the exchange's lock.
    """

    def here(self, name: str, machine: str | None) -> tuple[Audience, ...]:
        """Return the tasks here that subscribe to a public task, each once (AMO-28)."""

    def on_registered(self, task: Entry, now: float) -> list[Action]:
        """Give a new public task of this process its audience, and report it."""

    def on_departure(self, entry: Entry) -> list[Action]:
        """End what a task wants of others that can no longer be found; report it.

        After an interrupt the call is repeated.
        """

    def on_disappeared(self, task: RegistrationId) -> list[Action]:
        """Report that a task of another process has deregistered."""

    def of_other_buses(self, bus: str) -> list[Any]:
        """Return the subscriptions and watches of tasks that are not of this bus."""


class NoAudiences:
    """The audiences of a process without any subscription or watch."""

    def here(self, _name: str, _machine: str | None) -> tuple[Audience, ...]:
        return ()

    def on_registered(self, _task: Entry, _now: float) -> list[Action]:
        return []

    def on_departure(self, _entry: Entry) -> list[Action]:
        return []

    def on_disappeared(self, _task: RegistrationId) -> list[Action]:
        return []

    def of_other_buses(self, _bus: str) -> list[Any]:
        return []


class AnyMachine:
    """The slot for names whose machine is ``*``; this null object knows no such name.

    `bus.features.machines.any_machine.AnyMachineNames` fills it.

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
