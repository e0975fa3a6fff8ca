"""`AwaitedConfirmation`: the wait until all processes have a subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.api.awaited_outcome import AwaitedOutcome
from bus.errors import CommandTimeoutError, UnknownTaskError

if TYPE_CHECKING:
    from bus.api.subscription import Subscription
    from bus.api.task_owner import TaskOwner
    from bus.threads.thread_manager import ThreadManager

__all__ = ["AwaitedConfirmation"]


class AwaitedConfirmation(AwaitedOutcome[bool]):
    """The confirmation of a subscription by all processes (BUS-MSG-18).

    Args:
        subscription: the subscription, which has not started.
        host: the thread manager of its task.
    """

    __slots__ = ("_subscription",)

    def __init__(self, subscription: Subscription, host: ThreadManager) -> None:
        super().__init__(subscription._entry, host)
        self._subscription: Final = subscription
        subscription._then = self.wake  # on cancel, or if the task deregisters

    def is_over(self) -> bool:
        """Return True if it is confirmed, cancelled, or the task has deregistered."""
        return super().is_over() or not self._subscription.active

    def on_confirmed(self) -> None:
        """Record that all processes have the subscription, and wake the caller."""
        self.on_outcome(True)

    def wait(
        self,
        bus: TaskOwner,
        there: TaskOwner,
        timeout: float | None,
        deadline: float | None,
    ) -> None:
        """Wait for the confirmation; return if the subscription is cancelled.

        bus: the bus of the subscribing task. there: that of the notifiers.

        Raises:
            CommandTimeoutError: a process has not confirmed in time.
            UnknownTaskError: the task deregisters, or a bus is closed meanwhile.
        """
        subscription = self._subscription
        self.wait_until_over(deadline)
        subscription._then = None
        if not self.is_over():
            assert timeout is not None
            raise CommandTimeoutError(
                str(subscription.specification),
                timeout,
                missing="confirmation of the subscription to",
            )
        if self.outcome is None:
            bus._lifetime.check()  # a closed bus is the more precise error
            if self._entry.host is None:
                raise UnknownTaskError(self._entry.name)
        if not subscription.active:
            there._lifetime.check()
