"""`Watcher`: the arrivals and departures of other tasks, for ``async for``."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from bus.aio.task_iterator import TaskIterator
from bus.aio.waits import wait_until

if TYPE_CHECKING:
    from bus.api.task import Task, Where
    from bus.model.message import Presence
    from bus.model.specification import Specification

__all__ = ["Watcher"]


class Watcher(TaskIterator):
    """An iterator over presences: ``async for presence in bus.watch("sensor/*")``.

    `bus.aio.Bus.watch` creates it. It yields each matching task that is registered now,
    and whenever one registers or deregisters. It ends once it is closed, or the bus. A
    cancelled step loses nothing, and the iteration may go on.
    """

    __slots__ = ("_news",)

    def __init__(self, task: Task, to: Where | Specification) -> None:
        super().__init__(task)
        self._news: Final[deque[Presence]] = deque()
        # The callback refers to these only, so that the watcher can be collected.
        news, receiver = self._news, task._receiver

        def on_presence(presence: Presence) -> None:
            news.append(presence)
            receiver.wake_waiters()
            if receiver.dropped:
                receiver.leave(receiver.entry, final=False)

        self._interest = task.watch(to, on_presence)

    async def __anext__(self) -> Presence:
        """Return the next presence."""
        presence = await self._next(None)
        if presence is None:
            raise StopAsyncIteration
        return presence

    async def _next(self, deadline: float | None) -> Presence | None:
        """Return the next presence; None after the deadline, or once the watch is over.

        deadline: on the monotonic clock in seconds; None for no limit.
        """
        await wait_until(lambda: self._news or self._is_over(), self._task, deadline)
        return self._news.popleft() if self._news else None
