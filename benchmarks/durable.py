"""Suite ``durable``: D1 and D2, the cost of a receiver that keeps horizons (AMO-20).

Commands of 64 B between two processes, one way and as round trips, to a durable
receiver with steps of 1024 messages. The rivals in the same run are a volatile
receiver, one with an exact log, which syncs once for each group of messages, and the
storage alone: how many small appends it syncs in a second. The horizons are in the
folder for temporary files, unless TMPDIR names another one.
"""

from __future__ import annotations

import os
import tempfile
from time import perf_counter
from typing import Final

from benchmarks.contest import Contest, Effort, Measure, Row, Values, steady_rate
from benchmarks.figure import OURS
from benchmarks.job import Job, run_job

_MESSAGE: Final = bytes(64)
_MUST: Final = {"volatile": 0.7}  # of its rate, as a sync is rare
_HORIZONS: Final = {OURS: "step", "volatile": "", "exact log": "log"}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of both figures."""

    def measure(act: str, horizons: str) -> Measure:
        job = Job(act, "push", effort.round_s, horizons=horizons)

        def rate() -> Values:
            values = run_job("our_bus", job)
            return values if act == "stream" else {"value": 1e6 / values["p50"]}

        return rate

    return [
        Contest(
            [Row(figure, case, "messages/s", _MUST)],
            {
                **{name: measure(act, kept) for name, kept in _HORIZONS.items()},
                "sync alone": steady_rate(_syncs, effort.round_s),
            },
        )
        for figure, case, act in (
            ("D1", "one way", "stream"),
            ("D2", "round trip", "echo"),
        )
    ], []


def _syncs(count: int) -> float:
    """Append and sync as a log of horizons does; return the duration in seconds."""
    with tempfile.TemporaryFile() as stream:
        began = perf_counter()
        for number in range(count):
            os.pwrite(stream.fileno(), _MESSAGE, number * len(_MESSAGE))
            os.fdatasync(stream.fileno())
        return perf_counter() - began
