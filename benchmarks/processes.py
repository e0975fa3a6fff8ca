"""Suite ``processes``: commands between two processes of one machine.

P1 one way, P2 round trip, both on two processors and on one; P3 one way by size. The
rival `queue` is our own socket queue: that ratio is the cost of the bus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from benchmarks.contest import Contest, Effort, Row, Values
from benchmarks.job import Job, contest, possible_cores
from benchmarks.rivals import found

_SIZES: Final = {"1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20}
# Required ratio by rival, for each number of processors.
_RATE_MUSTS: Final = {
    2: {"pyzmq": 1.0, "zenoh": 1.5, "pynng": 8.0},
    1: {"pyzmq": 1.0},
}
_MEDIAN_MUSTS: Final = {2: {"pyzmq": 0.75}, 1: {"pyzmq": 1.0}}
_P99_OWN_MAX: Final = 5.0
_NEAR_CPU_MAX_US: Final = 50.0


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contest of each figure."""
    files = ("our_queue", "pyzmq", "pynng", "zenoh")
    names, missing = found("our_bus", *files)
    cores, left_out = possible_cores(quick=effort.is_quick)

    contests = []
    for count, text in cores.items():
        # On one processor only the rival to beat, and the queue below our bus.
        some = names if count > 1 else found("our_bus", *files[:2])[0]
        job = partial(Job, way="push", seconds=effort.round_s, cores=count)
        rate = Row("P1", f"64 B {text}", "messages/s", _RATE_MUSTS[count])
        trip = _round_trip_rows(text, _MEDIAN_MUSTS[count])
        contests += [
            contest([rate], some, job("stream")),
            contest(trip, some, job("echo")),
        ]
        if count > 1:
            others = {name: file for name, file in names.items() if name != "queue"}
            for case, size in _SIZES.items():
                row = Row("P3", case, "messages/s", {"pyzmq": 1.0})
                contests.append(contest([row], others, job("stream", size=size)))
    return contests, [*missing, *left_out]


def _round_trip_rows(cores: str, must: Mapping[str, float]) -> list[Row]:
    """Return the figures of one job; p50 is our own median in the same job."""

    def row(
        what: str,
        must: Mapping[str, float],
        own: Mapping[str, Callable[[Values], float]] = MappingProxyType({}),
    ) -> Row:
        return Row("P2", f"{what} {cores}", "us", must, what, own)

    return [
        row("p50", must),
        row("p90", {}),
        row("p99", {"p50": _P99_OWN_MAX}, {"p50": lambda ours: ours["p50"]}),
        row("CPU near", {"limit": 1.0}, {"limit": lambda _: _NEAR_CPU_MAX_US}),
        row("CPU far", {}),
    ]
