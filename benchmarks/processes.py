"""Suite ``processes``: commands between two processes of one machine.

P1 one way, P2 round trip, P3 one way by size. P1 and P2 are measured under each
`Condition`. Each job runs in two processes of its own, both this file run as a program.
The near process measures: ``python -m benchmarks.processes near CONTESTANT JOB COUNT
SIZE``. It starts the far process with a common folder. When the far process is ready,
it prints the processor time that it has used so far.
"""

from __future__ import annotations

import resource
import statistics
import sys
from functools import partial
from itertools import repeat
from time import perf_counter, perf_counter_ns, process_time
from typing import TYPE_CHECKING, Final

from benchmarks.condition import BUSY, ONE_CORE, TWO_CORES, possible
from benchmarks.contest import Contest, Runs, steady_rate
from benchmarks.figure import OURS
from benchmarks.parties import PARTIES, missing
from benchmarks.program import command, far_program, run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.condition import Condition
    from benchmarks.contest import Measure
    from benchmarks.suites import Effort

__all__ = ["LIMIT_S", "run_job", "suite"]

# A job takes a second or two; after this time one of the two processes hangs.
LIMIT_S: Final = 60.0

_MODULE: Final = "benchmarks.processes"
_SMALL_BYTES: Final = 64
_ROUND_TRIPS: Final = 5_000
_SIZES: Final = {"1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20}


# Required ratio by rival; p50 is our own median in the same job.
_RATE_MUSTS: Final = {
    TWO_CORES: {"pyzmq": 1.0, "zenoh": 1.5, "pynng": 8.0},
    ONE_CORE: {"pyzmq": 1.0},
    BUSY: {},
}
_MEDIAN_MUSTS: Final = {TWO_CORES: {"pyzmq": 0.75}, ONE_CORE: {"pyzmq": 1.0}, BUSY: {}}
_P99_OWN_MAX: Final = 5.0
_NEAR_CPU_MAX_US: Final = 50.0
# Under the other conditions only the rival to beat, and the queue below our bus.
_NEAREST: Final = ("queue", "pyzmq")


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contest of each figure."""
    conditions, left_out = possible(quick=effort.is_quick)
    contests: list[Contest] = []
    for condition in conditions:
        rivals = [
            name
            for name in PARTIES
            if name != OURS and (condition is TWO_CORES or name in _NEAREST)
        ]
        contests.append(
            _rate_contest(
                *("P1", f"64 B {condition.name}", effort, _SMALL_BYTES, condition),
                rivals,
                _RATE_MUSTS[condition],
            )
        )
        contests += _round_trip_contests(effort, condition, rivals)
    if TWO_CORES in conditions:
        rivals = [name for name in PARTIES if name not in {OURS, "queue"}]
        contests += [
            _rate_contest("P3", case, effort, size, TWO_CORES, rivals, {"pyzmq": 1.0})
            for case, size in _SIZES.items()
        ]
    return contests, [*missing, *left_out]


def _rate_contest(
    figure: str,
    case: str,
    effort: Effort,
    size: int,
    condition: Condition,
    rivals: Iterable[str],
    must: dict[str, float],
) -> Contest:
    def rate(name: str) -> Measure:
        return steady_rate(
            lambda count: run_job(name, "sink", count, size, condition)[0],
            effort.round_s,
        )

    return Contest(
        *(figure, case, "messages/s", "higher", rate(OURS)),
        {name: rate(name) for name in rivals},
        must,
    )


def _round_trip_contests(
    effort: Effort, condition: Condition, rivals: Iterable[str]
) -> list[Contest]:
    """Return the figures of one job: percentiles, and processor time of both sides."""
    count = effort.amount(_ROUND_TRIPS)

    def run(name: str) -> list[float]:
        job = run_job(name, "echo", count, _SMALL_BYTES, condition)
        return [each * 1e6 for each in job]

    ours = Runs(partial(run, OURS))
    others = {name: Runs(partial(run, name)) for name in rivals}

    def contest(
        case: str, which: int, own: dict[str, Measure], must: dict[str, float]
    ) -> Contest:
        return Contest(
            *("P2", f"{case} {condition.name}", "us", "lower", ours.measure(which)),
            {name: each.measure(which) for name, each in others.items()} | own,
            must,
        )

    return [
        contest("p50", 0, {}, _MEDIAN_MUSTS[condition]),
        contest("p90", 1, {}, {}),
        contest("p99", 2, {"p50": ours.measure(0)}, {"p50": _P99_OWN_MAX}),
        contest("CPU near", 3, {"limit": lambda: _NEAR_CPU_MAX_US}, {"limit": 1.0}),
        contest("CPU far", 4, {}, {}),
    ]


def run_job(
    name: str, job: str, count: int, size: int, condition: Condition = TWO_CORES
) -> list[float]:
    """Run a job with a contestant.

    Returns, in seconds: for ``sink`` the duration; for ``echo`` the 50th, 90th and 99th
    percentile of a round trip, and the processor time of one on the near and on the far
    side.

    Raises:
        RuntimeError: the job failed, or was not done in time; names contestant and job.
    """
    what = f"{name}, {job} of {count} x {size} bytes"
    arguments = command(_MODULE, "near", name, job, count, size)
    with condition.imposed():
        return run_program(what, arguments, LIMIT_S)


def _measure(name: str, job: str, count: int, size: int) -> list[float]:
    """Run as the near process, which measures."""
    message = bytes(size)
    with far_program(_MODULE, "far", name, job, count) as (folder, line):
        ready_s = float(line)
        near = PARTIES[name].near(folder, job)
        try:
            if job != "echo":
                began = perf_counter()
                for _ in repeat(None, count):
                    near.send(message)
                near.finished()
                return [perf_counter() - began]
            used_s = process_time()
            trips = _round_trips(near.ask, message, count)
            near_s = process_time() - used_s
        finally:
            near.close()
    # The far process is the only child, and has ended.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    far_s = used.ru_utime + used.ru_stime - ready_s
    return [*trips, near_s / count, far_s / count]


def _round_trips(
    ask: Callable[[bytes], object], message: bytes, count: int
) -> list[float]:
    taken_ns = []
    for _ in repeat(None, count):
        start = perf_counter_ns()
        ask(message)
        taken_ns.append(perf_counter_ns() - start)
    parts = statistics.quantiles(taken_ns, n=100)
    return [parts[percent - 1] / 1e9 for percent in (50, 90, 99)]


def _main(side: str, name: str, job: str, count: str, last: str) -> None:
    if side == "near":
        print(*_measure(name, job, int(count), int(last)))
    else:
        # The processor time before the job, to be subtracted from the total.
        PARTIES[name].far(
            last, job, int(count), lambda: print(process_time(), flush=True)
        )


if __name__ == "__main__":
    _main(*sys.argv[1:])
