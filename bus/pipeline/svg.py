"""Figures that match the page around them: matplotlib to inline SVG.

matplotlib writes a document with its own fonts, colours and identifiers. Here a figure
is drawn in placeholder colours, which become variables of the page's style, so that one
drawing serves light and dark. It uses the page's font, identifiers of its own, so that
figures on one page do not share them, and no address of another site. Text is never
parsed as markup or mathematics: names come from recorded programs.
"""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

__all__ = [
    "FAINT",
    "INK",
    "MARKERS",
    "SERIES",
    "STROKES",
    "draw",
    "draw_both",
    "figure_of",
    "is_narrow",
    "panels",
]

WIDE_INCHES: Final = 7.6
NARROW_INCHES: Final = 4.3

# Placeholders, and the variables of the page that replace them.
INK: Final = "#010101"
FAINT: Final = "#020202"
SERIES: Final = ("#030301", "#030302", "#030303", "#030304", "#030305", "#030306")
# Distinguishable without colour, too.
STROKES: Final = ("-", "--", ":", "-.", (0, (6, 1.5)), (0, (1, 1, 4, 1)))
MARKERS: Final = ("o", "s", "^", "D", "v", "P")

_VARIABLES: Final = {INK: "--ink", FAINT: "--faint"} | {
    stand_in: f"--series-{number}" for number, stand_in in enumerate(SERIES, start=1)
}
_UNWANTED: Final = (
    re.compile(r"<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"<!--.*?-->\s*", re.DOTALL),
    # It would apply to the whole page.
    re.compile(r"<style[^>]*>.*?</style>", re.DOTALL),
)
_REPLACED: Final = (
    (re.compile(r'\bid="'), 'id="{name}-'),
    (re.compile(r'\b(?:xlink:)?href="#'), 'href="#{name}-'),
    (re.compile(r"url\(#"), "url(#{name}-"),
    (re.compile(r"font-family: [^;\"]*;? ?"), ""),
    # Most of a page is coordinates, and a hundredth of a point is invisible.
    (re.compile(r"(\d\.\d\d)\d+"), r"\1"),
    (re.compile(r" \nL "), "L"),
)
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "queuebroker",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": FAINT,
    "grid.alpha": 0.45,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}


def draw(
    name: str,
    label: str,
    paint: Callable[[Axes], None],
    *,
    width: float = WIDE_INCHES,
    height: float = 3.0,
    description: str = "",
) -> str:
    """Return one figure as an ``<svg>`` element.

    name: unique on the page; begins every identifier in the figure.
    label: the title of the figure, for screen readers.
    description: its content in words, if no table next to it has the content.
    paint: draws on the axes.
    width, height: in inches of 72 points.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure.add_subplot())
        buffer = io.StringIO()
        # No creator, date or format: those contain addresses and change each time.
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return _adapt(buffer.getvalue(), name, label, description)


def draw_both(
    name: str, label: str, paint: Callable[[Axes], None], *, height: float = 3.0
) -> str:
    """Return one figure for wide pages, one for telephones; the page shows one of them.

    paint: draws on the axes; calls `is_narrow` where the width matters.
    """
    wide = draw(name, label, paint, height=height)
    narrow = draw(f"{name}-narrow", label, paint, width=NARROW_INCHES, height=height)
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


def panels(axes: Axes, number: int) -> list[Axes]:
    """Replace the axes by several, one above the other, with one axis of x."""
    figure = figure_of(axes)
    axes.remove()
    return list(figure.subplots(number, sharex=True, squeeze=False)[:, 0])


def is_narrow(axes: Axes) -> bool:
    """Return True if the figure is for a telephone."""
    return figure_of(axes).get_figwidth() <= NARROW_INCHES


def figure_of(axes: Axes) -> Figure:
    """Return the figure to which the axes belong."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def _adapt(document: str, name: str, label: str, description: str) -> str:
    """Turn a document into an element of the page."""
    svg = document[document.index("<svg") :]
    for unwanted in _UNWANTED:
        svg = unwanted.sub("", svg)
    head, body = svg.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    assert view is not None
    # Only within tags: the text between them may be a recorded name.
    body = re.sub(r"<[^>]*>", lambda tag: _adapt_tag(tag[0], name), body)
    # An `aria-label`, not a `<title>`: browsers show that one over every point.
    head = f'<svg {view[0]} role="img" aria-label="{html.escape(label)}"'
    if not description:
        return f"{head}>{body.strip()}"
    told = f'<desc id="{name}-desc">{html.escape(description)}</desc>'
    return f'{head} aria-describedby="{name}-desc">{told}{body.strip()}'


def _adapt_tag(tag: str, name: str) -> str:
    for stand_in, variable in _VARIABLES.items():
        tag = tag.replace(stand_in, f"var({variable})")
    for pattern, replacement in _REPLACED:
        tag = pattern.sub(replacement.format(name=name), tag)
    return tag
