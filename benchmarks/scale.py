"""Suite ``scale``: the cost of a bus as it grows; S1.

There are no rivals. Instead, a large bus is compared with a small one, or with a bound,
in the place of a rival. ``python -m benchmarks.scale`` runs one process of the bus.
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
from typing import TYPE_CHECKING, Any, Final

from benchmarks.contest import Contest
from benchmarks.program import command, environment
from bus import BusConfig, Role, open_bus
from bus.testing import memory_bus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.suites import Effort

__all__ = ["suite"]

_FEW: Final = 10
_MANY: Final = (1_000, 100_000)
_CROWDS: Final = (20, 200)  # processes
_SENDS: Final = 20_000
_AT_ONCE: Final = 8  # processes that start at the same time
_JOINED_S: Final = 120.0  # until they have joined
_IDLE_TASKS: Final = 2_000
_TASK_KIB: Final = 2.0  # the limit
_FLAT: Final = 1.3
# Resources of a process, and their maximum ratio of many processes to two. A master has
# a descriptor for each link, so descriptors have no maximum.
_HELD: Final[Mapping[str, Mapping[str, float]]] = {
    "threads": {"2 processes": 1.0},
    "descriptors": {},
}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contest of each figure."""
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
        for tasks in sorted({_MANY[0], effort.amount(_MANY[1])})
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
    for processes in sorted({_CROWDS[0], effort.amount(_CROWDS[1])}):
        contests += [
            Contest(
                "S1",
                f"{what} of {whose}, {processes} processes",
                what,
                "lower",
                partial(_held, processes, whose, what),
                {"2 processes": partial(_held, 2, whose, what)},
                must,
            )
            for whose in ("master", "slave")
            for what, must in _HELD.items()
        ]
    return contests, []


def _send_us(effort: Effort, tasks: int) -> float:
    """Return the time of one command without an answer, without serving the tasks.

    The commands go to ten tasks, spread over all, whatever the number of tasks. A
    command to an idle task costs more, but this cost does not grow with their number.
    """
    with memory_bus() as bus:
        here = bus.here()
        for number in range(tasks):
            bus.register(f"task{number}", thread=here, on_command=_pass)
        sender = bus.register("sender", thread=here)
        taken = []
        for _ in range(max(1, effort.amount(_SENDS) // 100)):
            began = perf_counter()
            for number in range(100):
                sender.command(f"task{number % _FEW * (tasks // _FEW)}", b"x")
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
            here.poll()  # so that each task is open
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (after - before) / _IDLE_TASKS / 1024


def _held(processes: int, whose: str, what: str) -> float:
    return float(_count(processes)[whose][what])


@cache  # slow, and the same each time
def _count(processes: int) -> Mapping[str, Mapping[str, int]]:
    """Return the resources of a master and a slave on a bus with so many processes."""
    with tempfile.TemporaryDirectory(prefix="qb-") as folder, ExitStack() as stack:
        bus = stack.enter_context(open_bus(role=Role.MASTER, config=_config(folder)))
        others: list[subprocess.Popen[bytes]] = []
        try:
            for number in range(processes - 1):
                others.append(stack.enter_context(_started(folder, number)))
                # Not all at once: on few processors all of them would time out.
                if number >= _AT_ONCE:
                    bus.wait_for(f"task{number - _AT_ONCE}", timeout=_JOINED_S)
            for number in range(processes - 1):
                bus.wait_for(f"task{number}", timeout=_JOINED_S)
            slave: Any = bus.call("task0")
            return {"master": _holds(), "slave": slave}
        finally:
            for other in others:
                assert other.stdin is not None
                other.stdin.close()


def _holds() -> dict[str, int]:
    """Return the threads and descriptors of this process."""
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return {"threads": threading.active_count(), "descriptors": descriptors}


def _config(folder: str) -> BusConfig:
    return BusConfig(run_directory=folder, connect_timeout_s=60.0)


def _started(folder: str, number: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("benchmarks.scale", folder, number),
        env=environment(),
        stdin=subprocess.PIPE,
    )


def _be_there(folder: str, number: str) -> None:
    process = f"p{os.getpid()}"
    with open_bus(process=process, role=Role.SLAVE, config=_config(folder)) as bus:
        bus.register(f"task{number}", on_command=lambda _: _holds())
        sys.stdin.read()


if __name__ == "__main__":
    _be_there(*sys.argv[1:])
