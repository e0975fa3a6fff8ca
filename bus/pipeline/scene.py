"""A violation, drawn: the messages around it, from their sender to their receiver.

The drawing has two lines, one for each side. Records are placed from left to right in
the order of recording, not to scale, since a microsecond may be next to a minute. An
arrow joins the send of a message to each receive of it. A record without a counterpart
has an open arrow.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.pipeline import svg
from bus.pipeline.wording import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from bus.journal.violation import Violation

__all__ = ["draw_scene"]

STEP_INCHES: Final = 0.42
WIDTH_INCHES: Final = (4.0, 9.0)
STUB: Final = 0.45  # the length of an arrow without an end

Row = dict[str, Any]


def draw_scene(name: str, violation: Violation, records: Sequence[Row]) -> str:
    """Draw the records of one scene around a violation; "" if there are none.

    name: unique on the page.
    """
    ordered = sorted(records, key=lambda row: (row["mono"], row["n"]))
    if not ordered:
        return ""
    messages: dict[int, _Message] = defaultdict(_Message)
    for place, row in enumerate(ordered):
        getattr(messages[row["seq"]], _LISTS[row["kind"]]).append(place)

    def paint(axes: Axes) -> None:
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set(xlim=(-1, len(ordered)), ylim=(-0.55, 1.55), xticks=[])
        axes.hlines([0, 1], -0.8, len(ordered) - 0.2, color=svg.FAINT, lw=1)
        ends = [f"to {_end(violation.receiver)}", f"from {_end(violation.sender)}"]
        axes.set_yticks([0, 1], ends)
        axes.tick_params(axis="y", length=0)
        for seq, message in messages.items():
            message.paint(axes, str(seq), broken=seq == violation.seq)

    width = min(max(WIDTH_INCHES[0], 1.6 + STEP_INCHES * len(ordered)), WIDTH_INCHES[1])
    label = f"Message {violation.seq} and the messages around it"
    order = ", ".join(f"{row['kind']} {row['seq']}" for row in ordered)
    return svg.draw(
        name,
        label,
        paint,
        width=width,
        height=1.7,
        description=f"In the order of recording: {order}.",
    )


_LISTS: Final = {"send": "sends", "receive": "receives", "drop": "drops"}


@attrs.define
class _Message:
    """The places of the records of one message."""

    sends: list[int] = attrs.field(factory=list)
    receives: list[int] = attrs.field(factory=list)
    drops: list[int] = attrs.field(factory=list)

    def paint(self, axes: Axes, label: str, *, broken: bool) -> None:
        colour = svg.SERIES[1] if broken else svg.FAINT
        style = {"color": colour, "lw": 2.2 if broken else 1.1}
        weight = "bold" if broken else "normal"
        start = self.sends[0] if self.sends else None
        for place in self.sends:
            self._point(axes, place, 1, "o", colour)
            axes.text(place, 1.16, label, ha="center", weight=weight, color=svg.INK)
        for place in self.receives:
            self._point(axes, place, 0, "o", colour)
            axes.text(place, -0.42, label, ha="center", weight=weight, color=svg.INK)
            # A receive without a send: the arrow begins half way.
            x, y = (place - STUB, 0.5) if start is None else (start, 1)
            _arrow(axes, (x, y), (place, 0), style)
            if start is None:
                axes.text(x, y, "?", ha="center", va="bottom", color=colour)
        for place in self.drops:
            self._point(axes, place, 0, "X", colour)
            axes.text(place, -0.42, label, ha="center", weight=weight, color=svg.INK)
            if start is not None:
                _arrow(axes, (start, 1), (place, 0), style | {"linestyle": ":"})
        if start is not None and not self.receives and not self.drops:
            end = start + STUB, 0.5
            _arrow(axes, (start, 1), end, style)
            self._point(axes, *end, "x", colour)

    @staticmethod
    def _point(axes: Axes, x: float, y: float, marker: str, colour: str) -> None:
        axes.plot([x], [y], marker=marker, color=colour, linestyle="", markersize=6)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], style: Row
) -> None:
    shape = {"arrowstyle": "-|>", "shrinkA": 3, "shrinkB": 4} | style
    axes.annotate("", end, start, arrowprops=shape)


def _end(name: str) -> str:
    return short(name or "?")
