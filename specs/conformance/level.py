"""The effort of a run: the numbers behind ``quick`` and ``full``.

A level changes the number of schedules tried, never the checks.
"""

from __future__ import annotations

import os

import attrs

__all__ = ["Level", "run_level"]

LEVEL_VARIABLE = "CONFORMANCE_LEVEL"


@attrs.frozen
class Level:
    """The effort of one run.

    bound: preemptions up to which the explorer tries every schedule.
    random: number of random schedules tried in addition.
    limit: maximum number of schedules of one scenario.
    rounds: repetitions of a race on real threads, where the schedule is random.
    seconds: time after which such repetitions end.
    volume: factor on the numbers of messages in crowds.
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
    """Return the level ``name``, by default ``$CONFORMANCE_LEVEL``, else quick.

    Raises:
        ValueError: there is no such level.
    """
    name = name or os.environ.get(LEVEL_VARIABLE) or "quick"
    try:
        return _LEVELS[name]
    except KeyError:
        known = ", ".join(_LEVELS)
        raise ValueError(f"level must be one of {known}, got {name!r}") from None
