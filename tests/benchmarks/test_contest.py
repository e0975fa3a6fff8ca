"""Contestants take turns, are warmed up, and fill a round with work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.contest import Contest, Runs, steady_rate

if TYPE_CHECKING:
    from benchmarks.contest import Measure


def _logged(name: str, log: list[str], values: list[float]) -> Measure:
    later = iter(values)

    def measure() -> float:
        log.append(name)
        return next(later)

    return measure


def test_each_round_begins_with_another_contestant() -> None:
    log: list[str] = []
    contest = Contest(
        "T",
        "case",
        "unit",
        "higher",
        _logged("o", log, [0.0, *[2.0] * 5]),
        {name: _logged(name, log, [0.0, *[1.0] * 5]) for name in "ab"},
    )

    contest.run(5)

    assert "".join(log[:3]) == "oab"  # the warm-up
    assert "".join(log[3:]) == "oab" + "abo" + "boa" + "oab" + "abo"


def test_the_warm_up_does_not_count() -> None:
    log: list[str] = []
    ours = _logged("o", log, [1e9, 4.0, 4.0, 4.0, 4.0, 4.0])
    rival = _logged("r", log, [1e-9, 2.0, 2.0, 2.0, 2.0, 2.0])

    figure = Contest("T", "c", "u", "higher", ours, {"r": rival}, {"r": 2.0}).run(5)

    assert (figure.ours, figure.rivals, figure.ratios) == (4.0, {"r": 2.0}, {"r": 2.0})
    assert figure.passed is True


def test_ratios_are_taken_within_a_round() -> None:
    log: list[str] = []
    weather = [1.0, 9.0, 2.0, 7.0, 5.0, 3.0]
    ours = _logged("o", log, [3 * value for value in weather])
    rival = _logged("r", log, weather)

    assert Contest("T", "c", "u", "lower", ours, {"r": rival}).run(5).ratios == {"r": 3}


def test_too_few_rounds_are_refused() -> None:
    contest = Contest("T", "c", "u", "higher", lambda: 1.0, {})

    with pytest.raises(ValueError, match="rounds must be >= 5, got 4"):
        contest.run(4)


def test_a_steady_rate_fills_its_rounds_with_the_same_work() -> None:
    counts: list[int] = []

    def work(count: int) -> float:
        counts.append(count)
        return count / 1_000_000

    measure = steady_rate(work, target_s=0.1)

    assert [measure() for _ in range(3)] == pytest.approx([1e6, 1e6, 1e6])
    assert counts[-3:] == [100_000] * 3
    assert counts[:-3] == sorted(counts[:-3])
    assert counts[-4] < 100_000


def test_the_figures_of_one_job_share_its_runs() -> None:
    results = iter([(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)])
    runs = Runs(lambda: next(results))
    low, high = runs.measure(0), runs.measure(1)

    assert [low(), low()] == [1.0, 2.0]
    assert [high(), high(), high()] == [10.0, 20.0, 30.0]
    assert low() == 3.0
