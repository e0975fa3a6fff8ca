"""The work of every contestant: one loop for all, which calls their bound methods.

A contestant provides its `Link` (two ends that send and receive bytes) or its `Doors`
(an accept and a connect that meet). The loop calls these methods directly, so no figure
includes the time of a wrapper.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import repeat
from time import perf_counter_ns
from typing import Protocol

import attrs

from benchmarks.crew import together

__all__ = [
    "Doors",
    "End",
    "Link",
    "LinkMaker",
    "MeetingMaker",
    "contention",
    "meetings",
    "one_way",
    "round_trip_us",
]


@attrs.frozen
class End:
    """One end: a function that sends one message, and one that waits for one."""

    send: Callable[[bytes], object]
    receive: Callable[[], bytes]


@attrs.frozen
class Link:
    """Two ends, connected."""

    near: End
    far: End


class Closeable(Protocol):
    """The object that a meeting returns to either side."""

    def close(self) -> object:
        """Disconnect."""


@attrs.frozen
class Doors:
    """Two calls that meet: the first one waits for the other."""

    accept: Callable[[], Closeable]
    connect: Callable[[], Closeable]


# Opens a fresh link whose buffers hold that many messages.
LinkMaker = Callable[[int], AbstractContextManager[Link]]

# Opens that many pairs of doors, independent of one another.
MeetingMaker = Callable[[int], AbstractContextManager[Sequence[Doors]]]


def one_way(make: LinkMaker, size: int, capacity: int) -> Callable[[int], float]:
    """Return a job: one sender, one receiver; seconds for n messages of ``size``."""
    return _stream(make, size, capacity, workers=1)


def contention(
    make: LinkMaker, size: int, capacity: int, workers: int
) -> Callable[[int], float]:
    """Return a job: many senders on one end, as many receivers on the other."""
    return _stream(make, size, capacity, workers)


def round_trip_us(make: LinkMaker, size: int, capacity: int, count: int) -> float:
    """Send a message there and back ``count`` times; return the median in us."""
    taken_ns: list[int] = []
    with make(capacity) as link:
        together(
            partial(_echo, link.far, count),
            partial(_ask, link.near, bytes(size), count, taken_ns),
        )
    return statistics.median(taken_ns) / 1_000


def meetings(make: MeetingMaker, pairs: int) -> Callable[[int], float]:
    """Return a job: n connects and disconnects by ``pairs`` pairs of threads."""

    def work(count: int) -> float:
        each = -(-count // pairs)
        with make(pairs) as rooms:
            jobs = [
                partial(_meet_and_part, side, each)
                for doors in rooms
                for side in (doors.accept, doors.connect)
            ]
            return together(*jobs) * count / (each * pairs)

    return work


def _stream(
    make: LinkMaker, size: int, capacity: int, workers: int
) -> Callable[[int], float]:
    payload = bytes(size)

    def work(count: int) -> float:
        each = -(-count // workers)
        with make(capacity) as link:
            sending = [partial(_send, link.near.send, payload, each)] * workers
            receiving = [partial(_receive, link.far.receive, size, each)] * workers
            return together(*sending, *receiving) * count / (each * workers)

    return work


def _send(send: Callable[[bytes], object], payload: bytes, count: int) -> None:
    for _ in repeat(None, count):
        send(payload)


def _receive(receive: Callable[[], bytes], size: int, count: int) -> None:
    message = b""
    for _ in repeat(None, count):
        message = receive()
    if len(message) != size:
        raise AssertionError(f"sent {size} bytes, the last message has {len(message)}")


def _echo(end: End, count: int) -> None:
    receive, send = end.receive, end.send
    for _ in repeat(None, count):
        send(receive())


def _ask(end: End, payload: bytes, count: int, taken_ns: list[int]) -> None:
    receive, send = end.receive, end.send
    for _ in repeat(None, count):
        start = perf_counter_ns()
        send(payload)
        receive()
        taken_ns.append(perf_counter_ns() - start)


def _meet_and_part(meet: Callable[[], Closeable], count: int) -> None:
    for _ in repeat(None, count):
        meet().close()
