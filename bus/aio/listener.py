"""`Listener`: the notifications of other tasks, for ``async for``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from bus.aio.task_iterator import TaskIterator
from bus.aio.waits import wait_for_outcome, wait_until
from bus.api.arguments import deadline_after
from bus.features.subscriptions.api import AwaitedConfirmation, Subscriber, Subscription
from queuebroker.aio.waker import running_waker

if TYPE_CHECKING:
    from bus.api.task import Task, Where
    from bus.model.message import Incoming
    from bus.model.specification import Specification
    from bus.process.account import Overflow

__all__ = ["Listener"]


class Listener(TaskIterator):
    """An iterator over notifications: ``async for message in bus.listen("clock")``.

    `bus.aio.Bus.listen` creates it, and subscribes at once. ``async with`` waits until
    every process has confirmed the subscription (BUS-MSG-18): from then on no
    notification is missed. A notification that no step has returned is unread, so that
    ``capacity`` and ``overflow`` apply to it.

    The iteration ends if no notification arrives for ``timeout`` seconds, if the policy
    ``disconnect`` cuts the subscription off, or once the bus is closed: unlike that of
    `bus.Bus.listen`, it then drops the unread notifications. A cancelled step loses
    nothing, and the iteration may go on.
    """

    __slots__ = ("_confirmation", "_timeout")

    _interest: Subscription

    def __init__(
        self,
        task: Task,
        to: Where | Specification,
        timeout: float | None,
        overflow: Overflow,
        capacity: int | None,
    ) -> None:
        super().__init__(task)
        self._timeout: Final = timeout
        bus, sender = task._bus, task._sender
        own = Subscriber(bus, task._entry, sender)
        self._interest, there = own.new_subscription(
            to, None, None, None, overflow, capacity
        )
        self._confirmation: Final = AwaitedConfirmation(
            self._interest,
            *(sender.require_host(), bus, there, running_waker().waiter()),
        )
        own.start(self._confirmation)

    @property
    def dropped(self) -> int:
        """The number of notifications dropped so far; as `bus.Subscription.dropped`."""
        return self._interest.dropped

    async def __aenter__(self) -> Self:
        """Wait until every process has confirmed the subscription.

        Raises:
            CommandTimeoutError: a process has not confirmed it within
              `bus.BusConfig.command_timeout_s`.
            UnknownTaskError: the bus is closed.
        """
        self._thread.check_running()
        timeout = self._task._bus._config.command_timeout_s
        try:
            await wait_for_outcome(self._confirmation, deadline_after(timeout))
            self._confirmation.check(timeout)
        except GeneratorExit:
            raise  # it is collected; see `__aexit__`
        except BaseException:
            self.close()
            raise
        return self

    async def __anext__(self) -> Incoming:
        """Return the next notification."""
        receiver = self._task._receiver

        def claimed() -> bool:
            return receiver.claim() or self._is_over()

        await wait_until(claimed, self._task, deadline_after(self._timeout))
        message, receiver.claimed = receiver.claimed, None
        if message is None:
            self.close()
            raise StopAsyncIteration
        return message
