"""`LocalSubscriptions`: the subscriptions and watches of the tasks of one process.

They are matched here against the tasks of this process. `RemoteSubscriptions` extends
them to those of other processes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from bus.features.subscriptions.interests import Interests
from bus.features.subscriptions.presence import PresenceReport, RemoteTasks
from bus.kernel.tasks.actions import Action, Settled
from bus.model.message import Presence
from bus.model.registration import Visibility

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.features.subscriptions.interests import Interest
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.model.registration import RegistrationId

__all__ = ["LocalSubscriptions", "subscriptions_of"]


class _Remote(Protocol):
    """The subscriptions and watches across processes; `RemoteSubscriptions`."""

    def on_subscribed(
        self, interest: Interest, settled: Callable[[], object] | None = None
    ) -> list[Action]:
        """Extend a subscription to the tasks of other processes.

        settled: called once all processes have received it.
        """

    def on_watched(self, interest: Interest) -> None:
        """Extend a watch to the tasks of other processes."""

    def on_ended(self, interest: Interest, *, presence: bool) -> None:
        """End a subscription, or a watch, of tasks of other processes."""

    def on_registered(self, task: Entry, now: float) -> list[Action]:
        """Announce a new public task of this process to the subscribers elsewhere."""

    def subscribers_of(self, task: Entry) -> int:
        """Return how many other processes have a subscriber to a task of this one."""


def subscriptions_of(manager: ProcessManager) -> LocalSubscriptions:
    """Return the subscriptions of a process; the caller holds the exchange's lock."""
    found = manager.audiences
    if not isinstance(found, LocalSubscriptions):
        # One assignment: after an interrupt they are there as a whole, or not at all.
        found = manager.audiences = LocalSubscriptions(manager)
    return found


class LocalSubscriptions:
    """The subscriptions and watches of one process, as the audiences of its manager.

    Each call is a decision of the process manager, under the same lock.

    subscriptions, watches: those of the tasks here.
    remote_tasks: the known public tasks of other processes, for the watches.
    remote: extends them to other processes; None while this process is alone.
    """

    __slots__ = (
        "_awaited",
        "_table",
        "here",
        "remote",
        "remote_tasks",
        "subscriptions",
        "watches",
    )

    def __init__(self, manager: ProcessManager) -> None:
        self._table: Final = manager.table
        self.subscriptions: Final[Interests[Any]] = Interests(manager.machine)
        self.watches: Final[Interests[Any]] = Interests(manager.machine)
        # Called for each notification, so without a method in between.
        self.here: Final = self.subscriptions.audience
        self.remote_tasks: Final = RemoteTasks(
            manager.machine, manager.table, self.watches
        )
        self.remote: _Remote | None = None
        # By the function to call: the task that waits, and the number of subscribers.
        self._awaited: Final[dict[Callable[[bool], object], tuple[Entry, int]]] = {}

    # Tasks of this process, and of others; see `Audiences`.

    def on_registered(self, task: Entry, now: float) -> list[Action]:
        task.audience = self.subscriptions.audience(task.name)
        actions: list[Action] = [*self.remote_tasks.on_registered(task.address)]
        if self.remote is not None:
            actions += self.remote.on_registered(task, now)
        return actions

    def on_departure(self, entry: Entry) -> list[Action]:
        for subscription in self.subscriptions.of(entry):
            self.unsubscribe(subscription)
        for watch in self.watches.of(entry):
            self.unwatch(watch)
        actions = self.review_subscribers()
        if entry.visibility is Visibility.PUBLIC and not entry.remote:
            actions += self.remote_tasks.on_departure(entry.address)
        return actions

    def on_disappeared(self, task: RegistrationId) -> list[Action]:
        return [*self.remote_tasks.on_disappeared(task)]

    def of_other_buses(self, bus: str) -> list[Any]:
        return [
            *self.subscriptions.of_other_buses(bus),
            *self.watches.of_other_buses(bus),
        ]

    # Subscriptions and watches.

    def subscribe(
        self, subscription: Interest, settled: Callable[[], object] | None = None
    ) -> list[Action]:
        """Subscribe a task to notifications of present and future tasks (AMO-27).

        settled: called once all processes have received the subscription; at once if
          there are no other processes.
        """
        self.subscriptions.add(subscription)
        self._review_audiences(subscription)
        actions = self.review_subscribers()
        if self.remote is not None:
            actions += self.remote.on_subscribed(subscription, settled)
        elif settled is not None:
            actions.append(Settled(settled))
        return actions

    def await_subscribers(
        self, entry: Entry, count: int, then: Callable[[bool], object]
    ) -> list[Action]:
        """Call a function once a task has ``count`` subscribers (BUS-MSG-19).

        then: called with True then, or with False once the task departs; perhaps
          repeatedly, until `forget_subscribers`.
        """
        self._awaited[then] = entry, count
        return self.review_subscribers()

    def forget_subscribers(self, then: Callable[[bool], object]) -> None:
        """End a wait for subscribers; does nothing if it is over."""
        self._awaited.pop(then, None)

    def review_subscribers(self) -> list[Action]:
        """Report to the waits of the tasks that have departed, or enough subscribers.

        A wait is kept until its caller forgets it: if an interrupt of this decision
        loses the actions, the next one repeats them.
        """
        return [
            Settled(partial(then, entry in self._table))
            for then, (entry, count) in self._awaited.items()
            if entry not in self._table or self._subscribers_of(entry) >= count
        ]

    def _subscribers_of(self, entry: Entry) -> int:
        """Return the number of subscribers of a task.

        Each task of this process counts, and each other process with a subscriber: the
        number of subscribing tasks there is unknown here.
        """
        remote = 0 if self.remote is None else self.remote.subscribers_of(entry)
        return len(entry.audience) + remote

    def unsubscribe(self, subscription: Interest) -> bool:
        """End a subscription; False if it had ended.

        After an interrupt the next call continues.
        """
        known = subscription in self.subscriptions
        if known:
            self.subscriptions.withdraw(subscription)
            self._review_audiences(subscription)
            if self.remote is not None:
                self.remote.on_ended(subscription, presence=False)
            self.subscriptions.forget(subscription)  # last: see the docstring
        return known

    def watch(self, watch: Interest) -> list[Action]:
        """Report to a task the watched tasks that are present, and later changes."""
        self.watches.add(watch)
        named = self.watches.named_by(watch, self._table)
        here = [entry.address for entry in named if not entry.remote]
        here += self.remote_tasks.visible_to(watch)
        if self.remote is not None:
            self.remote.on_watched(watch)
        return [
            PresenceReport(watch._entry, watch, Presence(each, here=True))
            for each in here
        ]

    def unwatch(self, watch: Interest) -> bool:
        """End a watch; False if it had ended.

        After an interrupt the next call continues.
        """
        known = watch in self.watches
        if known:
            self.watches.withdraw(watch)
            self.remote_tasks.on_unwatched(watch)
            if self.remote is not None:
                self.remote.on_ended(watch, presence=True)
            self.watches.forget(watch)  # last: see the docstring
        return known

    def _review_audiences(self, subscription: Interest) -> None:
        for entry in self.subscriptions.named_by(subscription, self._table):
            address = entry.address
            entry.audience = self.subscriptions.audience(
                address.module, address.machine
            )
