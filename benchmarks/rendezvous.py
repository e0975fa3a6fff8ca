"""Suite ``rendezvous``: T4, connects and disconnects of two threads per second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import ours, rivals
from benchmarks.contest import Contest, Measure, steady_rate
from benchmarks.workloads import MeetingMaker, meetings

if TYPE_CHECKING:
    from benchmarks.suites import Effort

__all__ = ["suite"]

_CASES = {"one": 1, "sixteen": 16}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return T4 with one pair of threads and with sixteen, each on its own port."""
    found, missing = rivals.load(["multiprocessing_connection"])

    def measure(make: MeetingMaker, pairs: int) -> Measure:
        return steady_rate(meetings(make, pairs), effort.round_s)

    contests = [
        Contest(
            "T4",
            case,
            "meetings/s",
            "higher",
            measure(ours.doors, pairs),
            {rival.NAME: measure(rival.doors, pairs) for rival in found},
            {"multiprocessing.connection": 1.0},
        )
        for case, pairs in _CASES.items()
    ]
    return contests, missing
