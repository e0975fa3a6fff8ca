"""Suite ``threads``: messages between threads of one process, and their memory.

T1 one way, T1b in bulk, T2 round trip, T3 contention, T5 memory and import time. The
same loops for all contestants call their bound methods; no wrapper stands between.
"""

from __future__ import annotations

import importlib
import queue
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import repeat
from time import perf_counter, perf_counter_ns
from typing import Any, Final

from benchmarks import memory
from benchmarks.contest import Contest, Effort, Row, Values, steady_rate
from benchmarks.figure import OURS
from benchmarks.rivals import found, our_queue
from queuebroker import MessageQueue
from specs.clauses import clause

__all__ = ["Link", "round_trip_us", "stream", "suite", "together"]

_End = tuple[Callable[[bytes], object], Callable[[], bytes]]  # send, receive
# Two ends, connected: the near and the far one.
Link = tuple[_End, _End]
# Opens a fresh link whose buffers hold that many messages.
LinkMaker = Callable[[int], AbstractContextManager[Link]]

_SIZE_BYTES: Final = 64
_CAPACITY: Final = 1024
_BATCH: Final = 256
_WORKERS: Final = 4
_ROUND_TRIPS: Final = 10_000
_LIMIT_S: Final = 120.0


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return T1, T1b, T2, T3 and T5."""
    names, missing = found("our_queue", "pyzmq", "pynng")
    links: dict[str, LinkMaker] = {
        name: importlib.import_module(f"benchmarks.rivals.{file}").link
        for name, file in names.items()
    }
    links["queue.Queue"] = partial(_crossed, queue.Queue)
    # It has no bound, so its sender never blocks: measured for round trips alone.
    endless: LinkMaker = partial(_crossed, lambda _: queue.SimpleQueue())

    def rate(row: Row, some: dict[str, LinkMaker], workers: int = 1) -> Contest:
        return Contest(
            [row],
            {
                name: steady_rate(stream(make, workers), effort.round_s)
                for name, make in some.items()
            },
        )

    count = effort.amount(_ROUND_TRIPS)
    return [
        rate(
            Row("T1", "64 B", "messages/s", {"pyzmq": 2.0, "queue.Queue": 3.0}), links
        ),
        bulk(effort),
        Contest(
            [Row("T2", "p50", "us", {"queue.SimpleQueue": 1.1})],
            {
                name: partial(round_trip_us, make, count)
                for name, make in (links | {"queue.SimpleQueue": endless}).items()
            },
        ),
        rate(
            Row("T3", "4 + 4", "messages/s", {"queue.Queue": 1.5}),
            {name: links[name] for name in (OURS, "queue.Queue")},
            _WORKERS,
        ),
        *memory.contests(effort),
    ], missing


@contextmanager
def _crossed(make: Callable[[int], Any], capacity: int) -> Iterator[Link]:
    """Open two queues of the standard library, crossed."""
    there, back = make(capacity), make(capacity)
    yield (there.put, back.get), (back.put, there.get)


@clause("QB-BULK-3")
def bulk(effort: Effort) -> Contest:
    """A message costs less in a bulk call than in a single one.

    The rival is our own single send and receive: its ratio must stay above one.
    """
    return Contest(
        [Row("T1b", "64 B", "messages/s", {"single": 1.0})],
        {
            OURS: steady_rate(_bulk_work, effort.round_s),
            "single": steady_rate(stream(our_queue.link), effort.round_s),
        },
    )


def _bulk_work(count: int) -> float:
    batches = -(-count // _BATCH)
    with our_queue.queues(_CAPACITY) as (near, far):
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


def stream(make: LinkMaker, workers: int = 1) -> Callable[[int], float]:
    """Return a job: senders on one end, as many receivers on the other."""
    payload = bytes(_SIZE_BYTES)

    def work(count: int) -> float:
        each = -(-count // workers)
        with make(_CAPACITY) as ((send, _), (_, receive)):
            sending = [partial(_send, send, payload, each)] * workers
            receiving = [partial(_receive, receive, each)] * workers
            return together(*sending, *receiving) * count / (each * workers)

    return work


def _send(send: Callable[[bytes], object], payload: bytes, count: int) -> None:
    for _ in repeat(None, count):
        send(payload)


def _receive(receive: Callable[[], bytes], count: int) -> None:
    message = b""
    for _ in repeat(None, count):
        message = receive()
    if len(message) != _SIZE_BYTES:
        raise AssertionError(f"{_SIZE_BYTES} bytes were sent, {len(message)} came")


def round_trip_us(make: LinkMaker, count: int) -> Values:
    """Send a message there and back ``count`` times; return the median in us."""
    taken_ns: list[int] = []
    with make(_CAPACITY) as (near, far):
        together(partial(_echo, *far, count), partial(_ask, *near, count, taken_ns))
    return {"value": statistics.median(taken_ns) / 1_000}


def _echo(
    send: Callable[[bytes], object], receive: Callable[[], bytes], count: int
) -> None:
    for _ in repeat(None, count):
        send(receive())


def _ask(
    send: Callable[[bytes], object],
    receive: Callable[[], bytes],
    count: int,
    taken_ns: list[int],
) -> None:
    payload = bytes(_SIZE_BYTES)
    for _ in repeat(None, count):
        start = perf_counter_ns()
        send(payload)
        receive()
        taken_ns.append(perf_counter_ns() - start)


def together(*jobs: Callable[[], object]) -> float:
    """Run each job in a thread of its own; return the seconds from first to last.

    Each thread reads the clock itself, after the common start, so that the result
    excludes the start and the join of threads.

    Raises:
        TimeoutError: a job takes more than two minutes, because a contestant hangs.
        Exception: the exception of the first job that failed.
    """
    gate = threading.Barrier(len(jobs))
    reports: queue.SimpleQueue[tuple[float, float] | BaseException] = (
        queue.SimpleQueue()
    )

    def work(job: Callable[[], object]) -> None:
        try:
            gate.wait(_LIMIT_S)
            start = perf_counter()
            job()
            reports.put((start, perf_counter()))
        except BaseException as error:  # noqa: BLE001 # the thread's outermost loop
            reports.put(error)

    threads = [threading.Thread(target=work, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    spans = []
    for _ in jobs:
        try:
            report = reports.get(timeout=_LIMIT_S)
        except queue.Empty:
            raise TimeoutError(f"a job was not done after {_LIMIT_S:.0f} s") from None
        if isinstance(report, BaseException):
            raise report
        spans.append(report)
    for thread in threads:
        thread.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)
