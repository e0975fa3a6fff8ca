"""Figures fit the page: legends within their width, counts on axes of counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bus.pipeline import plots, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG = "collector/of/x → worker/of/a/y, queue"


def axes_of_width(inches: float, labels: list[str]) -> Axes:
    figure = Figure(figsize=(inches, 3.0), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    for label in labels:
        axes.plot([1, 2], label=label)
    return axes


@pytest.mark.parametrize("inches", [svg.WIDE_INCHES, svg.NARROW_INCHES])
@pytest.mark.parametrize("names", [1, 2, 6])
def test_a_legend_of_long_names_is_within_its_figure(inches: float, names: int) -> None:
    axes = axes_of_width(inches, [LONG] * names)

    plots._legend(axes)

    figure = svg.figure_of(axes)
    [legend] = figure.legends
    assert len(legend.get_texts()) == names
    assert legend.get_window_extent().width <= figure.bbox.width


def test_a_legend_of_short_names_has_three_columns() -> None:
    axes = axes_of_width(svg.WIDE_INCHES, ["all", "here", "there"])

    plots._legend(axes)

    [legend] = svg.figure_of(axes).legends
    legend.get_window_extent()  # lays out its texts
    tops = {round(text.get_window_extent().y0) for text in legend.get_texts()}
    assert len(tops) == 1


@pytest.mark.deep
def test_an_axis_of_dropped_messages_has_whole_numbers() -> None:
    axis = plots.TimeAxis(start_us=0, end_us=10_000_000, width_us=1_000_000)
    route = {"source": "a", "target": "b", "via": "bus", "at_us": 0}
    drops = [{"reason": "lost", "messages": 1, "at_us": 0}]

    figure = plots.timeline([route | {"sent": 99}], [], [], drops, axis)

    texts = re.findall(r">([0-9.]+)</text>", figure)
    assert "1" in texts
    assert not [text for text in texts if text.startswith("0.") and text != "0.0"]
