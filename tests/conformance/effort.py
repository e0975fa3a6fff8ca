"""The effort of a conformance test in a run of all tests."""

from __future__ import annotations

import os
from typing import Final

from specs.conformance.level import LEVEL_VARIABLE, Level, run_level
from tests.depth import DEEP

__all__ = ["effort"]

_BRIEF: Final = Level("brief", 1, 10, limit=40, rounds=5, seconds=0.3, volume=1)


def effort() -> Level:
    """Return the level ``CONFORMANCE_LEVEL``; if unset, a brief one or quick."""
    return run_level() if DEEP or LEVEL_VARIABLE in os.environ else _BRIEF
