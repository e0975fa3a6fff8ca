"""Threads that begin together, and the seconds until the last has done its job.

Each thread reads the clock itself, after the common start, so that the result excludes
the start and the join of threads.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from time import perf_counter

__all__ = ["together"]

Job = Callable[[], object]

_LIMIT_S = 120.0


def together(*jobs: Job) -> float:
    """Run each job in a thread of its own; return the seconds from first to last.

    Raises:
        TimeoutError: if a job takes more than two minutes, because a contestant hangs.
        Exception: the exception of the first job that failed.
    """
    gate = threading.Barrier(len(jobs))
    reports: queue.SimpleQueue[tuple[float, float] | BaseException] = (
        queue.SimpleQueue()
    )
    threads = [
        threading.Thread(target=_work, args=(job, gate, reports), daemon=True)
        for job in jobs
    ]
    for thread in threads:
        thread.start()
    spans = [_span(reports) for _ in jobs]
    for thread in threads:
        thread.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)


def _work(
    job: Job,
    gate: threading.Barrier,
    reports: queue.SimpleQueue[tuple[float, float] | BaseException],
) -> None:
    try:
        gate.wait(_LIMIT_S)
        start = perf_counter()
        job()
        end = perf_counter()
    except BaseException as error:  # noqa: BLE001 # the thread's outermost loop
        reports.put(error)
    else:
        reports.put((start, end))


def _span(
    reports: queue.SimpleQueue[tuple[float, float] | BaseException],
) -> tuple[float, float]:
    try:
        report = reports.get(timeout=_LIMIT_S)
    except queue.Empty:
        raise TimeoutError(
            f"cannot measure: a job was not done after {_LIMIT_S:.0f} s"
        ) from None
    if isinstance(report, BaseException):
        raise report
    return report
