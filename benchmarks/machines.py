"""Suite ``machines``: N1, messages between two machines, with TLS and without.

The machines are two network namespaces, joined by a veth pair and made anew for each
job. Our bus permits plain TCP on the loopback interface alone. So without TLS all
contestants are measured there, both sides in one namespace.

Each job runs in two processes of its own, both this file run as a program. The near
process measures: ``python -m benchmarks.machines near CONTESTANT JOB COUNT LINK FOLDER
NAMESPACE``. It starts the far process in its namespace. When the far process has
imported its modules and its server, if any, listens, both connect at the same moment.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks import rivals
from benchmarks.contest import Contest, Runs, steady_rate
from benchmarks.figure import OURS
from benchmarks.namespaces import ADDRESSES, inside, namespace_pair, refusal
from benchmarks.program import command, run_program, start_program
from benchmarks.testbed import Arrivals, Testbed, percentiles_s

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.contest import Measure
    from benchmarks.suites import Effort

__all__ = ["LIMIT_S", "run_job", "suite"]

# A job takes a second or two; after this time one of the two processes hangs.
LIMIT_S: Final = 60.0

_MODULE: Final = "benchmarks.machines"
_SMALL_BYTES: Final = 64
_END_S: Final = 5.0  # for the far side to end by itself after the near side has closed
_ROUND_TRIPS: Final = 5_000
_LOOPBACK: Final = "127.0.0.1"
_RIVALS: Final = ("nats", "zenoh", "pyzmq_tcp")


@attrs.frozen
class _Link:
    """The way between the two sides.

    text: as the tables show it.
    must: the required ratio of rates, and of medians, by rival.
    """

    text: str
    secure: bool
    must: dict[str, float]

    def testbed(self, folder: str) -> Testbed:
        near, far = ADDRESSES if self.secure else (_LOOPBACK, _LOOPBACK)
        return Testbed(near, far, folder, self.secure)


_LINKS: Final = {
    "tls": _Link("TLS, two namespaces", True, {"nats": 1.0}),
    "plain": _Link("plain, loopback of one namespace", False, {}),
}


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests over each link, or why there are none."""
    reason = _obstacle()
    if reason:
        return [], [reason]
    found, missing = rivals.load(_RIVALS)
    names = [rival.NAME for rival in found]
    contests: list[Contest] = []
    for link in _LINKS:
        contests.append(_rate_contest(effort, link, names))
        contests += _round_trip_contests(effort, link, names)
    return contests, missing


def _obstacle() -> str:
    """Return why nothing can be measured; empty if nothing prevents it."""
    try:
        importlib.import_module("bus.keys.authority")
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: N1 left out, since it makes the keys"
    reason = refusal()
    return reason and f"N1 left out, since it needs network namespaces: {reason}"


def _rate_contest(effort: Effort, link: str, names: Iterable[str]) -> Contest:
    def rate(name: str) -> Measure:
        return steady_rate(
            lambda count: run_job(name, "sink", count, link)[0], effort.round_s
        )

    return Contest(
        *("N1", f"64 B {_LINKS[link].text}", "messages/s", "higher", rate(OURS)),
        {name: rate(name) for name in names},
        _LINKS[link].must,
    )


def _round_trip_contests(
    effort: Effort, link: str, names: Iterable[str]
) -> list[Contest]:
    """Return the figures of one job: percentiles, and the first message."""
    count = effort.amount(_ROUND_TRIPS)
    ours, *others = (
        Runs(partial(run_job, name, "echo", count, link)) for name in (OURS, *names)
    )

    def contest(
        case: str, which: int, unit: str, scale: float, must: dict[str, float]
    ) -> Contest:
        def measure(runs: Runs) -> Measure:
            measured = runs.measure(which)
            return lambda: measured() * scale

        return Contest(
            *("N1", f"{case} {_LINKS[link].text}", unit, "lower", measure(ours)),
            dict(zip(names, map(measure, others), strict=True)),
            must,
        )

    return [
        contest("p50", 0, "us", 1e6, _LINKS[link].must),
        contest("p99", 1, "us", 1e6, {}),
        contest("first message", 2, "ms", 1e3, {}),
    ]


def run_job(name: str, job: str, count: int, link: str) -> list[float]:
    """Run a job with a contestant, in namespaces of its own.

    Returns, in seconds: for ``sink`` the duration; for ``echo`` the 50th and the 99th
    percentile of a round trip, and the time from the start of both sides until the
    first message has arrived.

    Raises:
        RuntimeError: the job failed, or was not done in time; names contestant and job.
        OSError: the system refuses namespaces.
    """
    what = f"{name} over {link}, {job} of {count} x {_SMALL_BYTES} bytes"
    # A short prefix, since the path of a socket must be short.
    with (
        tempfile.TemporaryDirectory(prefix="qb-") as folder,
        namespace_pair() as (near, far),
    ):
        _make_keys(_LINKS[link].testbed(folder))
        namespace = far if _LINKS[link].secure else near
        arguments = ("near", name, job, count, link, folder, namespace)
        return run_program(what, inside(near, command(_MODULE, *arguments)), LIMIT_S)


def _make_keys(testbed: Testbed) -> None:
    # Imported here, since the other processes need no package to make keys.
    from bus.keys.authority import Authority  # noqa: PLC0415

    if testbed.secure:
        authority = Authority.create(testbed.folder / "authority")
        for machine in ("near", "far"):
            authority.issue(machine, testbed.keys(machine))


def _measure(
    name: str, job: str, count: int, link: str, folder: str, namespace: str
) -> list[float]:
    """Run as the near process, which measures."""
    contestant = _contestant(name)
    testbed = _LINKS[link].testbed(folder)
    message = bytes(_SMALL_BYTES)
    arguments = command(_MODULE, "far", name, job, count, link, folder)
    with start_program(inside(namespace, arguments)) as far:
        assert far.stdin is not None
        assert far.stdout is not None
        far.stdout.readline()  # it is ready to connect
        began = perf_counter()
        far.stdin.write("connect\n")
        far.stdin.flush()
        near = contestant.near(testbed, job)
        try:
            act = near.stream if job == "sink" else near.trips
            act(message, 1)
            first_s = float(far.stdout.readline()) - began
            if job == "echo":
                return [*percentiles_s(near.trips(message, count)), first_s]
            began = perf_counter()
            near.stream(message, count)
            return [float(far.stdout.readline()) - began]
        finally:
            near.close()
            far.stdin.close()
            try:
                far.wait(_END_S)
            except subprocess.TimeoutExpired:
                far.kill()


def _serve_far(name: str, job: str, count: int, link: str, folder: str) -> None:
    contestant = _contestant(name)
    testbed = _LINKS[link].testbed(folder)
    with contestant.service(testbed):
        print("ready", flush=True)
        sys.stdin.readline()
        contestant.far(testbed, job, Arrivals(count), sys.stdin.read)


def _contestant(name: str) -> Any:
    """Return the module of a contestant; only that one is imported."""
    files = {OURS: "our_machines", "pyzmq": "rivals.pyzmq_tcp"}
    return importlib.import_module(f"benchmarks.{files.get(name, f'rivals.{name}')}")


def _main(side: str, name: str, job: str, count: str, link: str, *rest: str) -> None:
    if side == "near":
        print(*_measure(name, job, int(count), link, *rest))
    else:
        _serve_far(name, job, int(count), link, *rest)


if __name__ == "__main__":
    _main(*sys.argv[1:])
