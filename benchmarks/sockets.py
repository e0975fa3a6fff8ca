"""Suite ``sockets``: messages between two processes, over UNIX sockets and TCP.

W1 one way, W1b in bulk, W2 round trip, W3 1 MiB. Each job runs in two processes of its
own, both this file run as a program. One measures: ``python -m benchmarks.sockets
CONTESTANT MEDIUM JOB COUNT SIZE``. It starts the other with an address for the medium.
The other process reports its start, and the receipt of the last message. The measuring
process sends it a message before it may close, because some libraries drop queued
messages at a close. Both processes are killed after `LIMIT_S`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Final

from benchmarks.contest import Contest, Measure, steady_rate
from benchmarks.figure import OURS
from benchmarks.program import command, environment, run_program
from benchmarks.wires import CAPACITY, WIRES, Wire, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.suites import Effort

__all__ = ["LIMIT_S", "run_job", "suite"]

# A job takes a second or two; after this time one of the two processes hangs.
LIMIT_S: Final = 60.0

_MODULE = "benchmarks.sockets"
_SMALL_BYTES = 64
_LARGE_BYTES = 1 << 20
_BATCH = 256
_ROUND_TRIPS = 5_000

_MEDIA = {"unix": "ipc://{folder}/wire", "tcp": "tcp://127.0.0.1:0"}
_READY = b"ready"
_DONE = b"done"
_BYE = b"bye"

_FAST = {"pyzmq": 1.0}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of each figure over each medium."""
    contests = []
    for medium in _MEDIA:
        contests += [
            _contest("W1", medium, partial(_rate, effort, medium, "sink"), {}),
            _contest("W1b", medium, partial(_rate, effort, medium, "drain"), _FAST),
            _contest(
                "W2",
                medium,
                partial(_round_trip, effort, medium),
                {"pyzmq": 0.75},
                unit="us",
            ),
            _contest(
                "W3", f"{medium} 1 MiB", partial(_large_rate, effort, medium), _FAST
            ),
        ]
    return contests, missing


def _contest(
    figure: str,
    case: str,
    measure: Callable[[str], Measure],
    must: dict[str, float],
    *,
    unit: str = "messages/s",
) -> Contest:
    return Contest(
        figure,
        case,
        unit,
        "lower" if unit == "us" else "higher",
        measure(OURS),
        {name: measure(name) for name in WIRES if name != OURS},
        must,
    )


def _rate(effort: Effort, medium: str, job: str, name: str) -> Measure:
    def work(count: int) -> float:
        return run_job(name, medium, job, count, _SMALL_BYTES)

    return steady_rate(work, effort.round_s)


def _large_rate(effort: Effort, medium: str, name: str) -> Measure:
    count = effort.amount(1_000)
    return lambda: count / run_job(name, medium, "sink", count, _LARGE_BYTES)


def _round_trip(effort: Effort, medium: str, name: str) -> Measure:
    count = effort.amount(_ROUND_TRIPS)
    return lambda: run_job(name, medium, "echo", count, _SMALL_BYTES) * 1e6


def run_job(name: str, medium: str, job: str, count: int, size: int) -> float:
    """Run a job with a contestant; return seconds, for ``echo`` of one round trip.

    Raises:
        RuntimeError: the job failed, or was not done in time; names contestant and job.
    """
    what = f"{name} over {medium}, {job} of {count} x {size} bytes"
    arguments = command(_MODULE, name, medium, job, count, size)
    [seconds] = run_program(what, arguments, LIMIT_S)
    return seconds


# The measuring process.


def _measure(name: str, medium: str, job: str, count: int, size: int) -> float:
    message = bytes(size)
    with _other(name, medium, job, count, size) as wire:
        if job == "echo":
            return _median_round_trip_s(wire, message, count)
        began = perf_counter()
        if job == "drain" and wire.many is not None:
            batch = [message] * _BATCH
            for _ in range(count // _BATCH):
                wire.many(batch)
            wire.many([message] * (count % _BATCH))
        else:
            for _ in repeat(None, count):
                wire.send(message)
        _expect(wire, _DONE)
        return perf_counter() - began


def _median_round_trip_s(wire: Wire, message: bytes, count: int) -> float:
    taken_ns = []
    for _ in repeat(None, count):
        start = perf_counter_ns()
        wire.send(message)
        wire.receive()
        taken_ns.append(perf_counter_ns() - start)
    _expect(wire, _DONE)
    return statistics.median(taken_ns) / 1e9


@contextmanager
def _other(name: str, medium: str, job: str, count: int, size: int) -> Iterator[Wire]:
    """Start the other process; yield its wire when it is ready, then let it end."""
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        where, accept = WIRES[name].listen(_MEDIA[medium].format(folder=folder))
        with subprocess.Popen(
            command(_MODULE, name, where, job, count, size), env=environment()
        ) as process:
            wire = accept()
            _expect(wire, _READY)
            yield wire
            wire.send(_BYE)
            if process.wait():
                raise AssertionError(f"other process: exit code {process.returncode}")
            wire.close()


def _expect(wire: Wire, message: bytes) -> None:
    got = wire.receive()
    if got != message:
        raise AssertionError(
            f"expected {message!r} from the other process, got {got!r}"
        )


# The other process.


def _be_other(name: str, address: str, job: str, count: int, size: int) -> None:
    wire = WIRES[name].dial(address)
    wire.send(_READY)
    message = b""
    if job == "drain" and wire.few is not None:
        left = count
        while left:
            messages = wire.few()
            left -= len(messages)
        message = messages[-1]
    elif job == "echo":
        for _ in repeat(None, count):
            message = wire.receive()
            wire.send(message)
    else:
        for _ in repeat(None, count):
            message = wire.receive()
    if len(message) != size:
        raise AssertionError(f"{size} bytes were sent, {len(message)} came")
    wire.send(_DONE)
    _expect(wire, _BYE)
    wire.close()


def _main(name: str, place: str, job: str, count: str, size: str) -> None:
    if place in _MEDIA:
        print(_measure(name, place, job, int(count), int(size)))
    else:
        _be_other(name, place, job, int(count), int(size))


if __name__ == "__main__":
    _main(*sys.argv[1:])

assert CAPACITY >= _BATCH
