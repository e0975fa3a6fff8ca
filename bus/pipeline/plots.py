"""The figures of the report, each from rows of one gold table, as inline SVG.

A figure shows a few routes by name, distinguished by colour, stroke and mark; the rest
is in the tables. The axis of time is from the first record to the last, with marks for
deaths, lost links and violations. Without data a figure is an empty text, never an
empty figure. Rows may be in any order.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import attrs
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
)

from bus.pipeline import svg
from bus.pipeline.results import OTHERS
from bus.pipeline.wording import count, duration, moment, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["TimeAxis", "distribution", "heat_map", "timeline"]

LINES_MAX: Final = 5
CELL_ALPHA: Final = (0.08, 0.8)  # few messages, most messages
MARKS: Final = 12  # marks along a line
REASONS_MAX: Final = 6
_AXIS_UNITS: Final = ((3.6e9, "hours"), (6e7, "minutes"), (1e6, "seconds"), (1e3, "ms"))

# Each kind of mark: its shape, the index of its colour.
_MARKS: Final = {
    "death": ("X", 1),
    "link lost": ("D", 4),
    "violation": ("v", 3),
}

Row = dict[str, Any]
_Route = tuple[str, str, str]


@attrs.frozen
class TimeAxis:
    """The time from the first record to the last, in a unit that people read.

    width_us: the width of a bucket; buckets begin at `start_us`.
    marks: the events, rows with ``what`` and ``at_us``.
    """

    start_us: int
    end_us: int
    width_us: int
    marks: Sequence[Row] = ()

    @property
    def buckets(self) -> range:
        """The start of each bucket."""
        return range(self.start_us, self.end_us + 1, self.width_us)

    @property
    def unit(self) -> tuple[float, str]:
        """The unit's length in microseconds, and its name."""
        span = max(self.end_us - self.start_us, self.width_us)
        return next((one for one in _AXIS_UNITS if span >= 2 * one[0]), (1.0, "µs"))

    def place(self, at_us: int) -> float:
        """Return the position of a moment on the axis."""
        return (at_us - self.start_us) / self.unit[0]

    def middle(self, at_us: int) -> float:
        """Return the position of the middle of a bucket."""
        return self.place(at_us) + self.width_us / 2 / self.unit[0]

    @property
    def middles(self) -> list[float]:
        """The positions of the middles of all buckets."""
        return [self.middle(at_us) for at_us in self.buckets]

    def finish(self, panels: Sequence[Axes]) -> None:
        """Set the limits and the label of the axis, and draw the marks."""
        day, _, time = moment(self.start_us).partition(" ")
        since = time if svg.is_narrow(panels[0]) else f"{day} {time}"
        panels[-1].set_xlabel(f"{self.unit[1]} since {since}")
        end = max(self.end_us, self.start_us + self.width_us)
        panels[-1].set_xlim(0, self.place(end))
        for what, (marker, colour) in _MARKS.items():
            places = sorted(
                {self.place(row["at_us"]) for row in self.marks if row["what"] == what}
            )
            if not places:
                continue
            style: Row = {"color": svg.SERIES[colour], "clip_on": False}
            for panel in panels:
                top = panel.get_xaxis_transform()
                # One path with gaps: a path for each would make the page large.
                xs = [x for place in places for x in (place, place, math.nan)]
                ys = [0, 1, math.nan] * len(places)
                panel.plot(xs, ys, lw=0.8, alpha=0.6, transform=top, **style)
            top = panels[0].get_xaxis_transform()
            style |= {"linestyle": "", "marker": marker, "label": what, "zorder": 5}
            panels[0].plot(places, [1.0] * len(places), transform=top, **style)


def heat_map(routes: Iterable[Row]) -> str:
    """Draw the messages between each pair of names, as shades without numbers.

    The busiest names come first, those of one prefix together.
    """
    cells: dict[tuple[str, str], tuple[int, int]] = {}
    for row in routes:
        if OTHERS not in (row["source"], row["target"]):
            messages, carried = cells.get((row["source"], row["target"]), (0, 0))
            amounts = messages + row["messages_sent"], carried + row["bytes_sent"]
            cells[row["source"], row["target"]] = amounts
    if not cells:
        return ""
    sources = _grouped((source, *cells[source, target]) for source, target in cells)
    targets = _grouped((target, *cells[source, target]) for source, target in cells)
    most = math.sqrt(max(messages for messages, _ in cells.values())) or 1

    def paint(axes: Axes) -> None:
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        low, high = CELL_ALPHA
        for (source, target), (messages, _) in cells.items():
            x, y = targets.index(target), sources.index(source)
            alpha = low + (high - low) * math.sqrt(messages) / most
            edges = [x - 0.48, x + 0.48]
            axes.fill_between(
                edges, y - 0.46, y + 0.46, color=svg.SERIES[0], alpha=alpha, lw=0
            )
        axes.set(xlim=(-0.5, len(targets) - 0.5), ylim=(len(sources) - 0.5, -0.5))
        narrow = svg.is_narrow(axes)
        most_letters, letters_max = (14, 25) if narrow else (28, 85)
        names = [short(target, most_letters) for target in targets]
        is_long = sum(map(len, names)) > letters_max
        slant: Row = {"rotation": 40 if narrow else 30, "ha": "right"}
        axes.set_xticks(range(len(targets)), names, **slant if is_long else {})
        axes.set_yticks(
            range(len(sources)), [short(source, most_letters) for source in sources]
        )
        axes.tick_params(length=0)
        axes.set(xlabel="to", ylabel="from")

    label = "Messages sent, by sender and receiver"
    return svg.draw_both("routes", label, paint, height=1.2 + 0.33 * len(sources))


def timeline(
    traffic: Sequence[Row],
    latencies: Iterable[Row],
    depths: Sequence[Row],
    dropped: Sequence[Row],
    axis: TimeAxis,
) -> str:
    """Draw rate, latency, depth and drops, one above the other, on one axis of time.

    Rate and depth have a line for all messages, and lines of the same busiest routes.
    """
    if not traffic:
        return ""
    busiest = _by_amount(traffic)
    timed = sorted(
        (row for row in latencies if row["at_us"] is not None),
        key=lambda row: row["at_us"],
    )
    painters: list[Callable[[Axes], None]] = [
        lambda axes: _rate(axes, traffic, busiest, axis)
    ]
    if timed:
        painters.append(lambda axes: _latency(axes, timed, axis))
    if depths:
        painters.append(lambda axes: _depth(axes, depths, busiest, axis))
    if dropped:
        painters.append(lambda axes: _drops(axes, dropped, axis))

    def paint(axes: Axes) -> None:
        panels = svg.panels(axes, len(painters))
        for panel, painter in zip(panels, painters, strict=True):
            painter(panel)
        axis.finish(panels)
        svg.figure_of(panels[0]).align_ylabels(panels)
        _legend(panels[0])

    label = "Messages over time: sent, delay, on their way, dropped; with the events"
    return svg.draw_both("time", label, paint, height=0.8 + 1.9 * len(painters))


def _rate(
    axes: Axes, traffic: Sequence[Row], busiest: Sequence[_Route], axis: TimeAxis
) -> None:
    per_second = 1e6 / axis.width_us
    for line in _lines(axes, traffic, busiest):
        line.plot(axes, *_sums(line.rows, "sent", axis, per_second))
    _counts(axes, "sent a second")


def _depth(
    axes: Axes, depths: Sequence[Row], busiest: Sequence[_Route], axis: TimeAxis
) -> None:
    for line in _lines(axes, depths, busiest):
        line.plot(axes, *_sums(line.rows, "depth", axis))
    _counts(axes, "on their way")


def _sums(
    rows: Sequence[Row], column: str, axis: TimeAxis, factor: float = 1
) -> tuple[list[float], list[float]]:
    """Return the middle of each bucket, and the sum of a column there."""
    sums = dict.fromkeys(axis.buckets, 0.0)
    for row in rows:
        sums[row["at_us"]] = sums.get(row["at_us"], 0) + row[column]
    return axis.middles, [sums[at] * factor for at in axis.buckets]


def _counts(axes: Axes, label: str) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, min_n_ticks=2))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda one, _: count(one)))
    axes.set_ylabel(label)


def _latency(axes: Axes, timed: Sequence[Row], axis: TimeAxis) -> None:
    places = [axis.middle(row["at_us"]) for row in timed]
    labels = {"p50": "median", "p99": "99 %", "most": "longest"}
    for number, (name, label) in enumerate(labels.items()):
        values = [max(row[name], 1) for row in timed]
        _Line(label, svg.SERIES[number], number, ()).plot(axes, places, values)
    axes.set_yscale("log")
    _durations(axes.yaxis)
    axes.set_ylabel("send to receive")
    _own_legend(axes)


def _drops(axes: Axes, rows: Sequence[Row], axis: TimeAxis) -> None:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["reason"]] = sums.get(row["reason"], 0) + row["messages"]
    reasons = sorted(sums, key=lambda reason: (-sums[reason], reason))[:REASONS_MAX]
    # Wide enough to be visible; neighbours may overlap.
    half = max(axis.width_us / axis.unit[0], axis.place(axis.end_us) / 90) / 2
    below: dict[int, int] = {}
    for number, reason in enumerate(reasons):
        heights: dict[int, int] = {}
        for row in rows:
            if row["reason"] == reason:
                at_us = row["at_us"]
                heights[at_us] = heights.get(at_us, 0) + row["messages"]
        # One area, flat between the bars: a path for each would make the page large.
        places, bottoms, tops = [], [], []
        for at_us, height in sorted(heights.items()):
            bottom = below.get(at_us, 0)
            below[at_us] = top = bottom + height
            middle = axis.middle(at_us)
            places += [middle - half, middle - half, middle + half, middle + half]
            bottoms += [bottom] * 4
            tops += [bottom, top, top, bottom]
        label = short(reason.replace("_", " "), 20)
        style: Row = {"color": svg.SERIES[number], "lw": 0, "label": label}
        axes.fill_between(places, bottoms, tops, **style)
    axes.set_ylim(bottom=0)
    _counts(axes, "dropped")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    _own_legend(axes)


def distribution(rows: Sequence[Row], routes: Sequence[Row]) -> str:
    """Draw the share of messages within each latency: all, and the busiest routes."""
    if not rows:
        return ""

    def paint(axes: Axes) -> None:
        busiest = _by_amount(routes, "messages_sent")
        for line in _lines(axes, rows, busiest, totals=True):
            steps = sorted(
                (max(row["latency_ns"], 1), row["share"]) for row in line.rows
            )
            if steps:
                x, y = zip((steps[0][0], 0.0), *steps, strict=True)
                line.plot(axes, x, y, drawstyle="steps-post")
        axes.set_xscale("log")
        _durations(axes.xaxis)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set(ylim=(0, 1.02), xlabel="from send to receive", ylabel="messages")
        _legend(axes)

    return svg.draw_both("distribution", "Share of messages by time taken", paint)


@attrs.frozen
class _Line:
    """One line of a figure: its rows, and its distinguishing style."""

    label: str
    colour: str
    number: int
    rows: Sequence[Row]

    def plot(
        self, axes: Axes, x: Sequence[float], y: Sequence[float], **style: Any
    ) -> None:
        axes.plot(
            x,
            y,
            label=self.label,
            color=self.colour,
            linestyle=svg.STROKES[self.number],
            marker=svg.MARKERS[self.number],
            markevery=max(1, len(x) // MARKS),
            **style,
        )


def _lines(
    axes: Axes, rows: Sequence[Row], busiest: Sequence[_Route], *, totals: bool = False
) -> list[_Line]:
    """Return the line of all, and those of the busiest routes if there are several.

    totals: True if rows without a route stand for all; else all rows do together.
    """
    everything = [row for row in rows if row["source"] is None] if totals else rows
    lines = [_Line("all", svg.INK, 0, everything)]
    letters = 10 if svg.is_narrow(axes) else 17
    mixed = len({via for _, _, via in busiest}) > 1
    if len(busiest) > 1:
        for number, route in enumerate(busiest[:LINES_MAX], start=1):
            own = [row for row in rows if _route(row) == route]
            source, target, via = route
            label = f"{short(source, letters)} → {short(target, letters)}"
            label += f", {via}" if mixed else ""
            lines.append(_Line(label, svg.SERIES[number - 1], number, own))
    return lines


def _route(row: Row) -> _Route:
    return row["source"], row["target"], row["via"]


def _by_amount(rows: Iterable[Row], amount: str = "sent") -> list[_Route]:
    """Return the routes, the busiest first, without `OTHERS`."""
    sums: dict[_Route, float] = {}
    for row in rows:
        if OTHERS not in (row["source"], row["target"]):
            sums[_route(row)] = sums.get(_route(row), 0) + row[amount]
    return sorted(sums, key=lambda route: (-sums[route], route))


def _grouped(amounts: Iterable[tuple[str, int, int]]) -> list[str]:
    """Return names by amount, the greatest first, each with those of its prefix."""
    sums: dict[str, tuple[int, int]] = {}
    groups: dict[str, tuple[int, int]] = {}
    for name, messages, carried in amounts:
        for table, key in ((sums, name), (groups, _prefix(name))):
            before = table.get(key, (0, 0))
            table[key] = before[0] + messages, before[1] + carried

    def place(name: str) -> tuple[Any, ...]:
        group, own = groups[_prefix(name)], sums[name]
        return (-group[0], -group[1], _prefix(name), -own[0], -own[1], name)

    return sorted(sums, key=place)


def _prefix(name: str) -> str:
    """Return the common prefix of similar names: ``worker/`` for worker/1."""
    folder, slash, _ = name.rpartition("/")
    return folder + slash if slash else re.sub(r"\d+$", "", name)


def _durations(axis: Axis) -> None:
    """Label an axis in powers of ten of nanoseconds, in the usual units."""
    axis.set_major_locator(LogLocator(10, numticks=12))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda ns, _: duration(ns)))


def _own_legend(axes: Axes) -> None:
    """Draw the legend of one panel above it."""
    columns, letters = (2, 8) if svg.is_narrow(axes) else (3, 9)
    place: Row = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    axes.legend(ncols=columns, fontsize=letters, **place)


def _legend(axes: Axes) -> None:
    """Draw the legend above the figure, in as many columns as its width allows."""
    narrow = svg.is_narrow(axes)
    style: Row = {"handlelength": 2.4 if narrow else 3.2, "columnspacing": 1.6}
    if narrow:
        style |= {"fontsize": 8.5, "columnspacing": 1.0}
    figure = svg.figure_of(axes)
    own = axes.get_legend_handles_labels()
    for columns in range(2 if narrow else 3, 0, -1):
        legend = figure.legend(*own, loc="outside upper left", ncols=columns, **style)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()
