"""`TaskIterator`: the base of iterators that have a private task of their own."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast

from queuebroker.closable import Uncopyable

if TYPE_CHECKING:
    from bus.aio.loop_thread import LoopThread
    from bus.api.task import Task
    from bus.features.subscriptions.api import Subscription, Watch

__all__ = ["TaskIterator"]


class TaskIterator(Uncopyable):
    """An asynchronous iterator with a private task in the running event loop.

    ``async with`` closes it. So does dropping it, a little later.
    """

    __slots__ = ("_interest", "_task", "_thread")

    # What the task has requested.
    _interest: Subscription | Watch

    def __init__(self, task: Task) -> None:
        self._task: Final = task
        self._thread: Final = cast("LoopThread", task.thread)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is not GeneratorExit:
            self.close()
            return
        # Perhaps its coroutine is collected, within a lock that `close` takes.
        with suppress(RuntimeError):  # the loop is closed; `__del__` follows
            self._thread.loop.call_soon_threadsafe(self.close)

    def __aiter__(self) -> Self:
        return self

    def close(self) -> None:
        """End the iteration, and drop the rest; idempotent. A waiting step ends it."""
        self._task.deregister()

    def _is_over(self) -> bool:
        return self._task._entry.host is None or not self._interest.active

    def __del__(self) -> None:
        # Set and append only: a finalizer may run while its thread holds any lock.
        if (task := getattr(self, "_task", None)) is not None:
            task._receiver.dropped = True
            task._bus._orphans.append(task.deregister)
