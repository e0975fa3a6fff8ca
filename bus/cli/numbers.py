"""Numbers as options of verbs take them: click itself lets too much pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from typing import Any

__all__ = ["FiniteRange"]


class FiniteRange(click.FloatRange):
    """A range of finite numbers, for an option.

    click lets ``nan`` pass every limit, since no comparison with it is true.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number; it is a mistake in usage if it is none, or out of range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number
