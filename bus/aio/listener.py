"""`Listener`: the notifications of other tasks, for ``async for``."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from bus.aio.loop_thread import over, until
from bus.api.arguments import deadline_after
from bus.features.subscriptions.api import AwaitedConfirmation, Subscriber
from queuebroker.aio.waker import running_waker
from queuebroker.closable import Uncopyable

if TYPE_CHECKING:
    from bus.api.lifetime import Orphans
    from bus.api.task import Task, Where
    from bus.model.message import Incoming
    from bus.model.specification import Specification
    from bus.process.account import Overflow

__all__ = ["Listener"]


class Listener(Uncopyable):
    """An iterator over notifications: ``async for message in bus.listen("clock")``.

    `bus.aio.Bus.listen` creates it, and subscribes at once. ``async with`` waits until
    every process has confirmed the subscription (BUS-MSG-18): from then on no
    notification is missed. A notification that no step has returned is unread, so that
    ``capacity`` and ``overflow`` apply to it.

    The iteration ends if no notification arrives for ``timeout`` seconds, if the policy
    ``disconnect`` cuts the subscription off, or once the bus is closed. A cancelled
    step loses nothing, and the iteration may go on.

    Args:
        task: a private task of the running event loop; the listener deregisters it.
        orphans: those of the bus; the finalizer appends the task.
        to, overflow, capacity: as of `bus.Task.subscribe`.
        timeout: in seconds; None without limit.
    """

    __slots__ = ("_confirmation", "_orphans", "_subscription", "_task", "_timeout")

    def __init__(
        self,
        task: Task,
        orphans: Orphans,
        to: Where | Specification,
        timeout: float | None,
        overflow: Overflow,
        capacity: int | None,
    ) -> None:
        self._task: Final = task
        self._timeout: Final = timeout
        self._orphans: Final = orphans
        bus, sender = task._bus, task._sender
        own = Subscriber(bus, task._entry, sender)
        self._subscription, there = own.new_subscription(
            to, None, None, None, overflow, capacity
        )
        self._confirmation: Final = AwaitedConfirmation(
            self._subscription,
            *(sender.require_host(), bus, there, running_waker().waiter()),
        )
        self._subscription._then = self._confirmation.wake
        own.start(self._confirmation)

    @property
    def dropped(self) -> int:
        """The number of notifications dropped so far; as `bus.Subscription.dropped`."""
        return self._subscription.dropped

    async def __aenter__(self) -> Self:
        """Wait until every process has confirmed the subscription.

        Raises:
            CommandTimeoutError: a process has not confirmed it within
              `bus.BusConfig.command_timeout_s`.
            UnknownTaskError: the bus is closed.
        """
        timeout = self._task._bus._config.command_timeout_s
        try:
            await over(self._confirmation, deadline_after(timeout))
            self._confirmation.check(timeout)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Incoming:
        """Return the next notification."""
        receiver = self._task._receiver

        def claimed() -> bool:
            return receiver.claim() or self._is_over()

        await until(claimed, self._task, deadline_after(self._timeout))
        message = receiver.claimed
        if message is None:
            self.close()
            raise StopAsyncIteration
        receiver.claimed = None
        return message

    def _is_over(self) -> bool:
        return self._task._entry.host is None or not self._subscription.active

    def close(self) -> None:
        """Unsubscribe and drop the unread notifications; idempotent."""
        self._task.deregister()

    def __del__(self) -> None:
        # Append only: a finalizer may run while its thread holds any lock.
        if (task := getattr(self, "_task", None)) is not None:
            self._orphans.append(task.deregister)
