"""Numeric option types, stricter than those of click."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from typing import Any

__all__ = ["FiniteRange"]


class FiniteRange(click.FloatRange):
    """A click option type: a finite number within a range.

    click accepts ``nan`` for every range, since no comparison with it is true.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; fail with a usage error if it is invalid."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number
