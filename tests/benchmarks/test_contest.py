"""Contestants take turns, are warmed up, and fill a round with work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from benchmarks.contest import Contest, Runs, steady_rate

if TYPE_CHECKING:
    from benchmarks.contest import Measure
    from benchmarks.figure import Figure


def _run(contest: Contest, rounds: int) -> Figure:
    return contest.figure_of(list(contest.rounds(rounds)))


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

    _run(contest, 5)

    assert "".join(log[:3]) == "oab"  # the warm-up
    assert "".join(log[3:]) == "oab" + "abo" + "boa" + "oab" + "abo"


def test_the_warm_up_does_not_count() -> None:
    log: list[str] = []
    ours = _logged("o", log, [1e9, 4.0, 4.0, 4.0, 4.0, 4.0])
    rival = _logged("r", log, [1e-9, 2.0, 2.0, 2.0, 2.0, 2.0])

    contest = Contest("T", "c", "u", "higher", ours, {"r": rival}, {"r": 2.0})
    figure = _run(contest, 5)

    assert (figure.ours, figure.rivals, figure.ratios) == (4.0, {"r": 2.0}, {"r": 2.0})
    assert figure.passed is True


def test_ratios_are_taken_within_a_round() -> None:
    log: list[str] = []
    weather = [1.0, 9.0, 2.0, 7.0, 5.0, 3.0]
    ours = _logged("o", log, [3 * value for value in weather])
    rival = _logged("r", log, weather)

    contest = Contest("T", "c", "u", "lower", ours, {"r": rival})

    assert _run(contest, 5).ratios == {"r": 3}


@pytest.mark.parametrize("turn", [0, 1, 3])
def test_a_rival_that_fails_is_left_out_of_its_figure_alone(
    turn: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no other figure of the run is lost."""
    log: list[str] = []
    done = iter([1.0] * turn)

    def fails() -> float:
        for value in done:
            return value
        raise RuntimeError("b: not done after 90 s")

    contest = Contest(
        *("T", "c", "u", "higher", _logged("o", log, [2.0] * 6)),
        {"a": _logged("a", log, [1.0] * 6), "b": fails},
        {"b": 1.0},
    )
    figure = _run(contest, 5)

    assert figure.ratios == {"a": 2.0}
    assert figure.passed is None
    assert capsys.readouterr().err == "b is left out: b: not done after 90 s\n"


def test_our_own_failure_ends_the_run() -> None:
    def fails() -> float:
        raise RuntimeError("ours: not done after 90 s")

    with pytest.raises(RuntimeError, match="ours: not done"):
        _run(Contest("T", "c", "u", "higher", fails, {"a": lambda: 1.0}), 5)


def test_a_shared_job_that_fails_is_not_run_for_its_other_figures() -> None:
    calls: list[int] = []

    def fails() -> list[float]:
        calls.append(1)
        raise RuntimeError("not done")

    runs = Runs(fails)
    for which in (0, 1):
        with pytest.raises(RuntimeError, match="not done"):
            runs.measure(which)()
    assert len(calls) == 1


def test_too_few_rounds_are_refused() -> None:
    contest = Contest("T", "c", "u", "higher", lambda: 1.0, {})

    with pytest.raises(ValueError, match="rounds must be >= 3, got 2"):
        _run(contest, 2)


def test_no_round_begins_after_the_time_and_the_warm_up_counts_if_there_is_none() -> (
    None
):
    ours, rival = _logged("o", [], [4.0]), _logged("r", [], [2.0])

    contest = Contest("T", "c", "u", "higher", ours, {"r": rival})
    figure = contest.figure_of(list(contest.rounds(5, until=0.0)))

    assert (figure.ours, figure.spread, figure.ratios) == (4.0, 0.0, {"r": 2.0})


def test_the_nearest_rival_is_that_of_the_first_requirement_or_the_first() -> None:
    rivals = {name: lambda: 1.0 for name in "abc"}
    contest = Contest(
        "T", "c", "u", "higher", lambda: 1.0, rivals, {"b": 1.0, "c": 1.0}
    )

    assert list(contest.nearest().rivals) == ["b"]
    assert list(attrs.evolve(contest, must={}).nearest().rivals) == ["a"]


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
