"""`Outcome`: what a run of the demo found, against a plain serial one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from bus.demo.stock import Comparison, Stock

__all__ = ["Outcome"]


@attrs.frozen(slots=True)
class Outcome:
    """What the tasks found, pass by pass, and what the serial run did.

    seconds: how long the passes took together.
    comparisons: each pass with the serial run.
    """

    stocks: tuple[Stock, ...]
    serial: Stock
    seconds: float
    comparisons: tuple[Comparison, ...] = attrs.field(init=False, repr=False)

    @comparisons.default
    def _compare(self) -> tuple[Comparison, ...]:
        return tuple(stock.compare(self.serial) for stock in self.stocks)

    @property
    def equal(self) -> bool:
        """Whether every pass equals the serial run."""
        return all(comparison.equal for comparison in self.comparisons)
