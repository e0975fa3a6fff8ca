"""Commands between two processes: each contestant's jobs end, and lose nothing."""

from __future__ import annotations

import os
import subprocess

import pytest

from benchmarks import processes, scale
from benchmarks.condition import BUSY, ONE_CORE
from benchmarks.figure import OURS
from benchmarks.suites import Effort


@pytest.mark.parametrize(("job", "figures"), [("sink", 1), ("echo", 5)])
def test_each_job_ends(job: str, figures: int) -> None:
    """Both processes agree on the end; each figure is a time."""
    result = processes.run_job(OURS, job, 50, 64)

    assert len(result) == figures
    assert min(result) > 0


def test_a_contestant_that_fails_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """The output of the contestant comes first."""
    with pytest.raises(RuntimeError, match=r"^nobody, sink .* exit code 1"):
        processes.run_job("nobody", "sink", 1, 64)
    assert "KeyError" in capfd.readouterr().err


def test_a_condition_holds_for_the_processes_of_its_block_and_no_longer() -> None:
    before = os.sched_getaffinity(0)

    with ONE_CORE.imposed():
        inside = subprocess.check_output(["nproc"], text=True)

    assert inside.strip() == "1"
    assert os.sched_getaffinity(0) == before


@pytest.mark.deep
def test_a_busy_loop_runs_beside_a_job_and_ends_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(arguments: list[str]) -> subprocess.Popen[bytes]:
        begun.append(popen(arguments))
        return begun[-1]

    monkeypatch.setattr("benchmarks.condition.subprocess.Popen", start)
    with BUSY.imposed():
        [loop] = begun
        assert loop.poll() is None

    assert loop.poll() is not None


def test_on_one_processor_only_the_figures_of_one_are_measured() -> None:
    with ONE_CORE.imposed():
        contests, left_out = processes.suite(Effort(rounds=5, round_s=0.1, scale=0.1))

    assert {contest.case.rpartition(" ")[2] for contest in contests} == {"core"}
    assert len(left_out) >= 2


def test_the_tail_is_compared_with_the_median_of_the_same_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def job(name: str, *_: object) -> list[float]:
        return [each * (1 if name == OURS else 2) for each in (1.0, 2.0, 3.0, 4.0, 5.0)]

    monkeypatch.setattr(processes, "run_job", job)
    contests, _ = processes.suite(Effort(rounds=5, round_s=0.1, scale=0.1))

    [tail] = [each for each in contests if each.case == "p99 one core"]
    ratios = dict(tail.figure_of(list(tail.rounds(5))).ratios)
    assert ratios.pop("p50") == 3.0
    # With the rivals that are installed.
    assert {"queue": 0.5}.items() <= ratios.items()
    assert set(ratios.values()) == {0.5}


@pytest.mark.deep
def test_the_threads_and_descriptors_of_a_crowd_are_counted() -> None:
    """Threads and descriptors; each slave costs its master only descriptors."""
    few, more = map(scale._count, [2, 4])

    for whose in ("master", "slave"):
        assert more[whose]["threads"] == few[whose]["threads"]
    assert more["master"]["descriptors"] > few["master"]["descriptors"]


def test_small_figures_of_scale_are_numbers() -> None:
    effort = Effort(rounds=1, round_s=0.01, scale=0.01)

    assert scale._send_us(effort, 10) > 0
    assert 0 < scale._task_kib() < 100
