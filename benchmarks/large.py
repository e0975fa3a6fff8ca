"""Suite ``large``: large messages, and from one process to several of one machine.

M1 1 MiB to four receivers, M2 64 B to four, P3 64 KiB and 1 MiB to one, M3 round trips
by size. M1, M2 and P3 are measured twice: each receiver reads all bytes of each
message, or none.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Final

from benchmarks.contest import Contest, Effort, Row
from benchmarks.job import Job, contest
from benchmarks.rivals import found

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_M1_MUST: Final = {"pyzmq": 4.0, "zenoh": 1.5, "iceoryx2": 0.9, "bare": 0.7}
_M2_MUST: Final = {"pyzmq": 1.0, "zenoh": 1.0}
_SIZES: Final = {
    "64 B": 64,
    "1 KiB": _KIB,
    "16 KiB": 16 * _KIB,
    "64 KiB": 64 * _KIB,
    "1 MiB": _MIB,
    "16 MiB": 16 * _MIB,
}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of each figure, or why there are none."""
    if importlib.util.find_spec("numpy") is None:
        return [], [
            "numpy is not installed: M1 to M3 left out, since it reads messages"
        ]
    names, missing = found("our_bus", "pyzmq", "pynng", "zenoh", "iceoryx2", "bare")

    contests = []
    for case, reads in {"read": True, "unread": False}.items():
        job = partial(Job, "stream", seconds=effort.round_s, reads=reads)
        to_four = partial(job, way="publish", receivers=4)
        small = {name: file for name, file in names.items() if name != "bare"}
        m1 = Row("M1", f"1 MiB {case}", "messages/s", _M1_MUST if reads else {})
        m2 = Row("M2", f"64 B {case}", "messages/s", _M2_MUST)
        contests += [
            contest([m1], names, to_four(size=_MIB)),
            # A token for each message is not the least work for small ones.
            contest([m2], small, to_four(size=64)),
        ]
        for text, owed in {"64 KiB": 1.0, "1 MiB": 2.0}.items():
            must = {"pyzmq": owed} if reads else {}
            row = Row("P3", f"{text} {case}", "messages/s", must)
            contests.append(contest([row], names, job(way="push", size=_SIZES[text])))
    echoing = {name: names[name] for name in names if name not in {"pynng", "bare"}}
    for case, size in _SIZES.items():
        trip = Job("echo", "push", effort.round_s, size=size)
        contests.append(contest([Row("M3", case, "us", {}, "p50")], echoing, trip))
    return contests, missing
