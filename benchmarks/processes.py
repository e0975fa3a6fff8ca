"""Suite ``processes``: commands between two processes of one machine.

P1 one way, P2 round trip, P3 one way by size. A job is done by two processes of its
own, both this file run as a program: one that measures,
``python -m benchmarks.processes near CONTESTANT JOB COUNT SIZE``, and the far one,
which it starts with a folder to meet in. The far one says when it is ready.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from functools import partial
from itertools import repeat
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Final

from benchmarks.contest import Contest, Measure, steady_rate
from benchmarks.figure import OURS
from benchmarks.parties import PARTIES, missing
from benchmarks.program import command, environment, run_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.suites import Effort

__all__ = ["LIMIT_S", "run_job", "suite"]

# A job takes a second or two; after this one of the two processes waits for ever.
LIMIT_S: Final = 60.0

_MODULE: Final = "benchmarks.processes"
_SMALL_BYTES: Final = 64
_END_S: Final = 5.0  # for the far side to end by itself, since it was told
_ROUND_TRIPS: Final = 5_000
_SIZES: Final = {"1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Give each figure."""
    contests = [
        _contest(
            "P1",
            "64 B",
            "messages/s",
            partial(_rate, effort, _SMALL_BYTES),
            {"pyzmq": 1.0, "zenoh": 1.5, "pynng": 8.0},
        ),
        _contest("P2", "p50", "us", partial(_round_trip, effort, 0.5), {"pyzmq": 0.75}),
        _contest("P2", "p99", "us", partial(_round_trip, effort, 0.99), {}),
    ]
    contests += [
        _contest("P3", case, "messages/s", partial(_rate, effort, size), {"pyzmq": 1.0})
        for case, size in _SIZES.items()
    ]
    return contests, missing


def _contest(
    figure: str,
    case: str,
    unit: str,
    measure: Callable[[str], Measure],
    must: dict[str, float],
) -> Contest:
    return Contest(
        figure,
        case,
        unit,
        "lower" if unit == "us" else "higher",
        measure(OURS),
        {name: measure(name) for name in PARTIES if name != OURS},
        must,
    )


def _rate(effort: Effort, size: int, name: str) -> Measure:
    return steady_rate(
        lambda count: run_job(name, "sink", count, size)[0], effort.round_s
    )


def _round_trip(effort: Effort, part: float, name: str) -> Measure:
    count = effort.amount(_ROUND_TRIPS)
    index = 0 if part == 0.5 else 1  # the median
    return lambda: run_job(name, "echo", count, _SMALL_BYTES)[index] * 1e6


def run_job(name: str, job: str, count: int, size: int) -> list[float]:
    """Let a contestant do a job; return seconds, of ``echo`` the median and the p99.

    Raises:
        RuntimeError: it failed, or was not done in time; says who and at what.
    """
    what = f"{name}, {job} of {count} x {size} bytes"
    return run_program(what, command(_MODULE, "near", name, job, count, size), LIMIT_S)


def _measure(name: str, job: str, count: int, size: int) -> list[float]:
    """Be the process that measures."""
    message = bytes(size)
    # Short, since paths of sockets are.
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        arguments = command(_MODULE, "far", name, job, count, folder)
        with subprocess.Popen(
            arguments, env=environment(), stdout=subprocess.PIPE, text=True
        ) as far:
            assert far.stdout is not None
            far.stdout.readline()
            near = PARTIES[name].near(folder, job)
            try:
                if job == "echo":
                    return _round_trips(near.ask, message, count)
                began = perf_counter()
                for _ in repeat(None, count):
                    near.send(message)
                near.finished()
                return [perf_counter() - began]
            finally:
                near.close()
                try:
                    far.wait(_END_S)
                except subprocess.TimeoutExpired:
                    far.kill()


def _round_trips(
    ask: Callable[[bytes], object], message: bytes, count: int
) -> list[float]:
    taken_ns = []
    for _ in repeat(None, count):
        start = perf_counter_ns()
        ask(message)
        taken_ns.append(perf_counter_ns() - start)
    p99 = statistics.quantiles(taken_ns, n=100)[-1]
    return [statistics.median(taken_ns) / 1e9, p99 / 1e9]


def _main(side: str, name: str, job: str, count: str, last: str) -> None:
    if side == "near":
        print(*_measure(name, job, int(count), int(last)))
    else:
        PARTIES[name].far(last, job, int(count), partial(print, "ready", flush=True))


if __name__ == "__main__":
    _main(*sys.argv[1:])
