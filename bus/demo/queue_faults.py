"""Faults injected into a queue between processes; as `bus.demo.faults` for threads.

They occur once, at the receiver, between the socket and the record: the record looks as
if the queue had caused them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.demo.recorded_queue import RecordedQueue

__all__ = ["QUEUE_FAULTS", "plant_fault_between_processes"]


class _Lost:
    """Drops the first message, and returns the next in its place."""

    def __init__(self, receive: Callable[[], bytes], _: RecordedQueue) -> None:
        self._receive: Final = receive
        self._planted = False

    def __call__(self) -> bytes:
        if not self._planted:
            self._receive()
            self._planted = True
        return self._receive()


class _Duplicate:
    """Returns the first message twice."""

    def __init__(self, receive: Callable[[], bytes], _: RecordedQueue) -> None:
        self._receive: Final = receive
        self._again: deque[bytes] | None = None

    def __call__(self) -> bytes:
        if self._again is None:
            first = self._receive()
            self._again = deque([first])
            return first
        return self._again.popleft() if self._again else self._receive()


class _Reorder:
    """Returns the second message before the first."""

    def __init__(self, receive: Callable[[], bytes], _: RecordedQueue) -> None:
        self._receive: Final = receive
        self._held: deque[bytes] | None = None

    def __call__(self) -> bytes:
        if self._held is None:
            first = self._receive()
            second = self._receive()
            self._held = deque([first])
            return second
        return self._held.popleft() if self._held else self._receive()


class _Half:
    """Disconnects its own end during the first receive, and delivers nevertheless."""

    def __init__(self, receive: Callable[[], bytes], queue: RecordedQueue) -> None:
        self._receive: Final = receive
        self._queue: Final = queue
        self._planted = False

    def __call__(self) -> bytes:
        message = self._receive()
        if not self._planted:
            self._planted = True
            self._queue.disconnect()
        return message


# The same names as `bus.demo.faults.FAULTS`.
QUEUE_FAULTS: Final[
    dict[str, Callable[[Callable[[], bytes], RecordedQueue], Callable[[], bytes]]]
] = {
    "lost": _Lost,
    "duplicate": _Duplicate,
    "reorder": _Reorder,
    "half": _Half,
}


def plant_fault_between_processes(fault: str, queue: RecordedQueue) -> None:
    """Make the receiving end of ``queue`` misbehave once, before the record."""
    queue.receive_with(QUEUE_FAULTS[fault](queue.receive_raw, queue))
