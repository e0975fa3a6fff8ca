"""Suite ``durable``: D1 and D2, the cost of a receiver that keeps horizons (AMO-20).

Commands of 64 B between two processes, one way and as round trips, to a durable
receiver with steps of 1024 messages. The rivals in the same run are a volatile
receiver, one with an exact log, which syncs once for each group of messages, and the
storage alone: how many small appends it syncs in a second. The horizons are in the
folder for temporary files, unless TMPDIR names another one.

Each job runs in two processes of its own: ``python -m benchmarks.durable near
CONTESTANT JOB COUNT`` measures, and starts the far one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.contest import Contest, steady_rate
from benchmarks.figure import OURS
from benchmarks.parties import PARTIES, far_bus
from benchmarks.program import command, far_program, run_program
from bus import Durability

if TYPE_CHECKING:
    from benchmarks.contest import Measure
    from benchmarks.suites import Effort

__all__ = ["run_job", "suite"]

_MODULE: Final = "benchmarks.durable"
_MESSAGE: Final = bytes(64)
_LIMIT_S: Final = 60.0
_MUST: Final = 0.7  # of the rate of a volatile receiver, as a sync is rare
_VOLATILE: Final = "volatile"
# By contestant, for any directory; None for a volatile receiver.
_SETTINGS: Final = {
    OURS: Durability("any", step=1024),
    _VOLATILE: None,
    "exact log": Durability("any", accept_log=True),
}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of both figures."""

    def rate(name: str, job: str) -> Measure:
        return steady_rate(partial(run_job, name, job), effort.round_s)

    others = [name for name in _SETTINGS if name != OURS]
    return [
        Contest(
            *(figure, case, "messages/s", "higher", rate(OURS, job)),
            {
                **{name: rate(name, job) for name in others},
                "sync alone": steady_rate(_syncs, effort.round_s),
            },
            {_VOLATILE: _MUST},
        )
        for figure, case, job in (
            ("D1", "one way", "sink"),
            ("D2", "round trip", "echo"),
        )
    ], []


def run_job(name: str, job: str, count: int) -> float:
    """Run a job with a contestant; return its duration in seconds.

    Raises:
        RuntimeError: the job failed, or was not done in time; names contestant and job.
    """
    arguments = command(_MODULE, "near", name, job, count)
    [taken_s] = run_program(f"{name}, {job} of {count}", arguments, _LIMIT_S)
    return taken_s


def _syncs(count: int) -> float:
    """Append and sync as a log of horizons does; return the duration in seconds."""
    with tempfile.TemporaryFile() as stream:
        began = perf_counter()
        for number in range(count):
            os.pwrite(stream.fileno(), _MESSAGE, number * len(_MESSAGE))
            os.fdatasync(stream.fileno())
        return perf_counter() - began


def _near(name: str, job: str, count: int) -> float:
    with far_program(_MODULE, "far", name, job, count) as (folder, _):
        near = PARTIES[OURS].near(folder, job)
        try:
            began = perf_counter()
            if job == "echo":
                for _ in range(count):
                    near.ask(_MESSAGE)
            else:
                for _ in range(count):
                    near.send(_MESSAGE)
                near.finished()
            taken_s = perf_counter() - began
        finally:
            near.close()
    return taken_s


def _far(name: str, job: str, count: int, folder: str) -> None:
    settings = _SETTINGS[name]
    durability = None
    if settings is not None:
        durability = attrs.evolve(settings, directory=Path(folder, "horizons"))
    far_bus(folder, job, count, partial(print, flush=True), durability)


def _main(side: str, name: str, job: str, count: str, folder: str = "") -> None:
    if side == "near":
        print(_near(name, job, int(count)))
    else:
        _far(name, job, int(count), folder)


if __name__ == "__main__":
    _main(*sys.argv[1:])
