"""`Task`: a thread that belongs to a broker.

It holds its thread instead of being one, so that its thread too is made when it is
started, by `_sync`, and the explorer can take it over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from queuebroker import _sync
from queuebroker.arguments import check_callable
from queuebroker.current import as_current

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.broker import Broker
    from queuebroker.queue_broker import QueueBroker

__all__ = ["Task"]


class Task:
    """A thread in which `current_broker()` is ``broker`` (QB-NAME-9).

    Args:
        broker: a `Broker` or `QueueBroker`; it may be closed meanwhile.
        target: called in the thread with ``args``.
        name: of the thread, by default the broker's.
        daemon: whether the interpreter may exit while it runs.

    Raises:
        TypeError: ``target`` cannot be called.
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
        check_callable("target", target)
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
        """Wait until the thread has ended, for ``timeout`` seconds at most."""
        self._thread.join(timeout)

    def is_alive(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._thread.is_alive()

    def _run(self) -> None:
        with as_current(self.broker):
            self._target(*self._args)
