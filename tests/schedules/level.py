"""The levels of a survey, as numbers.

A level changes how many schedules are tried, never what a scenario checks.
"""

from __future__ import annotations

from typing import Final

import attrs

from tests.depth import among

__all__ = [
    "BRIEF",
    "BYTECODE",
    "FULL",
    "LEVELS",
    "QUICK",
    "SAMPLE",
    "Level",
    "inside",
]


@attrs.frozen
class Level:
    """The size of one survey.

    bound: preemptions up to which every schedule is tried; None for the bound of the
      scenario itself, which keeps it small.
    limit: maximum number of these schedules.
    random: number of random schedules after those; variants of one program share them.
    least: minimum share of a variant.
    doubles: True to try twice as many if the second half of them still showed a new
      class.
    bytecode: True if each instruction of the fast kind of end is a switch point.
    """

    name: str
    bound: int | None
    limit: int
    random: int
    least: int
    doubles: bool
    bytecode: bool = False


# Of every scenario: a part of the schedules of `quick`, for a run that is not deep.
BRIEF: Final = Level("brief", None, limit=200, random=30, least=30, doubles=False)
QUICK: Final = Level("quick", None, limit=3_000, random=300, least=300, doubles=False)
FULL: Final = Level("full", 2, limit=30_000, random=10_000, least=1_000, doubles=True)


# Inside of the fast kind: a sample, and the size of a campaign.
SAMPLE: Final = Level(
    "sample", 1, limit=200, random=40, least=40, doubles=False, bytecode=True
)
BYTECODE: Final = Level(
    "bytecode", 2, limit=100_000, random=2_000, least=200, doubles=False, bytecode=True
)

LEVELS: Final = {level.name: level for level in (BRIEF, QUICK, FULL, SAMPLE, BYTECODE)}


def inside() -> Level:
    """Return the level for tests inside of the fast kind."""
    random = among(1, SAMPLE.random)
    limit = among(2, SAMPLE.limit)
    return attrs.evolve(SAMPLE, limit=limit, random=random, least=random)
