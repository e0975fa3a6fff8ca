"""Suite ``users``: the bus as the README teaches it, with default settings.

U1 calls with dicts a task of another process, beside REQ and REP of pyzmq with JSON: a
hundred a second, 500 a second, one after another. U3 does the same in coroutines, with
`bus.aio` beside `zmq.asyncio`. U2 sends a thousand notifications a
second to subscribers in two processes, beside PUB and SUB. Processor time is that of
all processes of a job, without their start and end.
"""

from __future__ import annotations

from typing import Final

import attrs

from benchmarks.contest import Contest, Effort, Row
from benchmarks.job import Job, contest, possible_cores
from benchmarks.rivals import found

_PACES: Final = {"100/s": 100, "500/s": 500, "unpaced": 0}
_CALL_MUSTS: Final = {"p50": 1.0, "p99": 1.5, "CPU": 1.5}
_COROUTINE_MUSTS: Final = {"p50": 1.0, "p99": 1.5, "CPU": 1.0}
_STREAM_MUSTS: Final = {"p50": 1.5, "p99": 2.0, "CPU": 2.0}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of all figures."""
    names, missing = found("our_call", "pyzmq_json")
    in_loops, _ = found("our_coroutines", "pyzmq_coroutines")
    cores, left_out = possible_cores(quick=effort.is_quick)
    contests, coroutines = [], []
    for count, text in cores.items():
        for pace, hz in _PACES.items():
            seconds = effort.round_s * (6 if hz else 2)
            call = Job("echo", "push", seconds, values=True, hz=hz, cores=count)
            contests.append(contest(_rows("U1", pace, text, _CALL_MUSTS), names, call))
            rows = _rows("U3", pace, text, _COROUTINE_MUSTS)
            coroutines.append(contest(rows, in_loops, call))
        seconds = effort.round_s * 10
        stream = Job("paced", "publish", seconds, receivers=2, values=True, hz=1000)
        stream = attrs.evolve(stream, cores=count)
        rows = _rows("U2", "1 kHz to two", text, _STREAM_MUSTS)
        contests.append(contest(rows, names, stream))
    return [*contests, *coroutines], [*missing, *left_out]


def _rows(figure: str, case: str, cores: str, musts: dict[str, float]) -> list[Row]:
    return [
        Row(figure, f"{case} {what} {cores}", "us", {"pyzmq": owed}, what)
        for what, owed in musts.items()
    ]
