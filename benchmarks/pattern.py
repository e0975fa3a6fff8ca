"""Suite ``pattern``: B1, four nodes of a bus, each connected with each other.

One node sends, in a process of its own as all others. The receivers acknowledge by a
pipe, so that no library loses a message.
"""

from __future__ import annotations

from benchmarks.contest import Contest, Effort, Row
from benchmarks.job import Job, contest
from benchmarks.rivals import found


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of both sizes."""
    names, missing = found("our_node", "pynng")
    contests = []
    for case, size in {"64 B": 64, "4 KiB": 4096}.items():
        job = Job("stream", "mesh", effort.round_s, size=size, receivers=3)
        row = Row("B1", case, "messages/s", {"pynng": 5.0})
        contests.append(contest([row], names, job))
    return contests, missing
