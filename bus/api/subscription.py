"""`Subscription` and `Watch`: what a task asked to hear of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.api.reentry import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.api.receiver import Receiver
    from bus.core.routing_table import Entry
    from bus.message import Incoming, Presence
    from bus.specification import Specification
    from bus.threads.account import Account
    from bus.threads.exchange import Exchange

__all__ = ["Subscription", "Watch"]


class Subscription:
    """A task hears what others notify, until this is cancelled (BUS-MSG-5, AMO-26).

    specification: whom it hears: a name, or a pattern, of tasks present and future.
    reference: what the task gave along with its callback.
    active: False once it is cancelled, by its author, by the policy ``disconnect``, or
      because its task left.
    """

    __slots__ = (
        "_account",
        "_callback",
        "_exchange",
        "active",
        "entry",
        "reference",
        "specification",
        "then",
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
        self.entry: Final = entry
        self.specification: Final = specification
        self.reference: Final = reference
        self.active: bool = True
        # What else is to be done once it is cancelled.
        self.then: Callable[[], object] | None = None

    def __repr__(self) -> str:
        state = "" if self.active else " cancelled"
        return f"<Subscription of {self.entry.name!r} to {self.specification}{state}>"

    @property
    def dropped(self) -> int:
        """How many notifications were dropped for lack of room.

        Drops in this process count at once. Drops in the notifier's process, or on the
        way, count once a later notification has reported them by its ``gap``.
        """
        account = self._account
        return account.dropped + account.turned_away + account.missed

    @guarded("cancel a subscription")
    def cancel(self) -> None:
        """Hear no more, not even what is unread; harmless if it was cancelled."""
        self.active = False
        self._interests().pop(self, None)
        self._exchange.tell(lambda: self._exchange.manager.unsubscribe(self))
        if self.then is not None:
            self.then()

    def _start(self) -> None:
        """Hear from now on; for a task that leaves meanwhile it ends at once."""
        self._interests()[self] = None
        self._exchange.tell(lambda: self._exchange.manager.subscribe(self))
        if self.entry.place is None:
            self.cancel()

    def _interests(self) -> dict[Subscription | Watch, None]:
        receiver: Receiver = self.entry.box.client
        return receiver.interests


class Watch:
    """A task is told when others appear and go, until this is cancelled.

    specification: whom it watches: a name, or a pattern.
    reference: what the task gave along with its callback.
    active: False once it is cancelled, or its task has left.
    """

    __slots__ = (
        "_callback",
        "_exchange",
        "active",
        "entry",
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
        self.entry: Final = entry
        self.specification: Final = specification
        self.reference: Final = reference
        self.active: bool = True

    def __repr__(self) -> str:
        state = "" if self.active else " cancelled"
        return f"<Watch of {self.entry.name!r} on {self.specification}{state}>"

    @guarded("cancel a watch")
    def cancel(self) -> None:
        """Be told no more; harmless if it was cancelled."""
        self.active = False
        self._interests().pop(self, None)
        self._exchange.tell(lambda: self._exchange.manager.unwatch(self))

    def _start(self) -> None:
        """Be told from now on; for a task that leaves meanwhile it ends at once."""
        self._interests()[self] = None
        self._exchange.decide(lambda: self._exchange.manager.watch(self))
        if self.entry.place is None:
            self.cancel()

    def _interests(self) -> dict[Subscription | Watch, None]:
        receiver: Receiver = self.entry.box.client
        return receiver.interests
