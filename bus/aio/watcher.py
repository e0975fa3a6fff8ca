"""`Watcher`: the arrivals and departures of other tasks, for ``async for``."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from bus.aio.loop_thread import until
from queuebroker.closable import Uncopyable

if TYPE_CHECKING:
    from bus.api.lifetime import Orphans
    from bus.api.task import Task, Where
    from bus.model.message import Presence
    from bus.model.specification import Specification

__all__ = ["Watcher"]


class Watcher(Uncopyable):
    """An iterator over presences: ``async for presence in bus.watch("sensor/*")``.

    `bus.aio.Bus.watch` creates it. It yields each matching task that is registered now,
    and whenever one registers or deregisters. It ends once it is closed, or the bus. A
    cancelled step loses nothing, and the iteration may go on.

    Args:
        task: a private task of the running event loop; the watcher deregisters it.
        orphans: those of the bus; the finalizer appends the task.
        to: as of `bus.Task.watch`.
    """

    __slots__ = ("_news", "_orphans", "_task", "_watch")

    def __init__(self, task: Task, orphans: Orphans, to: Where | Specification) -> None:
        self._task: Final = task
        self._orphans: Final = orphans
        self._news: Final[deque[Presence]] = deque()
        # The callback refers to these only, so that the watcher can be collected.
        news, receiver = self._news, task._receiver

        def on_presence(presence: Presence) -> None:
            news.append(presence)
            receiver.wake_waiters()

        self._watch: Final = task.watch(to, on_presence)

    async def __aenter__(self) -> Self:
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

    async def __anext__(self) -> Presence:
        """Return the next presence."""
        presence = await self._next(None)
        if presence is None:
            raise StopAsyncIteration
        return presence

    async def _next(self, deadline: float | None) -> Presence | None:
        """Return the next presence; None if it is late, or there can be none.

        deadline: on the monotonic clock in seconds; None for no limit.
        """
        await until(lambda: self._news or self._is_over(), self._task, deadline)
        return self._news.popleft() if self._news else None

    def _check(self) -> None:
        """Check that the watch is not over.

        Raises:
            UnknownTaskError: its task is deregistered.
        """
        self._task._sender.require_host()

    def _is_over(self) -> bool:
        return self._task._entry.host is None or not self._watch.active

    def close(self) -> None:
        """End the watch; idempotent. A step that waits ends the iteration."""
        self._task.deregister()

    def __del__(self) -> None:
        # Append only: a finalizer may run while its thread holds any lock.
        if (task := getattr(self, "_task", None)) is not None:
            self._orphans.append(task.deregister)
