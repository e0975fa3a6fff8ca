"""Contestants take turns, are warmed up, and fill a round with work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.contest import Contest, Row, steady_rate

if TYPE_CHECKING:
    from benchmarks.contest import Measure
    from benchmarks.figure import Figure


def _contest(must: dict[str, float] | None = None, **measures: Measure) -> Contest:
    return Contest([Row("T", "case", "messages/s", must or {})], measures)


def _run(contest: Contest, rounds: int) -> Figure:
    [figure] = contest.figures_of(list(contest.rounds(rounds)))
    return figure


def _logged(name: str, log: list[str], values: list[float]) -> Measure:
    later = iter(values)

    def measure() -> dict[str, float]:
        log.append(name)
        return {"value": next(later)}

    return measure


def test_each_round_begins_with_another_contestant() -> None:
    log: list[str] = []
    contest = _contest(
        ours=_logged("o", log, [0.0, *[2.0] * 5]),
        a=_logged("a", log, [0.0, *[1.0] * 5]),
        b=_logged("b", log, [0.0, *[1.0] * 5]),
    )

    _run(contest, 5)

    assert "".join(log[:3]) == "oab"  # the warm-up
    assert "".join(log[3:]) == "oab" + "abo" + "boa" + "oab" + "abo"


def test_the_warm_up_does_not_count() -> None:
    ours = _logged("o", [], [1e9, 4.0, 4.0, 4.0])
    rival = _logged("r", [], [1e-9, 2.0, 2.0, 2.0])

    figure = _run(_contest({"r": 2.0}, ours=ours, r=rival), 3)

    assert (figure.ours, figure.rivals, figure.ratios) == (4.0, {"r": 2.0}, {"r": 2.0})
    assert figure.passed is True


def test_each_figure_of_a_job_has_its_value_and_its_own_rival() -> None:
    p50 = Row("P2", "p50", "us", {}, "p50")
    p99 = Row("P2", "p99", "us", {"p50": 5.0}, "p99", {"p50": lambda ours: ours["p50"]})
    contest = Contest(
        [p50, p99],
        {
            "ours": lambda: {"p50": 2.0, "p90": 99.0, "p99": 8.0},
            "it": lambda: {"p50": 1.0, "p90": 99.0, "p99": 2.0},
        },
    )

    median, tail = contest.figures_of(list(contest.rounds(3)))

    assert (median.ours, median.ratios) == (2.0, {"it": 2.0})
    assert (tail.ours, tail.ratios) == (8.0, {"it": 4.0, "p50": 4.0})


@pytest.mark.parametrize("turn", [0, 1, 3])
def test_a_rival_that_fails_is_left_out_of_its_figure_alone(
    turn: int, capsys: pytest.CaptureFixture[str]
) -> None:
    done = iter([1.0] * turn)

    def fails() -> dict[str, float]:
        for value in done:
            return {"value": value}
        raise RuntimeError("b: not done after 90 s")

    contest = _contest(
        {"b": 1.0},
        ours=_logged("o", [], [2.0] * 6),
        a=_logged("a", [], [1.0] * 6),
        b=fails,
    )
    figure = _run(contest, 5)

    assert figure.ratios == {"a": 2.0}
    assert figure.passed is None
    assert capsys.readouterr().err == "b is left out: b: not done after 90 s\n"


def test_no_round_begins_after_the_time_and_the_warm_up_counts_if_there_is_none() -> (
    None
):
    contest = _contest(ours=_logged("o", [], [4.0]), r=_logged("r", [], [2.0]))

    [figure] = contest.figures_of(list(contest.rounds(5, until=0.0)))

    assert (figure.ours, figure.spread, figure.ratios) == (4.0, 0.0, {"r": 2.0})


def test_a_steady_rate_fills_its_rounds_with_the_same_work() -> None:
    counts: list[int] = []

    def work(count: int) -> float:
        counts.append(count)
        return count / 1_000_000

    measure = steady_rate(work, target_s=0.1)

    assert [measure()["value"] for _ in range(3)] == pytest.approx([1e6] * 3)
    assert counts[-3:] == [100_000] * 3
    assert counts[:-3] == sorted(counts[:-3])
