"""Medians, ratios by round, verdicts, and the structure of the JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _figure(
    rounds: Sequence[Mapping[str, float]],
    *,
    unit: str = "messages/s",
    must: Mapping[str, float] | None = None,
) -> Figure:
    # One round stands for five alike.
    rounds = rounds if len(rounds) > 1 else list(rounds) * 5
    return Figure.of_rounds("T1", "64 B", unit, must=must or {}, rounds=rounds)


def test_the_ratio_is_the_median_of_ratios_and_not_the_ratio_of_medians() -> None:
    rounds = [(100, 100), (10, 1), (50, 60), (30, 90), (80, 20)]

    figure = _figure([{"ours": ours, "it": it} for ours, it in rounds])

    assert figure.ours / figure.rivals["it"] == 50 / 60
    assert figure.ratios == {"it": 1.0}


def test_the_spread_is_blind_to_one_stray_round() -> None:
    calm = _figure([{"ours": value} for value in (99, 100, 100, 100, 101)])
    stray = _figure([{"ours": value} for value in (1, 100, 100, 100, 101)])
    wide = _figure([{"ours": value} for value in (50, 75, 100, 125, 150)])

    assert calm.spread == 0
    assert stray.spread == 0
    assert wide.spread == 0.5


@pytest.mark.parametrize(
    ("unit", "ours", "owed", "passed"),
    [
        ("messages/s", 2.0, 2.0, True),
        ("meetings/s", 1.9, 2.0, False),
        ("us", 1.1, 1.1, True),
        ("KiB", 1.2, 1.1, False),
    ],
)
def test_a_must_is_met_in_the_direction_of_its_unit(
    unit: str, ours: float, owed: float, passed: bool
) -> None:
    figure = _figure([{"ours": ours, "it": 1.0}], unit=unit, must={"it": owed})

    assert figure.passed is passed
    assert figure.met("it") is passed


@pytest.mark.parametrize(
    ("must", "passed"),
    [
        ({}, None),
        ({"fast": 0.5}, True),
        ({"fast": 0.5, "gone": 1.0}, None),
        ({"fast": 2.0, "gone": 1.0}, False),
        ({"fast": 0.5, "slow": 3.0}, False),
        ({"gone": 1.0}, None),
    ],
)
def test_a_missing_rival_leaves_the_verdict_open_unless_another_is_missed(
    must: Mapping[str, float], passed: bool | None
) -> None:
    figure = _figure([{"ours": 2.0, "fast": 2.0, "slow": 1.0}], must=must)

    assert figure.passed is passed


def test_json_has_exactly_these_fields_and_is_read_back() -> None:
    figure = _figure([{"ours": 3.0, "it": 1.0}], must={"it": 3.0})

    entry = json.loads(json.dumps(figure.as_json()))

    assert entry == {
        "figure": "T1",
        "case": "64 B",
        "unit": "messages/s",
        "better": "higher",
        "ours": 3.0,
        "spread": 0.0,
        "rivals": {"it": 1.0},
        "ratios": {"it": 3.0},
        "must": {"it": 3.0},
        "pass": True,
    }
    assert Figure.from_json(entry) == figure
