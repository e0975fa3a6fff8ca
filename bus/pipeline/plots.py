"""What the report draws: each figure from rows of one gold table, as inline SVG.

A figure shows a few routes by name, told apart by colour, stroke and mark; the rest is
in the tables. Nothing to show gives an empty text, never an empty figure. Rows come
in any order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from bus.pipeline import svg
from bus.pipeline.wording import count, duration, moment, short, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["distribution", "heat_map", "latency", "rate"]

LINES_MAX: Final = 5
CELL_ALPHA: Final = (0.08, 0.5)  # few messages, most messages
MARKS: Final = 12  # marks along a line
_AXIS_UNITS: Final = ((3.6e9, "hours"), (6e7, "minutes"), (1e6, "seconds"), (1e3, "ms"))

Row = dict[str, Any]


def heat_map(routes: Sequence[Row]) -> str:
    """Who spoke to whom: messages sent, or bytes where there are no messages."""
    if not routes:
        return ""
    sources = sorted({row["source"] for row in routes})
    targets = sorted({row["target"] for row in routes})
    most = math.log1p(max(row["messages_sent"] for row in routes)) or 1

    def paint(axes: Axes) -> None:
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        low, high = CELL_ALPHA
        for row in routes:
            x, y = targets.index(row["target"]), sources.index(row["source"])
            amount = row["messages_sent"]
            alpha = low + (high - low) * math.log1p(amount) / most
            text = count(amount) if amount else size(row["bytes_sent"])
            edges = [x - 0.48, x + 0.48]
            axes.fill_between(
                edges, y - 0.46, y + 0.46, color=svg.SERIES[0], alpha=alpha, lw=0
            )
            axes.text(x, y, text, ha="center", va="center", fontsize=9)
        axes.set(xlim=(-0.5, len(targets) - 0.5), ylim=(len(sources) - 0.5, -0.5))
        letters = sum(len(short(target)) for target in targets)
        slant: Row = {"rotation": 30, "ha": "right"} if letters > 85 else {}
        axes.set_xticks(range(len(targets)), list(map(short, targets)), **slant)
        axes.set_yticks(range(len(sources)), list(map(short, sources)))
        axes.tick_params(length=0)
        axes.set(xlabel="to", ylabel="from")

    label = "Messages sent, by sender and receiver"
    return svg.draw("routes", label, paint, height=1.2 + 0.33 * len(sources))


def rate(traffic: Sequence[Row]) -> str:
    """Messages sent a second, over time: all, and the busiest routes."""
    if not traffic:
        return ""
    axis = _TimeAxis.of(traffic, traffic[0]["width_us"])
    per_second = 1e6 / axis.width_us

    def paint(axes: Axes) -> None:
        for line in _lines(traffic, _by_amount(traffic)):
            sums = dict.fromkeys(axis.buckets, 0)
            for row in line.rows:
                sums[row["at_us"]] += row["sent"]
            line.plot(axes, axis.places, [one * per_second for one in sums.values()])
        axis.label(axes)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda one, _: count(one)))
        axes.set_ylabel("messages a second")
        _legend(axes)

    return svg.draw("rate", "Messages sent a second, over time", paint)


def latency(rows: Sequence[Row], width_us: int) -> str:
    """Quantiles of the time from send to receive, over time."""
    timed = sorted(
        (row for row in rows if row["at_us"] is not None), key=lambda row: row["at_us"]
    )
    if not timed:
        return ""
    axis = _TimeAxis.of(timed, width_us)
    labels = {"p50": "median", "p99": "99 %", "most": "longest"}

    def paint(axes: Axes) -> None:
        places = [axis.place(row["at_us"]) for row in timed]
        for number, (name, label) in enumerate(labels.items()):
            values = [max(row[name], 1) for row in timed]
            _Line(label, svg.SERIES[number], number, ()).plot(axes, places, values)
        axes.set_yscale("log")
        _durations(axes.yaxis)
        axis.label(axes)
        axes.set_ylabel("from send to receive")
        _legend(axes)

    return svg.draw("latency", "Time from send to receive, over time", paint)


def distribution(rows: Sequence[Row], routes: Sequence[Row]) -> str:
    """The share of messages that took at most so long: all, and the busiest routes."""
    if not rows:
        return ""

    def paint(axes: Axes) -> None:
        for line in _lines(rows, _by_amount(routes, "messages_sent"), totals=True):
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

    return svg.draw("distribution", "Share of messages by time taken", paint)


@attrs.frozen
class _TimeAxis:
    """Buckets of equal width from the first to the last, in a unit people read."""

    start_us: int
    end_us: int
    width_us: int

    @classmethod
    def of(cls, rows: Iterable[Row], width_us: int) -> _TimeAxis:
        moments = [row["at_us"] for row in rows]
        return cls(min(moments), max(moments), width_us)

    @property
    def buckets(self) -> range:
        return range(self.start_us, self.end_us + 1, self.width_us)

    @property
    def unit(self) -> tuple[float, str]:
        span = self.end_us + self.width_us - self.start_us
        return next((one for one in _AXIS_UNITS if span >= 2 * one[0]), (1.0, "µs"))

    def place(self, at_us: int) -> float:
        """Where the middle of a bucket stands."""
        return (at_us - self.start_us + self.width_us / 2) / self.unit[0]

    @property
    def places(self) -> list[float]:
        return [self.place(at_us) for at_us in self.buckets]

    def label(self, axes: Axes) -> None:
        axes.set_xlabel(f"{self.unit[1]} since {moment(self.start_us)}")
        axes.set_xlim(0, (self.end_us + self.width_us - self.start_us) / self.unit[0])


@attrs.frozen
class _Line:
    """One line of a figure: its rows, and how it is told from the others."""

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
    rows: Sequence[Row], busiest: Sequence[tuple[str, str]], *, totals: bool = False
) -> list[_Line]:
    """All, and the busiest routes, if there is more than one.

    totals: whether rows without a route stand for all; else all rows do together.
    """
    everything = [row for row in rows if row["source"] is None] if totals else rows
    lines = [_Line("all", svg.INK, 0, everything)]
    if len(busiest) > 1:
        for number, (source, target) in enumerate(busiest[:LINES_MAX], start=1):
            own = [r for r in rows if (r["source"], r["target"]) == (source, target)]
            label = f"{short(source, 17)} → {short(target, 17)}"
            lines.append(_Line(label, svg.SERIES[number - 1], number, own))
    return lines


def _by_amount(rows: Iterable[Row], amount: str = "sent") -> list[tuple[str, str]]:
    """The routes, the busiest first."""
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        route = row["source"], row["target"]
        sums[route] = sums.get(route, 0) + row[amount]
    return sorted(sums, key=lambda route: (-sums[route], route))


def _durations(axis: Axis) -> None:
    """Powers of ten of nanoseconds, in the units people use."""
    axis.set_major_locator(LogLocator(10, numticks=12))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda ns, _: duration(ns)))


def _legend(axes: Axes) -> None:
    """Above the figure, where long names cost no width."""
    style: Row = {"handlelength": 3.2, "columnspacing": 1.6}
    axes.figure.legend(loc="outside upper left", ncols=3, **style)
