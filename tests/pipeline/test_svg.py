"""A figure becomes a part of its page: colours, font, identifiers of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.pipeline import svg
from tests.pipeline.page import Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEXT = '$x_1$ <b> & "quoted" url(#away) id="theirs" #010101 font-family: theirs;'


def paint(axes: Axes) -> None:
    axes.plot([1, 2], [3, 4], color=svg.SERIES[0], linestyle="--", marker="o")
    axes.fill_between([1, 2], [1, 2], color=svg.SERIES[1])
    axes.text(1, 1, TEXT)


def test_text_stays_as_it_is() -> None:
    page = Page(svg.draw("one", "a label", paint))

    assert TEXT in page.text
    assert page.problems == []


def test_colours_are_the_variables_of_the_page() -> None:
    figure = svg.draw("one", "a label", paint).replace("#010101 font", "")

    for stand_in in (svg.INK, svg.FAINT, *svg.SERIES):
        assert stand_in not in figure
    for variable in ("--ink", "--faint", "--series-1", "--series-2"):
        assert f"var({variable})" in figure


def test_the_font_is_that_of_the_page() -> None:
    figure = svg.draw("one", "a label", paint).replace(TEXT[-21:], "")

    assert "font-size: " in figure
    assert "font-family" not in figure
    assert "DejaVu" not in figure


def test_figures_on_one_page_share_no_identifier() -> None:
    both = svg.draw("one", "", paint) + svg.draw("two", "", paint)

    page = Page(both)
    assert page.problems == []
    assert page.addresses == []


def test_a_figure_has_a_label_and_no_fixed_size() -> None:
    figure = svg.draw("one", 'a "label" <of> it', paint, width=5, height=2)

    head = figure[: figure.index(">")]
    assert 'viewBox="0 0 360 144"' in head
    assert "width=" not in head
    assert 'role="img" aria-label="a &quot;label&quot; &lt;of&gt; it"' in head


def test_the_same_figure_is_the_same_text() -> None:
    assert svg.draw("one", "", paint) == svg.draw("one", "", paint)


def test_styles_stay_inside_the_figure() -> None:
    assert "<style" not in svg.draw("one", "", paint)
