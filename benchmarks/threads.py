"""Suite ``threads``: messages between threads of one process, and their memory.

T1 one way, T1b in bulk, T2 round trip, T3 contention, T5 memory and import time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks import memory, ours, rivals
from benchmarks.contest import Contest, Measure, steady_rate
from benchmarks.crew import together
from benchmarks.workloads import LinkMaker, contention, one_way, round_trip_us
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.suites import Effort
    from queuebroker import MessageQueue

__all__ = ["suite"]

_SIZE_BYTES = 64
_CAPACITY = 1024
_BATCH = 256
_WORKERS = 4
_ROUND_TRIPS = 10_000

_LIMIT = "limit"


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return T1, T1b, T2, T3 and T5."""
    found, missing = rivals.load(["pyzmq", "pynng", "queue_queue", "simple_queue"])
    named = {rival.NAME: rival for rival in found}
    contests = [
        _one_way(effort, named),
        bulk(effort),
        _round_trip(effort, named),
        _contention(effort, named["queue.Queue"]),
        *_memory(effort),
    ]
    return contests, missing


def _one_way(effort: Effort, named: dict[str, Any]) -> Contest:
    """Omit SimpleQueue: it has no bound, so its sender never blocks."""

    def measure(make: LinkMaker) -> Measure:
        return steady_rate(one_way(make, _SIZE_BYTES, _CAPACITY), effort.round_s)

    return Contest(
        "T1",
        "64 B",
        "messages/s",
        "higher",
        measure(ours.link),
        {
            name: measure(rival.link)
            for name, rival in named.items()
            if name != "queue.SimpleQueue"
        },
        {"pyzmq": 2.0, "queue.Queue": 3.0},
    )


@clause("QB-BULK-3")
def bulk(effort: Effort) -> Contest:
    """A message costs less in a bulk call than in a single one.

    The rival is our own single send and receive: its ratio must stay above one.
    """
    return Contest(
        "T1b",
        "64 B",
        "messages/s",
        "higher",
        steady_rate(_bulk_work, effort.round_s),
        {
            "single": steady_rate(
                one_way(ours.link, _SIZE_BYTES, _CAPACITY), effort.round_s
            )
        },
        {"single": 1.0},
    )


def _bulk_work(count: int) -> float:
    batches = -(-count // _BATCH)
    with ours.queues(_CAPACITY) as (near, far):
        taken_s = together(
            partial(_send_batches, near, batches),
            partial(_receive_batches, far, batches * _BATCH),
        )
    return taken_s * count / (batches * _BATCH)


def _send_batches(queue: MessageQueue, batches: int) -> None:
    batch = [bytes(_SIZE_BYTES)] * _BATCH
    for _ in range(batches):
        queue.send_many(batch)


def _receive_batches(queue: MessageQueue, count: int) -> None:
    received = 0
    while received < count:
        received += len(queue.receive_many())


def _round_trip(effort: Effort, named: dict[str, Any]) -> Contest:
    def measure(make: LinkMaker) -> Measure:
        count = effort.amount(_ROUND_TRIPS)
        return partial(round_trip_us, make, _SIZE_BYTES, _CAPACITY, count)

    return Contest(
        "T2",
        "p50",
        "us",
        "lower",
        measure(ours.link),
        {name: measure(rival.link) for name, rival in named.items()},
        {"queue.SimpleQueue": 1.1},
    )


def _contention(effort: Effort, rival: Any) -> Contest:
    def measure(make: LinkMaker) -> Measure:
        work = contention(make, _SIZE_BYTES, _CAPACITY, _WORKERS)
        return steady_rate(work, effort.round_s)

    return Contest(
        "T3",
        "4 + 4",
        "messages/s",
        "higher",
        measure(ours.link),
        {rival.NAME: measure(rival.link)},
        {rival.NAME: 1.5},
    )


def _memory(effort: Effort) -> list[Contest]:
    """Return T5; a limit is a rival with a constant value, to stay below."""
    pairs, brokers = effort.amount(10_000), effort.amount(1_000)
    return [
        Contest(
            "T5",
            case,
            unit,
            "lower",
            measure,
            {name: rival},
            {name: owed},
        )
        for case, unit, measure, name, rival, owed in (
            ("pair", "KiB", _kib("pairs", pairs), _LIMIT, _always(6.0), 1.0),
            ("broker", "KiB", _kib("brokers", brokers), _LIMIT, _always(2.0), 1.0),
            ("import", "ms", _import("queuebroker"), "attrs", _import("attrs"), 2.0),
        )
    ]


def _kib(what: str, count: int) -> Measure:
    return partial(memory.kib_each, what, count)


def _import(module: str) -> Measure:
    return partial(memory.import_ms, module)


def _always(value: float) -> Callable[[], float]:
    return lambda: value
