"""Suite ``scale``: what a bus costs as it grows; S1.

There are no rivals: what is large is compared with what is small, or with a bound, so
these stand where rivals stand. ``python -m benchmarks.scale`` runs one process of it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from benchmarks.contest import Contest
from benchmarks.program import command, environment
from bus import BusConfig, Role, open_bus
from bus.testing import memory_bus

if TYPE_CHECKING:
    from benchmarks.suites import Effort

__all__ = ["suite"]

_FEW: Final = 10
_SENDS: Final = 2_000
_IDLE_TASKS: Final = 2_000
_TASK_KIB: Final = 2.0  # the limit
_FLAT: Final = 1.3


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Give each figure."""
    small = partial(_send_us, effort, _FEW)
    contests = [
        Contest(
            "S1",
            f"send, {tasks:,} tasks",
            "us",
            "lower",
            partial(_send_us, effort, tasks),
            {f"{_FEW} tasks": small},
            {f"{_FEW} tasks": _FLAT},
        )
        for tasks in (1_000, effort.amount(100_000))
    ]
    contests.append(
        Contest(
            "S1",
            "memory of an idle task",
            "KiB",
            "lower",
            _task_kib,
            {"limit": lambda: _TASK_KIB},
            {"limit": 1.0},
        )
    )
    for processes in sorted({20, effort.amount(200)}):
        contests += [
            Contest(
                "S1",
                f"{what}, {processes} processes",
                what,
                "lower",
                partial(_held, processes, index),
                {"2 processes": partial(_held, 2, index)},
                must,
            )
            for index, (what, must) in enumerate(
                [("threads", {"2 processes": 1.0}), ("descriptors", {})]
            )
        ]
    return contests, []


def _send_us(effort: Effort, tasks: int) -> float:
    """Return what one command without an answer costs, tasks served apart."""
    with memory_bus() as bus:
        here = bus.here()
        for number in range(tasks):
            bus.register(f"task{number}", thread=here, on_command=_pass)
        sender = bus.register("sender", thread=here)
        taken = []
        for _ in range(max(1, effort.amount(_SENDS) // 100)):
            began = perf_counter()
            for number in range(100):
                sender.command(f"task{number * (tasks // 100 or 1) % tasks}", b"x")
            taken.append((perf_counter() - began) / 100)
            while here.poll():
                pass
        return statistics.median(taken) * 1e6


def _pass(_: object) -> None:
    """Take a command, and do nothing."""


def _task_kib() -> float:
    with memory_bus() as bus:
        here = bus.here()
        bus.register("first", thread=here, on_command=_pass)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(_IDLE_TASKS):
                bus.register(f"task{number}", thread=here, on_command=_pass)
            here.poll()  # each of them is open
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (after - before) / _IDLE_TASKS / 1024


def _held(processes: int, index: int) -> float:
    return _count(processes)[index]


@cache  # it takes a while, and is the same each time
def _count(processes: int) -> tuple[float, float]:
    """Return the threads and the descriptors of a master with so many on its bus."""
    with tempfile.TemporaryDirectory(prefix="qb-") as folder, ExitStack() as stack:
        config = BusConfig(run_directory=folder, connect_timeout_s=60.0)
        bus = stack.enter_context(open_bus(role=Role.MASTER, config=config))
        others = [
            stack.enter_context(
                subprocess.Popen(
                    command("benchmarks.scale", folder, number),
                    env=environment(),
                    stdin=subprocess.PIPE,
                )
            )
            for number in range(processes - 1)
        ]
        try:
            for number in range(processes - 1):
                bus.wait_for(f"task{number}", timeout=120.0)
            descriptors = len(list(Path("/proc/self/fd").iterdir()))
            return float(threading.active_count()), float(descriptors)
        finally:
            for other in others:
                assert other.stdin is not None
                other.stdin.close()


def _be_there(folder: str, number: str) -> None:
    config = BusConfig(run_directory=folder, connect_timeout_s=60.0)
    with open_bus(process=f"p{os.getpid()}", role=Role.SLAVE, config=config) as bus:
        bus.register(f"task{number}", on_command=_pass)
        sys.stdin.read()


if __name__ == "__main__":
    _be_there(*sys.argv[1:])
