"""How hard a survey looks: the numbers behind each level.

A level changes how many schedules are tried, never what a scenario checks.
"""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["BYTECODE", "FULL", "LEVELS", "QUICK", "SAMPLE", "Level"]


@attrs.frozen
class Level:
    """The measure of one survey.

    bound: preemptions up to which every schedule is tried; None for as many as the
      scenario itself says, which keeps it small.
    limit: of these schedules, so many at most.
    random: random ones tried after those; variants of one program share them.
    least: a variant's share of them is never less.
    doubles: whether twice as many are tried if the second half of them still showed
      something new.
    bytecode: whether each instruction of the fast kind of end is a switch point.
    """

    name: str
    bound: int | None
    limit: int
    random: int
    least: int
    doubles: bool
    bytecode: bool = False


QUICK: Final = Level("quick", None, limit=3_000, random=300, least=300, doubles=False)
FULL: Final = Level("full", 2, limit=30_000, random=10_000, least=1_000, doubles=True)


# Inside of the fast kind: a sample for every test run, and what a campaign takes.
SAMPLE: Final = Level(
    "sample", 1, limit=200, random=40, least=40, doubles=False, bytecode=True
)
BYTECODE: Final = Level(
    "bytecode", 2, limit=100_000, random=2_000, least=200, doubles=False, bytecode=True
)

LEVELS: Final = {level.name: level for level in (QUICK, FULL, SAMPLE, BYTECODE)}
