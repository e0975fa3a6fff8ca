"""`Outcome`: the result of a run of the demo, beside that of a plain serial run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.demo.inventory import Comparison, Inventory
    from bus.demo.outage import OutageTimes

__all__ = ["Outcome"]


@attrs.frozen(slots=True)
class Outcome:
    """The result of the tasks, pass by pass, and that of the serial run.

    seconds: the duration of all passes together.
    outage: the durations of the outage between two machines; None without one.
    unanswered: the number of commands to workers by the outcome that the bus reported,
      for those that were not answered.
    comparisons: of each pass with the serial run.
    """

    inventories: tuple[Inventory, ...]
    serial: Inventory
    seconds: float
    outage: OutageTimes | None = None
    unanswered: Mapping[str, int] = attrs.field(factory=dict)
    comparisons: tuple[Comparison, ...] = attrs.field(init=False, repr=False)

    @comparisons.default
    def _compare(self) -> tuple[Comparison, ...]:
        return tuple(each.compare(self.serial) for each in self.inventories)

    @property
    def equal(self) -> bool:
        """True if every pass equals the serial run."""
        return all(comparison.equal for comparison in self.comparisons)
