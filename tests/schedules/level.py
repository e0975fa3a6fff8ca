"""How hard a survey looks: the numbers behind ``quick`` and ``full``.

A level changes how many schedules are tried, never what a scenario checks.
"""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["FULL", "LEVELS", "QUICK", "Level"]


@attrs.frozen
class Level:
    """The measure of one survey.

    bound: preemptions up to which every schedule is tried.
    spares: for wide scenarios one less.
    limit: of these, so many at most.
    random: random schedules tried after those.
    doubles: whether there are as many random ones again if the second half of them
      still showed something new.
    """

    name: str
    bound: int
    spares: bool
    limit: int
    random: int
    doubles: bool


QUICK: Final = Level(
    "quick", bound=1, spares=True, limit=3_000, random=300, doubles=False
)
FULL: Final = Level(
    "full", bound=2, spares=False, limit=30_000, random=10_000, doubles=True
)

LEVELS: Final = {level.name: level for level in (QUICK, FULL)}
