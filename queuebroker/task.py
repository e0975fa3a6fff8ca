"""`Task`: a thread that belongs to a broker.

It holds its thread instead of being one, so that its thread too is made when it is
started, by `_sync`, and the explorer can take it over.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from queuebroker import _sync
from queuebroker.arguments import check_callable, deadline_after, known_as, wrong_type
from queuebroker.broker import Broker
from queuebroker.current import as_current
from queuebroker.queue_broker import QueueBroker

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Task"]


class Task:
    """A thread in which `current_broker()` is ``broker`` (QB-NAME-9).

    Args:
        broker: a `Broker` or `QueueBroker`; it may be closed meanwhile.
        target: called in the thread with ``args``.
        name: of the thread, by default the broker's.
        daemon: whether the interpreter may exit while it runs.

    Raises:
        TypeError: ``broker`` is none, or the face of one for coroutines; ``target``
            cannot be called, or is a coroutine function, which would run nothing.
    """

    __slots__ = ("_args", "_target", "_thread", "broker")

    def __init__(
        self,
        broker: Broker | QueueBroker,
        target: Callable[..., object],
        *args: Any,
        name: str | None = None,
        daemon: bool = False,
    ) -> None:
        _check_broker(broker)
        _check_target(target)
        self.broker: Final = broker
        self._target = target
        self._args = args
        self._thread = _sync.Thread(
            target=self._run, name=name or broker.name, daemon=daemon
        )

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.broker!r}>"

    @property
    def name(self) -> str:
        """Name of the thread."""
        return self._thread.name

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: it was started before.
        """
        self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, for ``timeout`` seconds at most.

        It returns as if all were well also when time is up, which `is_alive` tells,
        and when an exception ended the thread: that one's traceback goes to stderr
        (`threading.excepthook`), and nothing of it comes here.

        Raises:
            RuntimeError: it was not started, or is the thread that calls.
            TypeError, ValueError: wrong timeout.
        """
        deadline = deadline_after(timeout)
        self._thread.join(None if deadline is None else timeout)

    def is_alive(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._thread.is_alive()

    def _run(self) -> None:
        with as_current(self.broker):
            self._target(*self._args)


def _check_broker(broker: object) -> None:
    if isinstance(broker, (Broker, QueueBroker)):
        return
    # Told by its name: to import the class, for a text, would load asyncio.
    coroutines = known_as(type(broker)) == "aio.QueueBroker"
    remedy = ": give its plain one, its .broker" if coroutines else ""
    raise wrong_type("broker", "a Broker or a QueueBroker", broker, remedy)


def _check_target(target: Callable[..., object]) -> None:
    check_callable("target", target)
    called = type(target).__call__
    if inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(called):
        msg = "target is a coroutine function: use asyncio.create_task"
        raise TypeError(msg)
