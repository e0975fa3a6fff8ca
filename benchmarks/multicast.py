"""Suite ``multicast``: large messages, from one process to several of one machine.

M1 1 MiB to four receivers, M2 64 B to four, P3 64 KiB and 1 MiB to one, M3 round trips
by size, M4 a camera with three viewers. M1, M2 and P3 are measured twice: each receiver
reads all bytes of each message, or none.

Each job runs in processes of its own, all of them this file run as a program. The near
process sends and measures: ``python -m benchmarks.multicast near CONTESTANT JOB
FOLDER``. It starts the receivers, which acknowledge each message; so no contestant
loses a message because its sender is too fast.
"""

from __future__ import annotations

import importlib
import os
import statistics
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from struct import pack_into
from time import monotonic_ns, perf_counter, perf_counter_ns, process_time, sleep
from typing import TYPE_CHECKING, Any, Final

from benchmarks import rivals
from benchmarks.contest import Contest, Runs, steady_rate
from benchmarks.figure import OURS
from benchmarks.multicast_job import Kind, MulticastJob
from benchmarks.program import command, run_program
from benchmarks.receivers import Receivers, StalledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.contest import Measure
    from benchmarks.multicast_sender import MulticastSender
    from benchmarks.suites import Effort

__all__ = ["LIMIT_S", "run_job", "suite"]

# A job takes a few seconds; after this time one of its processes hangs.
LIMIT_S: Final = 90.0

_MODULE: Final = "benchmarks.multicast"
_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_RIVALS: Final = (
    "pyzmq_multicast",
    "pynng_multicast",
    "zenoh_multicast",
    "zenoh_shm_multicast",
    "iceoryx2_multicast",
    "kickmsg_multicast",
    "bare_multicast",
)
# A token for each message is not the least work for small ones, and zenoh shares none.
_NOT_SMALL: Final = ("bare", "zenoh shm")
_ECHOING: Final = ("pyzmq", "zenoh", "zenoh shm", "iceoryx2")
_READS: Final = {"read": True, "unread": False}
_M1_MUST: Final = {"pyzmq": 4.0, "zenoh": 1.5, "iceoryx2": 0.9, "bare": 0.7}
_M2_MUST: Final = {"pyzmq": 1.0, "zenoh": 1.0}
_P3_SIZES: Final = {"64 KiB": (64 * _KIB, 1.0), "1 MiB": (_MIB, 2.0)}

_ECHO_MOST_BYTES: Final = 16 * _MIB
_ROUND_TRIPS: Final = 500
_FRAME_BYTES: Final = 4 * _MIB
_FRAMES: Final = 120
_FRAMES_PER_S: Final = 30
_VIEWERS: Final = 3
_SHARED_MEMORY: Final = Path("/dev/shm")
# The names there by contestant. Ours and the others have none.
_MEMORY_NAMES: Final = {
    "zenoh shm": "*.zenoh",
    "iceoryx2": "iox2_*",
    "kickmsg": "qb-*",  # after the folder of the job
}
_noted: set[str] = set()  # the contestants whose leftovers were printed
_QUIET_S: Final = 0.5  # no message is under way after this time
_WARM_UP: Final = 5  # frames of each viewer whose delay is left out


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return the contests of each figure, or why there are none."""
    try:
        importlib.import_module("numpy")
    except ModuleNotFoundError:
        return [], [
            "numpy is not installed: M1 to M4 left out, since it reads messages"
        ]
    found, missing = rivals.load(_RIVALS)
    names = [rival.NAME for rival in found]
    small = [name for name in names if name not in _NOT_SMALL]
    contests: list[Contest] = []
    for case, reads in _READS.items():
        must = _M1_MUST if reads else {}
        contests += [
            _rate(
                "M1", f"1 MiB {case}", effort, ("notify", _MIB, 4, reads), names, must
            ),
            _rate(
                "M2", f"64 B {case}", effort, ("notify", 64, 4, reads), small, _M2_MUST
            ),
        ]
        contests += [
            _rate(
                *("P3", f"{text} {case}", effort, ("command", size, 1, reads), names),
                {"pyzmq": owed} if reads else {},
            )
            for text, (size, owed) in _P3_SIZES.items()
        ]
    contests += _round_trips(effort, [name for name in names if name in _ECHOING])
    contests += _camera(effort, names)
    return contests, missing


def _rate(
    figure: str,
    case: str,
    effort: Effort,
    job: tuple[Kind, int, int, bool],
    names: list[str],
    must: dict[str, float],
) -> Contest:
    kind, size, receivers, reads = job

    def rate(name: str) -> Measure:
        def work(count: int) -> float:
            [taken_s] = run_job(name, MulticastJob(kind, count, size, receivers, reads))
            return taken_s

        return steady_rate(work, effort.round_s)

    return Contest(
        *(figure, case, "messages/s", "higher", rate(OURS)),
        {name: rate(name) for name in names},
        must,
    )


def _round_trips(effort: Effort, names: list[str]) -> list[Contest]:
    """Return a figure for each size; ours are compared with our smallest one, too."""
    job = MulticastJob("echo", effort.amount(_ROUND_TRIPS), _ECHO_MOST_BYTES)
    ours, *others = (Runs(partial(run_job, name, job)) for name in (OURS, *names))
    contests = []
    for which, (size, _) in enumerate(job.echoes):
        own = {"64 B": ours.measure(0)} if which else {}
        contests.append(
            Contest(
                *("M3", _size_text(size), "us", "lower", ours.measure(which)),
                {
                    name: runs.measure(which)
                    for name, runs in zip(names, others, strict=True)
                }
                | own,
            )
        )
    return contests


def _camera(effort: Effort, names: list[str]) -> list[Contest]:
    """Return the figures of one job: processor time, and the delay of frames."""
    frames = max(_FRAMES_PER_S, effort.amount(_FRAMES))
    job = MulticastJob("camera", frames, _FRAME_BYTES, _VIEWERS, reads=True)
    ours, *others = (Runs(partial(run_job, name, job)) for name in (OURS, *names))
    return [
        Contest(
            *("M4", case, unit, "lower", ours.measure(which)),
            {
                name: runs.measure(which)
                for name, runs in zip(names, others, strict=True)
            },
        )
        for which, (case, unit) in enumerate(
            (("CPU", "ms/s"), ("p50", "us"), ("p99", "us"))
        )
    ]


def _size_text(size: int) -> str:
    for unit, scale in (("MiB", _MIB), ("KiB", _KIB)):
        if size >= scale:
            return f"{size // scale} {unit}"
    return f"{size} B"


def run_job(name: str, job: MulticastJob) -> list[float]:
    """Run a job with a contestant.

    Returns: for "notify" and "command" the seconds until all receivers had all
    messages; if some were lost, the seconds that as many would have taken, and a line
    on stderr. If a rival loses all of them, one counts as delivered. For "echo" the
    median round trip of each size in microseconds. For "camera" the processor time of
    all processes in milliseconds for each second, and the 50th and 99th percentile of
    the time from the stamp of a frame until a viewer has it, in microseconds. For
    "slow" how many messages have arrived.

    Raises:
        RuntimeError: the job failed, or was not done in time; names contestant and job.
    """
    what = f"{name}, {job.kind} of {job.count} x {job.size} bytes to {job.receivers}"
    # A short prefix, since the path of a socket must be short. The folder belongs to
    # this process, so that it goes away even if the others are killed.
    with (
        _leftovers_noted(name),
        tempfile.TemporaryDirectory(prefix="qb-", ignore_cleanup_errors=True) as folder,
    ):
        arguments = command(_MODULE, "near", name, job.text, folder)
        return run_program(what, arguments, LIMIT_S)


@contextmanager
def _leftovers_noted(name: str) -> Iterator[None]:
    """Print the entries that a job leaves in shared memory, once for each contestant.

    Another program that uses the same library may have made them.
    """
    pattern = _MEMORY_NAMES.get(name)
    if pattern is None or name in _noted:
        yield
        return
    before = {*_SHARED_MEMORY.glob(pattern)}
    try:
        yield
    finally:
        left = {*_SHARED_MEMORY.glob(pattern)} - before
        if left:
            _noted.add(name)
            print(f"new in {_SHARED_MEMORY} after a job of {name}:", file=sys.stderr)
            for path in sorted(left):
                print(f"  {path.name}", file=sys.stderr)


def _measure(name: str, job: MulticastJob, folder: str) -> list[float]:
    """Run as the near process, which sends and measures."""
    sender: MulticastSender = _contestant(name, job).near(folder, job)
    try:
        with Receivers(job, _MODULE, "far", name, job.text, folder) as receivers:
            receivers.reach(sender.send)
            sender.reached()
            if job.kind == "echo":
                return _echoes_us(job, sender)
            if job.kind == "camera":
                return _camera_figures(job, sender, receivers)
            if job.kind == "slow":
                return [_arrived(name, job, sender, receivers)]
            return [_stream_s(name, job, sender, receivers)]
    finally:
        sender.close()


def _stream_s(
    name: str, job: MulticastJob, sender: MulticastSender, receivers: Receivers
) -> float:
    # Not zeros, which the system may keep in one page.
    message, send = os.urandom(job.size), sender.send
    room = 0
    began = perf_counter()
    try:
        for number in range(job.count):
            if number == room:
                room = min(job.count, receivers.room_after(number))
            send(message)
        receivers.wait_for(job.count)
    except StalledError:
        taken_s = perf_counter() - began - receivers.stall_s
        got = receivers.delivered
        lost = f"{name}: {job.count - got} of {job.count} messages were not delivered"
        print(lost, file=sys.stderr)
        if not got:
            if name == OURS:
                raise
            # An upper bound of its rate, so that the other rounds are not lost.
            taken_s, got = receivers.stall_s, 1
        return taken_s * job.count / got
    return perf_counter() - began


def _echoes_us(job: MulticastJob, sender: MulticastSender) -> list[float]:
    return [
        _median_us(sender.ask, os.urandom(size), trips) for size, trips in job.echoes
    ]


def _median_us(ask: Callable[[bytes], object], message: bytes, trips: int) -> float:
    taken_ns = []
    for _ in repeat(None, trips):
        start = perf_counter_ns()
        ask(message)
        taken_ns.append(perf_counter_ns() - start)
    return statistics.median(taken_ns) / 1e3


def _camera_figures(
    job: MulticastJob, sender: MulticastSender, receivers: Receivers
) -> list[float]:
    frame, send = bytearray(os.urandom(job.size)), sender.send
    used_s, began = process_time(), perf_counter()
    for number in range(job.count):
        sleep(max(0.0, began + number / _FRAMES_PER_S - perf_counter()))
        receivers.room_after(number)
        pack_into("<q", frame, 0, monotonic_ns())
        send(frame)
    receivers.wait_for(job.count)
    used_s, taken_s = process_time() - used_s, perf_counter() - began
    delays_ns: list[float] = []
    for report in receivers.reports():
        used_s += report[0]
        delays_ns += report[1 + _WARM_UP :]
    parts = statistics.quantiles(delays_ns, n=100)
    return [used_s / taken_s * 1e3, parts[49] / 1e3, parts[98] / 1e3]


def _arrived(
    name: str, job: MulticastJob, sender: MulticastSender, receivers: Receivers
) -> float:
    """Send all messages at once; return how many a receiver got, at least."""
    message, probes = os.urandom(job.size), sender.losses()
    for _ in repeat(None, job.count):
        sender.send(message)
    receivers.wait_until_quiet(_QUIET_S)
    got = receivers.delivered
    told = sender.losses() - probes
    print(
        f"{name}: {got} of {job.count} arrived, the sender knows of {told} losses",
        file=sys.stderr,
    )
    return got


def _serve_far(
    name: str, job: MulticastJob, folder: str, number: int, pipe: int
) -> None:
    # Imported here, since the suite must be able to say that numpy is missing.
    from benchmarks.tally import Tally  # noqa: PLC0415

    _contestant(name, job).far(folder, job, Tally(job, number, pipe))


def _contestant(name: str, job: MulticastJob) -> Any:
    """Return the module of a contestant; only that one is imported."""
    suite_name = "pattern" if job.kind in {"bus", "slow"} else "multicast"
    file = f"rivals.{name.replace(' ', '_')}_{suite_name}"
    return importlib.import_module(
        f"benchmarks.{f'our_{suite_name}' if name == OURS else file}"
    )


def _main(side: str, name: str, text: str, folder: str, *rest: str) -> None:
    job = MulticastJob.of_text(text)
    if side == "near":
        print(*_measure(name, job, folder))
    else:
        _serve_far(name, job, folder, *map(int, rest))


if __name__ == "__main__":
    _main(*sys.argv[1:])
