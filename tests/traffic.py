"""Calls on the ends of a queue that tests share: fill, count the room, try a call."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING

from queuebroker import SendTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from queuebroker import MessageQueue

__all__ = ["fill", "fits", "tried"]


def fill(end: MessageQueue, timeout: float | None = None) -> NoReturn:
    """Send until that raises, as it does after ``timeout`` seconds without room."""
    while True:
        end.send(b"f", timeout=timeout)


def fits(end: MessageQueue) -> int:
    """Send until the buffer is full; return how many messages fitted."""
    for sent in itertools.count():
        try:
            end.send_nowait(b"+")
        except SendTimeoutError:
            return sent
    raise AssertionError


def tried(call: Callable[..., object], *args: object) -> None:
    """Make a call; ignore a timeout or a disconnect."""
    with suppress(TimeoutError, ConnectionError):
        call(*args)
