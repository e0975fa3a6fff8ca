"""Suite ``sockets``: messages between two processes, over UNIX sockets and TCP.

W1 one way, in a plain loop of send and receive; W1b in bulk; W2 round trip; W3 1 MiB.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.contest import Contest, Effort, Row
from benchmarks.job import Job, contest
from benchmarks.rivals import found

_PLAIN: Final = {"pyzmq": 0.8, "multiprocessing.connection": 1.0}
_FAST: Final = {"pyzmq": 1.0}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of each figure over each medium."""
    names, missing = found("our_queue", "connection", "pyzmq", "pynng")
    contests = []
    for medium in ("unix", "tcp"):
        job = partial(Job, way="pair", seconds=effort.round_s, medium=medium)
        large = Row("W3", f"{medium} 1 MiB", "messages/s", _FAST)
        trip = Row("W2", medium, "us", {"pyzmq": 0.75}, "p50")
        contests += [
            contest([Row("W1", medium, "messages/s", _PLAIN)], names, job("stream")),
            contest([Row("W1b", medium, "messages/s", _FAST)], names, job("bulk")),
            contest([trip], names, job("echo")),
            contest([large], names, job("stream", size=1 << 20)),
        ]
    return contests, missing
