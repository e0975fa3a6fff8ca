"""`Subscription` and `Watch`: the interests of a task in other tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bus.api.reentry import guarded
from bus.api.run_callback import run_callback
from bus.core.local.local_subscriptions import subscriptions_of
from bus.core.local.remote_tasks import PresenceReport
from bus.core.local.routing_table import Entry
from bus.message import Incoming, Presence
from bus.specification import Specification
from bus.threads.account import Account, Admission
from bus.threads.exchange import Exchange
from bus.threads.mailbox import Client
from queuebroker.closable import Uncopyable

__all__ = ["Subscription", "Watch"]


class Subscription(Uncopyable):
    """A subscription to the notifications of other tasks (BUS-MSG-5, AMO-26).

    specification: the name or pattern of the notifiers, present and future.
    reference: the ``ref`` that the subscriber passed along with its callback.
    active: False once the subscription is cancelled: by `cancel`, by the policy
      ``disconnect``, or because its task deregistered.
    """

    __slots__ = (
        "_account",
        "_callback",
        "_entry",
        "_exchange",
        "_then",
        "active",
        "reference",
        "specification",
    )

    def __init__(
        self,
        exchange: Exchange,
        entry: Entry,
        specification: Specification,
        callback: Callable[[Incoming], object],
        reference: Any,
        account: Account,
    ) -> None:
        self._exchange: Final = exchange
        self._callback: Final = callback
        self._account: Final = account
        self._entry: Final = entry
        self.specification: Final = specification
        self.reference: Final = reference
        self.active: bool = True
        # Called on cancellation.
        self._then: Callable[[], object] | None = None

    def __repr__(self) -> str:
        state = "" if self.active else " cancelled"
        return f"<Subscription of {self._entry.name!r} to {self.specification}{state}>"

    @property
    def dropped(self) -> int:
        """The number of notifications dropped for lack of room.

        Drops in this process count at once. Drops in the notifier's process, or in
        transit, count once the ``gap`` of a later notification reports them.
        """
        account = self._account
        return account.dropped + account.refused + account.missed

    @guarded("cancel a subscription")
    def cancel(self) -> None:
        """Unsubscribe and discard the unread notifications; idempotent."""
        self.active = False
        host = self._entry.host
        if host is not None and host.scheduler.running and not host.inbox.items:
            host.ask(_nothing)  # work, for which the thread stops reading a run
        _interests_of(self._entry).pop(self, None)
        manager = self._exchange.manager
        self._exchange.decide_remote(
            lambda: subscriptions_of(manager).unsubscribe(self)
        )
        if self._then is not None:
            self._then()

    def _start(self, settled: Callable[[], object] | None = None) -> None:
        """Subscribe; cancel at once if the task deregisters meanwhile.

        settled: called once all processes have the subscription.
        """
        _interests_of(self._entry)[self] = None
        exchange = self._exchange
        manager = exchange.manager
        exchange.decide(lambda: subscriptions_of(manager).subscribe(self, settled))
        if self._entry.host is None:
            self.cancel()


class Watch(Uncopyable):
    """A watch, which reports when other tasks register and deregister.

    specification: the name or pattern of the watched tasks.
    reference: the ``ref`` that the watcher passed along with its callback.
    active: False once the watch is cancelled, or its task has deregistered.
    """

    __slots__ = (
        "_callback",
        "_entry",
        "_exchange",
        "active",
        "reference",
        "specification",
    )

    def __init__(
        self,
        exchange: Exchange,
        entry: Entry,
        specification: Specification,
        callback: Callable[[Presence], object],
        reference: Any,
    ) -> None:
        self._exchange: Final = exchange
        self._callback: Final = callback
        self._entry: Final = entry
        self.specification: Final = specification
        self.reference: Final = reference
        self.active: bool = True

    def __repr__(self) -> str:
        state = "" if self.active else " cancelled"
        return f"<Watch of {self._entry.name!r} on {self.specification}{state}>"

    @guarded("cancel a watch")
    def cancel(self) -> None:
        """End the watch; idempotent."""
        self.active = False
        _interests_of(self._entry).pop(self, None)
        manager = self._exchange.manager
        self._exchange.decide_remote(lambda: subscriptions_of(manager).unwatch(self))

    def _start(self) -> None:
        """Begin the watch; cancel at once if the task deregisters meanwhile."""
        _interests_of(self._entry)[self] = None
        self._exchange.performers[PresenceReport] = _post
        manager = self._exchange.manager
        self._exchange.decide(lambda: subscriptions_of(manager).watch(self))
        if self._entry.host is None:
            self.cancel()

    def _on_presence(self, seen: Presence, receiver: Client) -> None:
        """Call the callback, in the thread that hosts the task."""
        if self.active:
            news = Presence(seen.address, seen.here, self.reference)
            run_callback(self._callback, news, receiver)


def _post(report: PresenceReport, *_: object) -> None:
    """Put a report into the mailbox of its task, at the present host."""
    while (host := report._to.host) is not None:
        admission: Admission = host.post(report)
        if admission is not Admission.GONE:
            return


def _interests_of(entry: Entry) -> dict[Subscription | Watch, None]:
    # The client is the receiver of the task.
    interests: dict[Subscription | Watch, None] = entry.mailbox.client.interests
    return interests


def _nothing() -> None:
    return None
