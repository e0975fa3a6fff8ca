"""Suite ``sockets``: messages between two processes, over UNIX sockets and TCP.

W1 one way, W1b in bulk, W2 round trip, W3 1 MiB. The other process is this file, run
as a program: ``python -m benchmarks.sockets CONTESTANT ADDRESS JOB COUNT SIZE``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING

from benchmarks.contest import Contest, Measure, steady_rate
from benchmarks.figure import OURS
from benchmarks.wires import CAPACITY, WIRES, Wire, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.suites import Effort

__all__ = ["suite"]

_SMALL_BYTES = 64
_LARGE_BYTES = 1 << 20
_BATCH = 256
_ROUND_TRIPS = 5_000
_LIMIT_S = 60

_MEDIA = {"unix": "ipc://{folder}/wire", "tcp": "tcp://127.0.0.1:0"}
_DONE = b"done"
_BYE = b"bye"


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Give each figure over each medium."""
    contests = []
    for medium in _MEDIA:
        one_way = partial(_rate, effort, medium, _SMALL_BYTES)
        contests += [
            _contest("W1", medium, "messages/s", one_way, {"pynng": 1.0}),
            _contest("W1b", medium, "messages/s", partial(one_way, many=True), _FAST),
            _contest(
                "W2",
                medium,
                "us",
                partial(_round_trip, effort, medium),
                {"pyzmq": 0.75},
            ),
            _contest(
                "W3",
                f"{medium} 1 MiB",
                "messages/s",
                partial(_rate, effort, medium, _LARGE_BYTES),
                _FAST,
            ),
        ]
    return contests, missing


_FAST = {"pyzmq": 1.0}


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
        {name: measure(name) for name in WIRES if name != OURS},
        must,
    )


def _rate(
    effort: Effort, medium: str, size: int, name: str, *, many: bool = False
) -> Measure:
    def work(count: int) -> float:
        with _other(name, medium, "drain" if many else "sink", count, size) as wire:
            message = bytes(size)
            began = perf_counter()
            if many and wire.many is not None:
                batch = [message] * _BATCH
                for _ in range(count // _BATCH):
                    wire.many(batch)
                wire.many([message] * (count % _BATCH))
            else:
                for _ in repeat(None, count):
                    wire.send(message)
            _expect(wire, _DONE)
            taken_s = perf_counter() - began
            wire.send(_BYE)
            return taken_s

    if size == _LARGE_BYTES:
        count = effort.amount(300)
        return lambda: count / work(count)
    return steady_rate(work, effort.round_s)


def _round_trip(effort: Effort, medium: str, name: str) -> Measure:
    count = effort.amount(_ROUND_TRIPS)

    def measure() -> float:
        taken_ns = []
        with _other(name, medium, "echo", count, _SMALL_BYTES) as wire:
            message = bytes(_SMALL_BYTES)
            for _ in repeat(None, count):
                start = perf_counter_ns()
                wire.send(message)
                wire.receive()
                taken_ns.append(perf_counter_ns() - start)
            _expect(wire, _DONE)
            wire.send(_BYE)
        return statistics.median(taken_ns) / 1_000

    return measure


@contextmanager
def _other(name: str, medium: str, job: str, count: int, size: int) -> Iterator[Wire]:
    """Start the other process; give the wire to it once it is ready."""
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        where, accept = WIRES[name].listen(_MEDIA[medium].format(folder=folder))
        command = [sys.executable, "-m", __spec__.name, name, where, job]
        with subprocess.Popen(
            [*command, str(count), str(size)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        ) as process:
            wire = accept()
            try:
                _expect(wire, b"ready")
                yield wire
            except BaseException:
                process.kill()
                raise
            finally:
                if process.poll() is None:
                    process.wait(_LIMIT_S)
                wire.close()


def _expect(wire: Wire, message: bytes) -> None:
    got = wire.receive()
    if got != message:
        raise AssertionError(
            f"expected {message!r} from the other process, got {got!r}"
        )


def _other_main(name: str, address: str, job: str, count: int, size: int) -> None:
    """Be the other process."""
    wire = WIRES[name].dial(address)
    wire.send(b"ready")
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
    # Some drop what is not sent when they are closed.
    _expect(wire, _BYE)
    wire.close()


if __name__ == "__main__":
    _, contestant, address, job, count, size = sys.argv
    _other_main(contestant, address, job, int(count), int(size))

assert CAPACITY >= _BATCH
