"""Suite ``pattern``: four nodes of a bus, each connected with each other.

One node sends, in a process of its own as all others. For the rates the receivers
acknowledge by a pipe, so that nobody loses a message. A slow receiver acknowledges
nothing: there the figure is how many messages arrive, and each library's account of the
rest is printed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks import rivals
from benchmarks.contest import Contest, steady_rate
from benchmarks.figure import OURS
from benchmarks.multicast import run_job
from benchmarks.multicast_job import MulticastJob

if TYPE_CHECKING:
    from benchmarks.contest import Measure
    from benchmarks.suites import Effort

__all__ = ["suite"]

_RIVALS: Final = ("pynng_pattern", "nanomsg_pattern")
_MUST: Final = {"pynng": 5.0}
_SIZES: Final = {"64 B": 64, "4 KiB": 4096}
_OTHERS: Final = 3
_FLOOD: Final = 20_000
# nanomsg has no queue for each peer: with 16 messages under way it loses some, and each
# loss would stall the job. By default the window holds `MulticastJob.window` messages.
_WINDOWS: Final = {"nanomsg": 4}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of each figure, or why there are none."""
    try:
        importlib.import_module("numpy")
    except ModuleNotFoundError:
        return [], ["numpy is not installed: B1 left out, since it reads messages"]
    found, missing = rivals.load(_RIVALS)
    names = [rival.NAME for rival in found]
    contests = [
        Contest(
            *("B1", text, "messages/s", "higher", _rate(OURS, size, effort)),
            {name: _rate(name, size, effort) for name in names},
            _MUST,
        )
        for text, size in _SIZES.items()
    ]
    slow = MulticastJob("slow", effort.amount(_FLOOD), 64, _OTHERS)
    contests.append(
        Contest(
            *("B1", f"slow, of {slow.count}", "messages", "higher"),
            _count(OURS, slow),
            {name: _count(name, slow) for name in names},
        )
    )
    return contests, missing


def _rate(name: str, size: int, effort: Effort) -> Measure:
    job = MulticastJob("bus", 1, size, _OTHERS)
    job = attrs.evolve(job, window_max=_WINDOWS.get(name, job.window_max))

    def work(count: int) -> float:
        [taken_s] = run_job(name, attrs.evolve(job, count=count))
        return taken_s

    return steady_rate(work, effort.round_s)


def _count(name: str, job: MulticastJob) -> Measure:
    def measure() -> float:
        [arrived] = run_job(name, job)
        return arrived

    return measure
