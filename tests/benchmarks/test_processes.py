"""Commands between two processes: each contestant's jobs end, and lose nothing."""

from __future__ import annotations

import pytest

from benchmarks import processes, scale
from benchmarks.parties import PARTIES
from benchmarks.suites import Effort


@pytest.mark.parametrize("job", ["sink", "echo"])
@pytest.mark.parametrize("name", PARTIES)
def test_a_job_of_each_contestant_ends(name: str, job: str) -> None:
    """Both processes agree on the end; what it took is a time."""
    assert min(processes.run_job(name, job, 50, 64)) > 0


def test_a_contestant_who_fails_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """Its own words come before."""
    with pytest.raises(RuntimeError, match=r"^nobody, sink .* exit code 1"):
        processes.run_job("nobody", "sink", 1, 64)
    assert "KeyError" in capfd.readouterr().err


def test_what_is_held_by_a_crowd_is_counted() -> None:
    """Threads and descriptors; each slave costs its master descriptors alone."""
    few, more = map(scale._count, [2, 4])

    for whose in ("master", "slave"):
        assert more[whose]["threads"] == few[whose]["threads"]
    assert more["master"]["descriptors"] > few["master"]["descriptors"]


def test_small_figures_of_scale_are_numbers() -> None:
    effort = Effort(rounds=1, round_s=0.01, scale=0.01)

    assert scale._send_us(effort, 10) > 0
    assert 0 < scale._task_kib() < 100
