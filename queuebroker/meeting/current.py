"""The broker of the running thread or coroutine (QB-NAME-9 to 11).

The stored value includes the thread that set it. So a new thread that inherits the
context does not inherit the broker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from queuebroker import _sync
from queuebroker.errors import NoCurrentBrokerError

if TYPE_CHECKING:
    from queuebroker.meeting.broker import Broker
    from queuebroker.meeting.queue_broker import QueueBroker

__all__ = ["as_current", "current_broker"]

_current: ContextVar[tuple[int, Broker | QueueBroker] | None] = ContextVar(
    "current_broker", default=None
)


def current_broker() -> Broker | QueueBroker:
    """Return the broker of the running Task, or of the innermost `as_current()` block.

    The broker is returned even after it was closed, because no manager is consulted.

    Raises:
        NoCurrentBrokerError: outside of both.
    """
    current = _current.get()
    if current is None or current[0] != _sync.get_ident():
        msg = "no current broker: neither in a Task nor in an as_current() block"
        raise NoCurrentBrokerError(msg)
    return current[1]


@contextlib.contextmanager
def as_current(broker: Broker | QueueBroker) -> Iterator[None]:
    """Make a broker the current one within the block."""
    token = _current.set((_sync.get_ident(), broker))
    try:
        yield
    finally:
        _current.reset(token)
