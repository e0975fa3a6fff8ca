"""`NotificationIterator`: the iterator that `Bus.listen` returns.

It is a class, not a generator. The garbage collector may close a generator in any
thread, at any allocation, and its ``finally`` would take locks that this thread may
hold already. The finalizer of this class only appends to a list; the next call, or the
thread that hosts the task, deregisters the task.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Self

from bus.api.arguments import deadline_after
from bus.api.reentry import guarded
from bus.errors import UnknownTaskError
from queuebroker.closable import Uncopyable

if TYPE_CHECKING:
    from bus.api.bus_thread import BusThread
    from bus.api.lifetime import Orphans
    from bus.api.task import Task, Where
    from bus.model.message import Incoming
    from bus.model.specification import Specification

__all__ = ["NotificationIterator"]


class _Unread:
    """The notifications that an iterator has received and not yet returned.

    The subscription refers to this object only, so the iterator can be collected.

    dropped: True if the iterator was collected.
    """

    __slots__ = ("dropped", "messages", "task")

    def __init__(self, task: Task) -> None:
        self.task: Final = task
        self.messages: Final[deque[Incoming]] = deque()
        self.dropped: bool = False

    def receive(self, message: Incoming) -> None:
        """Append a notification; the callback of the subscription."""
        if self.dropped:
            self.task.deregister()
        else:
            self.messages.append(message)


class NotificationIterator(Uncopyable):
    """An iterator over notifications; while it waits, it serves its thread.

    It ends if no notification arrives for ``timeout`` seconds, or when it is closed. If
    the bus is closed or the thread is stopped, it ends after the unread notifications.
    If the notifiers are on another bus, and that is closed, it ends.

    Args:
        task: a private task in the calling thread, which it deregisters at its end.
        orphans: those of the bus; the finalizer appends that task.
        to, wait: as in `Task.subscribe`.
        timeout: in seconds; None without limit.
    """

    __slots__ = (
        "_messages",
        "_open",
        "_orphans",
        "_subscription",
        "_task",
        "_timeout",
        "_unread",
    )

    def __init__(
        self,
        task: Task,
        orphans: Orphans,
        to: Where | Specification,
        timeout: float | None,
        *,
        wait: bool,
    ) -> None:
        self._open: bool = False
        self._timeout: Final = timeout
        self._task: Final = task
        self._orphans: Final = orphans
        self._unread: Final = _Unread(self._task)
        self._messages: Final = self._unread.messages
        self._open = True
        try:
            self._subscription: Final = self._task.subscribe(
                to, self._unread.receive, wait=wait
            )
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Self:
        return self

    @guarded("iterate over notifications")
    def __next__(self) -> Incoming:
        """Return the next notification.

        Raises:
            StopIteration: see the class.
            RuntimeError: called in another thread, or within a callback.
        """
        messages = self._messages
        if not messages and self._open:
            thread = self._host()
            try:
                if thread is not None:
                    self._wait(thread)
            except BaseException:
                self.close()
                raise
        if messages:
            return messages.popleft()
        self.close()
        raise StopIteration

    @guarded("close an iterator")
    def close(self) -> None:
        """Unsubscribe and drop the unread notifications; idempotent."""
        self._open = False
        self._messages.clear()
        self._task.deregister()

    def _host(self) -> BusThread | None:
        """Return the thread to serve; None if the task has left it."""
        host = self._task._entry.host
        if host is None:
            return None
        thread: BusThread = host.thread
        if not thread.stopped:
            thread._check_mine("iterate over notifications")
        return thread

    def _wait(self, thread: BusThread) -> None:
        """Serve the thread until a notification has come, or none can come."""
        messages, entry = self._messages, self._task._entry
        subscription = self._subscription

        def is_over() -> bool:
            ended = entry.host is None or not subscription.active
            return ended or bool(messages)

        try:
            thread._serve_until(is_over, deadline_after(self._timeout))
        except UnknownTaskError:  # the thread is stopped, but may still drain
            thread._await_end()

    def __del__(self) -> None:
        if self._open:
            # Set and append only: a finalizer may run while its thread holds any lock.
            self._unread.dropped = True
            self._orphans.append(self._task.deregister)
