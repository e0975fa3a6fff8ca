"""The effort of a conformance test in a run of all tests."""

from __future__ import annotations

import os

from specs.conformance.level import LEVEL_VARIABLE, Level, run_level
from tests.depth import DEEP, among

__all__ = ["effort"]


def effort() -> Level:
    """Return the level ``CONFORMANCE_LEVEL``; if unset, quick or a part of it."""
    if LEVEL_VARIABLE in os.environ:
        return run_level()
    return Level(
        "brief",
        bound=2 if DEEP else 1,
        random=among(2, 40),
        limit=among(5, 200),
        rounds=among(1, 20),
        seconds=0.3 if DEEP else 0.1,
        volume=1,
    )
