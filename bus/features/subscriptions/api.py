"""`Subscription` and `Watch`: the interests of a task in other tasks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bus.api.arguments import (
    answer_timeout,
    check_callback,
    deadline_after,
    new_account_limits,
)
from bus.api.bus_thread import check_may_wait
from bus.api.outcome import AwaitedOutcome
from bus.api.reentry import guarded
from bus.api.run_callback import run_callback
from bus.errors import CommandTimeoutError, UnknownTaskError
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.features.subscriptions.presence import PresenceReport
from bus.kernel.tasks.actions import Action
from bus.kernel.tasks.routing_table import Entry
from bus.model.events import BusOperation
from bus.model.message import Incoming, Presence
from bus.model.specification import Specification
from bus.process.account import Account, Admission
from bus.process.dropping_account import new_account
from bus.process.exchange import Exchange
from bus.process.mailbox import Client
from queuebroker.arguments import positive
from queuebroker.closable import Uncopyable

if TYPE_CHECKING:
    from bus.api.arguments import Unset
    from bus.api.sender import Sender
    from bus.api.task_owner import TaskOwner
    from bus.model.address import Address
    from bus.model.registration import Overflow
    from bus.process.thread_manager import ThreadManager
    from queuebroker.waiting.parking import Parker

__all__ = ["AwaitedConfirmation", "Subscriber", "Subscription", "Watch"]

# The numbers of subscriptions in a journal, which may record several buses.
_numbers: Final = itertools.count(1)


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
        "_recorded",
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
        callback: Callable[[Incoming], object] | None,
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
        # Its number in the journal, until its end is recorded; 0 if it is in none.
        self._recorded: int = 0
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
        manager = self._exchange.manager
        self._exchange.decide_remote(
            lambda: subscriptions_of(manager).unsubscribe(self)
        )
        # After that: until then the departure of the task repeats an interrupted call.
        self._entry.mailbox.client.on_unsubscribed(self, self._account)
        number, self._recorded = self._recorded, 0
        if number and (trace_sink := self._exchange.trace_sink) is not None:
            trace_sink.on_task_event(
                BusOperation.UNSUBSCRIBE, self._entry.id.number, number
            )
        if self._then is not None:
            self._then()
        self._entry.mailbox.client.wake_waiters()

    def _start(self, settled: Callable[[], object] | None = None) -> None:
        """Subscribe; see `_begin`.

        settled: called once all processes have the subscription.
        """
        manager = self._exchange.manager
        if (trace_sink := self._exchange.trace_sink) is not None:
            self._recorded = number = next(_numbers)
            pattern = self.specification.pattern
            trace_sink.on_task_event(
                BusOperation.SUBSCRIBE, self._entry.id.number, number, pattern
            )
        _begin(self, lambda: subscriptions_of(manager).subscribe(self, settled))


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
        manager = self._exchange.manager
        self._exchange.decide_remote(lambda: subscriptions_of(manager).unwatch(self))
        _interests_of(self._entry).pop(self, None)  # as for a subscription
        self._entry.mailbox.client.wake_waiters()

    def _start(self) -> None:
        """Begin the watch; see `_begin`."""
        self._exchange.performers[PresenceReport] = _post
        manager = self._exchange.manager
        _begin(self, lambda: subscriptions_of(manager).watch(self))

    def _on_presence(self, seen: Presence, receiver: Client) -> None:
        """Call the callback, in the thread that hosts the task."""
        if self.active:
            news = Presence(seen.address, seen.here, self.reference)
            run_callback(self._callback, news, receiver)


class Subscriber:
    """The part of a task that starts subscriptions and watches, in any thread.

    Each call makes its own, since most tasks subscribe to nothing. The receiver of the
    task lists those that are active (`Receiver.interests`).
    """

    __slots__ = ("_bus", "_entry", "_sender")

    def __init__(self, bus: TaskOwner, entry: Entry, sender: Sender) -> None:
        self._bus: Final = bus
        self._entry: Final = entry
        self._sender: Final = sender

    def subscribe(
        self,
        to: str | Address | Specification,
        callback: Callable[[Incoming], object],
        bus: str | None,
        ref: object,
        overflow: Overflow,
        capacity: int | None,
        timeout: float | Unset | None,
        *,
        wait: bool,
    ) -> Subscription:
        """Subscribe to the notifications of other tasks; see `Task.subscribe`."""
        check_callback("callback", callback)
        timeout = answer_timeout(self._bus._config, timeout)
        deadline = deadline_after(timeout)
        if wait:
            check_may_wait("wait", ": subscribe without wait=True there")
        subscription, there = self.new_subscription(
            to, callback, bus, ref, overflow, capacity
        )
        if not wait:
            subscription._start()
            self._cancel_if_closed(subscription, there)
            return subscription
        confirmation = AwaitedConfirmation(
            subscription, self._sender.require_host(), self._bus, there
        )
        try:
            self.start(confirmation)
            confirmation.wait_until_over(deadline)
            confirmation.check(timeout)
        except BaseException:
            subscription.cancel()
            raise
        return subscription

    def new_subscription(
        self,
        to: str | Address | Specification,
        callback: Callable[[Incoming], object] | None,
        bus: str | None,
        ref: object,
        overflow: Overflow,
        capacity: int | None,
    ) -> tuple[Subscription, TaskOwner]:
        """Return a subscription that has not started, and the bus of the notifiers.

        callback: None for one whose notifications a coroutine claims.
        """
        limits = new_account_limits(self._bus._config, overflow, capacity)
        self._sender.require_host()
        specification, there = self._bus._specification(to, bus)
        account = new_account(**limits)
        subscription = Subscription(
            there._exchange, self._entry, specification, callback, ref, account
        )
        return subscription, there

    def start(self, confirmation: AwaitedConfirmation) -> None:
        """Start the subscription whose confirmation is awaited."""
        # One request both subscribes and asks for the confirmation: otherwise each
        # process would answer twice with all its matching tasks.
        subscription = confirmation.subscription
        subscription._start(lambda: confirmation.on_outcome(True))
        self._cancel_if_closed(subscription, confirmation.there)

    def watch(
        self,
        to: str | Address | Specification,
        callback: Callable[[Presence], object],
        bus: str | None,
        ref: object,
    ) -> Watch:
        """Watch which of the named tasks are registered; see `Task.watch`."""
        check_callback("callback", callback)
        self._sender.require_host()
        specification, there = self._bus._specification(to, bus)
        watch = Watch(there._exchange, self._entry, specification, callback, ref)
        watch._start()
        self._cancel_if_closed(watch, there)
        return watch

    def wait_for_subscribers(self, count: int, timeout: float | None) -> bool:
        """Wait for subscribers to the task; see `Task.wait_for_subscribers`."""
        deadline = deadline_after(timeout)
        check_may_wait("wait", ": wait for subscribers elsewhere")
        wait = self.awaited_subscribers()
        try:
            wait.start(count)
            wait.wait_until_over(deadline)
        finally:
            wait.end()
        return wait.check()

    def awaited_subscribers(self, parker: Parker | None = None) -> AwaitedSubscribers:
        """Return a wait for subscribers that has not started.

        parker: see `AwaitedOutcome`.
        """
        host = self._sender.require_host()
        return AwaitedSubscribers(self._entry, host, self._bus, parker)

    def _cancel_if_closed(
        self, interest: Subscription | Watch, there: TaskOwner
    ) -> None:
        """Cancel an interest on another bus that is closed just now (BUS-DEREG-12)."""
        # After the start: if that bus is closed later, it finds the interest.
        if there is not self._bus and there._lifetime.closed:
            interest.cancel()


class AwaitedConfirmation(AwaitedOutcome[bool]):
    """The confirmation of a subscription by all processes (BUS-MSG-18).

    Args:
        subscription: the subscription, which has not started.
        host: the thread manager of its task.
        bus: the bus of the subscribing task.
        there: the bus of the notifiers.
        parker: see `AwaitedOutcome`.
    """

    __slots__ = ("_bus", "subscription", "there")

    def __init__(
        self,
        subscription: Subscription,
        host: ThreadManager,
        bus: TaskOwner,
        there: TaskOwner,
        parker: Parker | None = None,
    ) -> None:
        super().__init__(subscription._entry, host, parker=parker)
        self._bus: Final = bus
        self.there: Final = there
        self.subscription: Final = subscription
        subscription._then = self.wake  # on cancel, or if the task deregisters

    def is_over(self) -> bool:
        """Return True if it is confirmed, cancelled, or the task has deregistered."""
        return super().is_over() or not self.subscription.active

    def check(self, timeout: float | None) -> None:
        """Check the result of the wait; return if the subscription is cancelled.

        timeout: the seconds for which the caller has waited; None for no limit.

        Raises:
            CommandTimeoutError: a process has not confirmed in time.
            UnknownTaskError: the task has deregistered, or a bus is closed.
        """
        subscription = self.subscription
        subscription._then = None
        if not self.is_over():
            assert timeout is not None
            raise CommandTimeoutError(
                str(subscription.specification),
                timeout,
                missing="confirmation of the subscription to",
            )
        if self.outcome is None:
            self._bus._lifetime.check()  # a closed bus is the more precise error
            if self.entry.host is None:
                raise UnknownTaskError(self.entry.name)
        if not subscription.active:
            self.there._lifetime.check()


class AwaitedSubscribers(AwaitedOutcome[bool]):
    """A wait for a number of subscribers to a task; see `Task.wait_for_subscribers`.

    The outcome is True once there are enough, False if the task deregisters first.
    """

    __slots__ = ("_bus",)

    def __init__(
        self,
        entry: Entry,
        host: ThreadManager,
        bus: TaskOwner,
        parker: Parker | None = None,
    ) -> None:
        super().__init__(entry, host, parker=parker)
        self._bus: Final = bus

    def start(self, count: int) -> None:
        """Request the outcome."""
        positive("count", count)
        exchange, entry, then = self._bus._exchange, self.entry, self.on_outcome
        manager = exchange.manager
        exchange.decide(
            lambda: subscriptions_of(manager).await_subscribers(entry, count, then)
        )

    def end(self) -> None:
        """Cancel the request; idempotent."""
        exchange, then = self._bus._exchange, self.on_outcome
        manager = exchange.manager
        exchange.decide_remote(
            lambda: subscriptions_of(manager).forget_subscribers(then)
        )

    def check(self) -> bool:
        """Return True if there are enough subscribers.

        Raises:
            UnknownTaskError: the task has deregistered, or its bus is closed.
        """
        if self.outcome:
            return True
        self._bus._lifetime.check()  # a closed bus is the more precise error
        if self.is_over():
            raise UnknownTaskError(self.entry.name)
        return False


def _begin(
    interest: Subscription | Watch, decision: Callable[[], list[Action]]
) -> None:
    """Begin an interest; cancel it at once if its task deregisters meanwhile."""
    exchange = interest._exchange
    try:
        _interests_of(interest._entry)[interest] = None
        exchange.decide(decision)
    except BaseException:
        # An interrupt: the caller gets no interest that it could cancel. Another thread
        # may wait for an action of the decision.
        interest.cancel()
        exchange.act()
        raise
    if interest._entry.host is None:
        interest.cancel()


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
