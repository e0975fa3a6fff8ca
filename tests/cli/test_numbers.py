"""Numbers as options of verbs take them."""

from __future__ import annotations

import click
import pytest

from bus.cli.numbers import FiniteRange


def test_a_number_in_the_range_is_read() -> None:
    kind = FiniteRange(min=0, max=1e308)

    assert [kind.convert(text, None, None) for text in ("0", "2.5", "1e308")] == [
        *(0.0, 2.5, 1e308)
    ]


@pytest.mark.parametrize("text", ["nan", "-nan", "inf", "1e999"])
def test_a_number_that_is_not_finite_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a finite number"):
        FiniteRange().convert(text, None, None)


@pytest.mark.parametrize("text", ["-1", "soon", ""])
def test_a_value_that_click_refuses_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        FiniteRange(min=0).convert(text, None, None)
