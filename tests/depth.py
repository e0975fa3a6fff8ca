"""The depth of a run of the tests, set by the environment variable ``TEST_DEEP``.

By default a run leaves out the tests marked ``deep``, which are slow or need a quiet
machine, and tries few schedules of each scenario. ``TEST_DEEP=1``, set by the mutants,
runs all tests, and tries many schedules. A fraction runs the same tests with that part
of the schedules: ``.ci/run`` sets one, to end in time.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["DEEP", "FULL", "among", "schedules"]

_SHARE: Final = min(1.0, float(os.environ.get("TEST_DEEP") or 0))

DEEP: Final = _SHARE > 0
FULL: Final = _SHARE == 1


def among(few: int, many: int) -> int:
    """Return how many to try: few by default, and part or all of many in a deep run."""
    return max(few, -int(-many * _SHARE // 1))


def schedules(count: int) -> int:
    """Return how many schedules to try: all or part in a deep run, else a fortieth."""
    return among(-(-count // 40), count)
