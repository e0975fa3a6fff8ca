"""Jobs from one process to several: each ends, and a lost message is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import multicast, receivers, rivals
from benchmarks.figure import OURS
from benchmarks.multicast_job import CREDIT, HERE, PROBE, MulticastJob
from benchmarks.multicast_sender import MulticastSender
from benchmarks.receivers import Receivers, StalledError
from benchmarks.suites import Effort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.tally import Tally

_EFFORT = Effort(rounds=5, round_s=0.1, scale=0.1)
_MIB = 1 << 20
_FOUND, _MISSING = rivals.load(multicast._RIVALS)
_SMALL = MulticastJob("notify", count=20, size=4096, receivers=2, reads=True)


# Jobs.


@pytest.mark.parametrize(
    ("size", "window", "batch"),
    [(64, 1024, 64), (65_536, 128, 8), (_MIB, 8, 1), (16 * _MIB, 4, 1)],
)
def test_a_window_is_a_power_of_two_and_bounds_the_bytes(
    size: int, window: int, batch: int
) -> None:
    job = MulticastJob("notify", count=10, size=size)

    assert (job.window, job.batch) == (window, batch)


def test_a_job_passes_as_one_argument() -> None:
    assert MulticastJob.of_text(_SMALL.text) == _SMALL


def test_the_round_trips_of_a_job_go_up_to_its_size_and_become_fewer() -> None:
    job = MulticastJob("echo", count=100, size=16 * _MIB)

    sizes, trips = zip(*job.echoes, strict=True)

    assert sizes == tuple(64 * 4**step for step in range(10))
    assert trips == (100,) * 6 + (25, 10, 10, 10)
    assert job.total == sum(trips)
    assert MulticastJob("notify", count=7, size=64).total == 7


# One receiver.


def _tally(job: MulticastJob, pipe: int) -> Tally:
    from benchmarks.tally import Tally  # noqa: PLC0415  # it needs numpy

    return Tally(job, 0, pipe)


@pytest.fixture
def pipe() -> Iterator[tuple[Callable[[], bytes], int]]:
    """The acknowledgements so far, and the descriptor to write them to."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def signs() -> bytes:
        try:
            return os.read(reading, 4096)
        except BlockingIOError:
            return b""

    yield signs, writing
    os.close(reading)
    os.close(writing)


def test_a_receiver_acknowledges_each_batch_and_the_last_message(
    pipe: tuple[Callable[[], bytes], int],
) -> None:
    signs, writing = pipe
    job = MulticastJob("notify", count=100, size=64)
    tally = _tally(job, writing)

    taken = [tally.take(bytes(64)) for _ in range(job.batch)]
    assert all(taken)
    assert signs() == CREDIT
    assert not tally.done
    for _ in range(100 - job.batch - 1):
        tally.take(bytes(64))
    assert signs() == b""
    tally.take(bytes(64))

    assert signs() == CREDIT
    assert tally.done


def test_a_probe_is_answered_and_not_counted(
    pipe: tuple[Callable[[], bytes], int],
) -> None:
    signs, writing = pipe
    tally = _tally(MulticastJob("notify", count=1, size=64), writing)

    assert tally.take(PROBE) is False
    assert (signs(), tally.done) == (HERE, False)


@pytest.mark.parametrize("wrap", [bytes, memoryview, bytearray])
def test_all_bytes_of_any_buffer_are_read(
    wrap: type, pipe: tuple[Callable[[], bytes], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view, too: a large message of ours may arrive as one."""
    import numpy as np  # noqa: PLC0415

    sums: list[int] = []
    frombuffer = np.frombuffer

    class Words:
        def __init__(self, payload: bytes, kind: type) -> None:
            self._words: Any = frombuffer(payload, kind)

        def sum(self) -> None:
            sums.append(self._words.nbytes)

    monkeypatch.setattr("benchmarks.tally.np.frombuffer", Words)
    job = MulticastJob("notify", count=2, size=4096, reads=True)
    _tally(job, pipe[1]).take(wrap(bytes(4096)))
    _tally(MulticastJob("notify", count=2, size=4096), pipe[1]).take(bytes(4096))

    assert sums == [4096]


def test_the_delay_of_a_stamped_message_is_reported(
    pipe: tuple[Callable[[], bytes], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("benchmarks.tally.monotonic_ns", lambda: 1_700)
    monkeypatch.setattr("sys.stdin.read", lambda: "")
    tally = _tally(MulticastJob("camera", count=2, size=64), pipe[1])

    for stamp in (1_000, 1_500):
        tally.take(stamp.to_bytes(8, "little") + bytes(56))
    tally.finish()

    used_s, *delays = capsys.readouterr().out.split()
    assert float(used_s) >= 0
    assert delays == ["700", "200"]


# All receivers, as programs of a few lines.


def _use(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Replace the program of each receiver; ``pipe`` and ``number`` are defined."""
    start = "import os, sys\nnumber, pipe = map(int, sys.argv[1:])\n"
    text = start + textwrap.dedent(program)

    def command(_: str, *arguments: object) -> list[str]:
        return [sys.executable, "-c", text, *map(str, arguments)]

    monkeypatch.setattr(receivers, "command", command)


def test_the_slowest_receiver_limits_the_sender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one acknowledges all, the second one four messages."""
    _use(monkeypatch, "os.write(pipe, b'h' + b'c' * (99, 4)[number]); sys.stdin.read()")
    job = MulticastJob("notify", count=99, size=_MIB, receivers=2)

    with Receivers(job, "any", stall_s=0.05) as group:
        group.reach(lambda _: None)
        group.wait_for(4)
        assert group.delivered == 4
        assert group.room_after(11) == 4 + job.window
        with pytest.raises(StalledError):
            group.room_after(12)


def test_a_message_is_delivered_if_all_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those receivers count that nobody waited for."""
    _use(monkeypatch, "os.write(pipe, b'h' + b'c' * (2, 5)[number]); sys.stdin.read()")
    job = MulticastJob("notify", count=9, size=_MIB, receivers=2)

    with Receivers(job, "any", stall_s=0.05) as group:
        group.reach(lambda _: None)
        with pytest.raises(StalledError):
            group.wait_for(9)
        assert group.delivered == 2


def test_a_receiver_that_ends_is_no_lost_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _use(monkeypatch, "os.write(pipe, b'h')")
    job = MulticastJob("notify", count=9, size=_MIB)

    with Receivers(job, "any") as group:
        [only] = group._all
        only.process.wait()
        with pytest.raises(RuntimeError, match="ended before the job"):
            group.wait_for(9)
        with pytest.raises(RuntimeError, match="ended before its first message"):
            _unreached(group)


def test_a_receiver_that_does_not_end_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _use(monkeypatch, "os.write(pipe, b'h'); import time; time.sleep(60)")
    monkeypatch.setattr(receivers, "_END_S", 0.05)
    job = MulticastJob("notify", count=9, size=_MIB)

    with Receivers(job, "any") as group:
        group.reach(lambda _: None)
        [only] = group._all

    assert only.process.returncode == -9


def _unreached(group: Receivers) -> None:
    """Forget the probe that arrived, and send another."""
    group._all[0].is_here = False
    group.reach(lambda _: None)


class _Group:
    """Receivers of which one stops after three messages of four."""

    stall_s = 1.0
    delivered = 3

    def room_after(self, sent: int) -> int:
        return sent + 1

    def wait_for(self, _: int) -> None:
        raise StalledError


def test_a_rate_counts_only_delivered_messages_and_the_loss_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four messages, one of them lost: 3 s without the second that shows it."""
    times = iter([0.0, 4.0])
    monkeypatch.setattr(multicast, "perf_counter", lambda: next(times))
    sent: list[object] = []
    sender = MulticastSender(sent.append, lambda: None)
    job = MulticastJob("notify", count=4, size=64, receivers=4)

    taken_s = multicast._stream_s("it", job, sender, _Group())  # type: ignore[arg-type]

    assert taken_s == pytest.approx(3.0 * 4 / 3)
    assert len(sent) == 4
    said = capsys.readouterr().err
    assert said == "it: 1 of 4 messages were not delivered\n"


def test_a_rival_that_loses_all_messages_ends_no_run_and_ours_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An upper bound of its rate counts: one message in the time that shows the loss.

    Otherwise one bad round of a rival would discard the figures of half an hour.
    """
    monkeypatch.setattr(multicast, "perf_counter", lambda: 0.0)
    sender = MulticastSender(lambda _: None, lambda: None)
    job = MulticastJob("notify", count=4, size=64, receivers=4)
    group: Any = _Group()
    group.delivered = 0

    assert multicast._stream_s("it", job, sender, group) == 4 * group.stall_s
    with pytest.raises(StalledError):
        multicast._stream_s("ours", job, sender, group)


# Contestants.


@pytest.mark.parametrize("kind", ["notify", "command", "camera", "echo"])
def test_each_job_ends(kind: str) -> None:
    """All processes agree on the end; each figure is a time."""
    job = {
        "notify": _SMALL,
        "command": MulticastJob("command", count=20, size=64 << 10, reads=True),
        "camera": MulticastJob("camera", 20, 64 << 10, receivers=2, reads=True),
        "echo": MulticastJob("echo", count=10, size=64 << 10),
    }[kind]

    result = multicast.run_job(OURS, job)

    assert len(result) == {"camera": 3, "echo": 6}.get(kind, 1)
    assert min(result) > 0


def test_the_least_work_is_done_by_processes_that_end() -> None:
    [taken_s] = multicast.run_job("bare", _SMALL)

    assert taken_s > 0


def test_a_contestant_that_fails_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """The output of the contestant comes first."""
    with pytest.raises(RuntimeError, match=r"^nobody, notify of .* exit code 1"):
        multicast.run_job("nobody", _SMALL)
    assert "nobody_multicast" in capfd.readouterr().err


def test_each_rival_is_found_or_reported() -> None:
    assert len(_FOUND) + len(_MISSING) == len(multicast._RIVALS)
    assert all(multicast._contestant(each.NAME, _SMALL) is each for each in _FOUND)


def test_memory_that_a_job_leaves_is_printed_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(multicast, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(multicast, "_noted", set())
    (tmp_path / "before.zenoh").touch()

    for number in range(2):
        with multicast._leftovers_noted("zenoh shm"):
            (tmp_path / f"{number}.zenoh").touch()
            (tmp_path / f"{number}.other").touch()
    with multicast._leftovers_noted(OURS):
        (tmp_path / "ours.zenoh").touch()

    assert capsys.readouterr().err.splitlines() == [
        f"new in {tmp_path} after a job of zenoh shm:",
        "  0.zenoh",
    ]


def test_a_folder_that_no_process_removes_ends_with_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The near process is killed with all its receivers if the job takes too long."""
    folders: list[str] = []
    popen = subprocess.Popen

    def start(arguments: list[str], **options: object) -> subprocess.Popen[str]:
        folders.append(arguments[-1])
        return popen(arguments, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("benchmarks.program.subprocess.Popen", start)
    monkeypatch.setattr(multicast, "LIMIT_S", 0.1)

    with pytest.raises(RuntimeError, match="not done after"):
        multicast.run_job("bare", _SMALL)

    [folder] = folders
    assert not os.path.exists(folder)


# The suite.


def test_each_figure_has_its_requirement_where_all_bytes_are_read() -> None:
    contests, _ = multicast.suite(_EFFORT)

    owed = {(each.figure, each.case): each.must for each in contests if each.must}
    assert owed == {
        ("M1", "1 MiB read"): {
            "pyzmq": 4.0,
            "zenoh": 1.5,
            "iceoryx2": 0.9,
            "bare": 0.7,
        },
        ("M2", "64 B read"): {"pyzmq": 1.0, "zenoh": 1.0},
        ("M2", "64 B unread"): {"pyzmq": 1.0, "zenoh": 1.0},
        ("P3", "64 KiB read"): {"pyzmq": 1.0},
        ("P3", "1 MiB read"): {"pyzmq": 2.0},
    }
    cases = {(each.figure, each.case) for each in contests}
    assert {("M1", "1 MiB unread"), ("P3", "64 KiB unread")} < cases
    assert ("M3", "64 B") in cases
    assert ("M3", "16 MiB") in cases


def test_a_round_trip_is_compared_with_our_smallest_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[str] = []

    def job(name: str, _: MulticastJob) -> list[float]:
        jobs.append(name)
        return [(1.0 if name == OURS else 2.0) * 2**step for step in range(10)]

    monkeypatch.setattr(multicast, "run_job", job)
    figures = [
        each.figure_of(list(each.rounds(5)))
        for each in multicast._round_trips(_EFFORT, ["it"])
    ]

    assert [each.case for each in figures[:2]] == ["64 B", "256 B"]
    assert figures[0].ratios == {"it": 0.5}
    assert figures[3].ratios == {"it": 0.5, "64 B": 8.0}
    assert len(jobs) == 12  # one job of each for all sizes of a round, one to warm up


def test_the_figures_of_a_camera_come_from_one_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[MulticastJob] = []

    def job(name: str, given: MulticastJob) -> list[float]:
        jobs.append(given)
        return [each * (1 if name == OURS else 2) for each in (3.0, 4.0, 5.0)]

    monkeypatch.setattr(multicast, "run_job", job)
    figures = [
        each.figure_of(list(each.rounds(5)))
        for each in multicast._camera(_EFFORT, ["it"])
    ]

    assert [(each.case, each.ours) for each in figures] == [
        ("CPU", 3.0),
        ("p50", 4.0),
        ("p99", 5.0),
    ]
    assert len(jobs) == 12
    assert {(each.size, each.receivers) for each in jobs} == {(4 * _MIB, 3)}


def test_without_numpy_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)

    contests, [line] = multicast.suite(_EFFORT)

    assert contests == []
    assert line.startswith("numpy is not installed")
