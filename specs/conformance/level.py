"""How hard a run looks: the numbers behind ``quick`` and ``full``.

A level changes how many schedules are tried, never what is checked.
"""

from __future__ import annotations

import os

import attrs

__all__ = ["Level", "run_level"]

LEVEL_VARIABLE = "CONFORMANCE_LEVEL"


@attrs.frozen
class Level:
    """The measure of one run.

    bound: preemptions up to which every schedule is tried by the explorer.
    random: random schedules tried beside those.
    limit: schedules of one scenario at most.
    rounds: repetitions of a race on real threads, where luck picks the schedule.
    seconds: after which such repetitions end.
    volume: what the numbers of messages in crowds are multiplied by.
    """

    name: str
    bound: int
    random: int
    limit: int
    rounds: int
    seconds: float
    volume: int


_LEVELS = {
    level.name: level
    for level in (
        Level("quick", 2, 40, limit=200, rounds=20, seconds=1.0, volume=1),
        Level("full", 2, 300, limit=20_000, rounds=200, seconds=30.0, volume=10),
    )
}


def run_level(name: str | None = None) -> Level:
    """The level called ``name``, by default ``$CONFORMANCE_LEVEL``, else quick.

    Raises:
        ValueError: there is no such level.
    """
    name = name or os.environ.get(LEVEL_VARIABLE) or "quick"
    try:
        return _LEVELS[name]
    except KeyError:
        known = ", ".join(_LEVELS)
        raise ValueError(f"level must be one of {known}, got {name!r}") from None
