"""Two runs compared: changed verdicts, and each route with the ratio of its figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from bus.pipeline.comparison import TIMED_MIN, Comparison
from bus.pipeline.report import render
from tests.pipeline.by_hand import results
from tests.pipeline.page import Page

if TYPE_CHECKING:
    from pathlib import Path

    from bus.pipeline.folder import OutFolder

Row = dict[str, Any]
MANY = 10 * TIMED_MIN


def run(
    path: Path, routes: dict[str, tuple[int, int]], *, seconds: int = 1, **verdicts: str
) -> OutFolder:
    """Write the results of a run.

    routes: for each source its messages and their median latency in nanoseconds.
    """
    amounts = {"messages_received": 1, "dropped": 0, "bytes_sent": 9, "depth_max": 3}
    ends = {"first_wall_us": 10**15, "last_wall_us": 10**15 + seconds * 10**6}
    flags = dict.fromkeys(("closed", "died", "complete", "late"), False)
    counts = dict.fromkeys(("gaps", "lost", "damaged"), 0)
    names = {name: {"source": name, "target": "far", "via": "bus"} for name in routes}
    return results(
        path,
        of_rules=verdicts,
        journals=[{"journal": 1, "machine": "m", "records": 1} | ends | flags | counts],
        routes=[
            names[name] | amounts | {"messages_sent": sent}
            for name, (sent, _) in routes.items()
        ],
        latency=[
            names[name] | {"at_us": None, "p50": p50, "p99": 2 * p50}
            for name, (_, p50) in routes.items()
        ],
    )


def test_the_largest_change_comes_first_in_either_direction(tmp_path: Path) -> None:
    here = {"same": (MANY, 500), "fewer": (MANY, 500), "slower": (MANY, 1500)}
    there = {"same": (MANY, 500), "fewer": (4 * MANY, 500), "slower": (MANY, 500)}
    folder = run(tmp_path / "here", {**here, "new": (1, 1), "few": (1, 900)}, seconds=2)
    other = run(tmp_path / "there", {**there, "gone": (1, 1), "few": (1, 1)}, seconds=2)

    routes = Comparison.of(folder, other).routes

    # The two that only one run has, then the others; of one message, a quantile is
    # chance.
    assert {one.source for one in routes[:2]} == {"new", "gone"}
    assert [one.source for one in routes[2:]] == ["fewer", "slower", "same", "few"]
    ratios = {one.source: one.ratios for one in routes}
    assert ratios["fewer"] == {"messages_sent": 0.25, "rate": 0.25, "p50": 1, "p99": 1}
    assert ratios["slower"] == {"messages_sent": 1, "rate": 1, "p50": 3, "p99": 3}


@pytest.mark.parametrize(
    ("here", "there", "ratio", "change"),
    [(0, MANY, 0, float("inf")), (MANY, 0, None, 0), (0, 0, None, 0)],
)
def test_a_figure_that_is_zero_has_no_ratio_to_it(
    tmp_path: Path, here: int, there: int, ratio: float | None, change: float
) -> None:
    folder = run(tmp_path / "here", {"near": (here, 500)})
    other = run(tmp_path / "there", {"near": (there, 500)})

    (route,) = Comparison.of(folder, other).routes

    assert route.ratios["messages_sent"] == ratio
    assert route.change == change


def test_the_page_has_changed_verdicts_and_the_figures_of_the_other(
    tmp_path: Path,
) -> None:
    folder = run(tmp_path / "here", {"near": (300, 500), "new": (2, 1)}, Q2="FAIL")
    other = run(tmp_path / "there", {"near": (100, 250), "old": (7, 1)}, seconds=2)

    page = Page(render(folder, other))

    assert page.problems == []
    output = " ".join(page.text.split())
    section = output.partition("Compared with another run")[2]
    section = section.partition("Messages by route")[0].replace("\u00d7", "x")
    assert str(tmp_path / "there") in section
    assert re.findall(r"[JQB]\d", section) == ["Q2"]
    assert "Q2 first in, first out ✓ PASS ✗ FAIL" in section
    assert "near → far bus 100 x 3 50 x 6 250 ns x 2 500 ns x 2" in section
    assert "new → far bus, only here" in section
    assert "old → far bus, only there 7 3.5 1 ns 2 ns" in section
    assert "Compared" not in Page(render(folder)).text
