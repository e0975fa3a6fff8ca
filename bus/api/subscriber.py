"""`Subscriber`: the part of a task that starts its subscriptions and watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.api.arguments import (
    answer_timeout,
    check_callback,
    deadline_after,
    new_account_limits,
)
from bus.api.awaited_confirmation import AwaitedConfirmation
from bus.api.awaited_outcome import AwaitedOutcome
from bus.api.subscription import Subscription, Watch
from bus.core.local.local_subscriptions import subscriptions_of
from bus.errors import UnknownTaskError
from bus.threads.dropping_account import new_account
from queuebroker.arguments import positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.address import Address
    from bus.api.arguments import Unset
    from bus.api.sender import Sender
    from bus.api.task_owner import TaskOwner
    from bus.core.local.routing_table import Entry
    from bus.message import Incoming, Presence
    from bus.specification import Specification
    from bus.threads.account import Overflow

__all__ = ["Subscriber"]


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
        if wait and self._bus._threads.in_callback():
            msg = "cannot wait within a callback: subscribe without wait=True there"
            raise RuntimeError(msg)
        limits = new_account_limits(self._bus._config, overflow, capacity)
        self._sender.require_host()
        specification, there = self._bus._specification(to, bus)
        account = new_account(**limits)
        subscription = Subscription(
            there._exchange, self._entry, specification, callback, ref, account
        )
        if not wait:
            subscription._start()
            self._cancel_if_closed(subscription, there)
            return subscription
        # One request both subscribes and asks for the confirmation: otherwise each
        # process would answer twice with all its matching tasks.
        confirmation = AwaitedConfirmation(subscription, self._sender.require_host())
        try:
            subscription._start(confirmation.on_confirmed)
            self._cancel_if_closed(subscription, there)
            confirmation.wait(self._bus, there, timeout, deadline)
        except BaseException:
            subscription.cancel()
            raise
        return subscription

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
        positive("count", count)
        deadline = deadline_after(timeout)
        if self._bus._threads.in_callback():
            msg = "cannot wait within a callback: wait for subscribers elsewhere"
            raise RuntimeError(msg)
        # The outcome: True once there are enough, False if the task deregisters first.
        wait = AwaitedOutcome[bool](self._entry, self._sender.require_host())
        exchange, entry, then = self._bus._exchange, self._entry, wait.on_outcome
        manager = exchange.manager
        try:
            exchange.decide(
                lambda: subscriptions_of(manager).await_subscribers(entry, count, then)
            )
            wait.wait_until_over(deadline)
        finally:
            exchange.decide_remote(
                lambda: subscriptions_of(manager).forget_subscribers(then)
            )
        if wait.outcome:
            return True
        self._bus._lifetime.check()  # a closed bus is the more precise error
        if wait.is_over():
            raise UnknownTaskError(entry.name)
        return False

    def _cancel_if_closed(
        self, interest: Subscription | Watch, there: TaskOwner
    ) -> None:
        """Cancel an interest on another bus that is closed just now (BUS-DEREG-12)."""
        # After the start: if that bus is closed later, it finds the interest.
        if there is not self._bus and there._lifetime.closed:
            interest.cancel()
