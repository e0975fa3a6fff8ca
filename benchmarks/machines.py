"""Suite ``machines``: N1, messages between two machines, with TLS and without.

The machines are two network namespaces, joined by a veth pair and made anew for each
job. Our bus permits plain TCP on the loopback interface alone. So without TLS all
contestants are measured there.
"""

from __future__ import annotations

import importlib.util
from typing import Final

from benchmarks.contest import Contest, Effort, Row
from benchmarks.job import Job, contest, refusal
from benchmarks.rivals import found

_MEDIA: Final = {
    "tls": ("TLS, two namespaces", {"nats": 1.0}),
    "tcp": ("plain, loopback", {}),
}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests over each medium, or why there are none."""
    obstacle = _obstacle()
    if obstacle:
        return [], [f"N1 left out: {obstacle}"]
    names, missing = found("our_bus", "nats", "zenoh", "pyzmq")
    contests = []
    for medium, (text, must) in _MEDIA.items():
        rate = [Row("N1", f"64 B {text}", "messages/s", must)]
        trip = [
            Row("N1", f"p50 {text}", "us", must, "p50"),
            Row("N1", f"p99 {text}", "us", {}, "p99"),
        ]
        for act, rows in (("stream", rate), ("echo", trip)):
            job = Job(act, "push", effort.round_s, medium=medium)
            contests.append(contest(rows, names, job))
    return contests, missing


def _obstacle() -> str:
    """Return why nothing can be measured; empty if nothing prevents it."""
    if importlib.util.find_spec("cryptography") is None:
        return "cryptography is not installed, which makes the keys"
    reason = refusal()
    return reason and f"it needs network namespaces: {reason}"
