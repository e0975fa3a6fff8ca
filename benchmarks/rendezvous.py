"""Suite ``rendezvous``: T4, connects and disconnects of two threads per second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from benchmarks.contest import Contest, Effort, Measure, Row, steady_rate
from benchmarks.rivals import connection, our_queue
from benchmarks.threads import together

__all__ = ["Doors", "meetings", "suite"]


class _Closeable(Protocol):
    def close(self) -> object:
        """Disconnect."""


# Two calls that meet: accept and connect; the first one waits for the other.
Doors = tuple[Callable[[], _Closeable], Callable[[], _Closeable]]

# Opens that many pairs of doors, independent of one another.
_DoorsMaker = Callable[[int], AbstractContextManager[Sequence[Doors]]]


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return T4 with one pair of threads and with sixteen, each on its own port."""

    def measure(make: _DoorsMaker, pairs: int) -> Measure:
        return steady_rate(meetings(make, pairs), effort.round_s)

    return [
        Contest(
            [Row("T4", case, "meetings/s", {"multiprocessing.connection": 1.0})],
            {
                "ours": measure(our_queue.doors, pairs),
                "multiprocessing.connection": measure(connection.doors, pairs),
            },
        )
        for case, pairs in {"one": 1, "sixteen": 16}.items()
    ], []


def meetings(make: _DoorsMaker, pairs: int) -> Callable[[int], float]:
    """Return a job: n connects and disconnects by ``pairs`` pairs of threads."""

    def work(count: int) -> float:
        each = -(-count // pairs)
        with make(pairs) as rooms:
            jobs = [partial(_meet, side, each) for doors in rooms for side in doors]
            return together(*jobs) * count / (each * pairs)

    return work


def _meet(meet: Callable[[], _Closeable], count: int) -> None:
    for _ in range(count):
        meet().close()
