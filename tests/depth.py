"""The depth of a run of the tests, set by the environment variable ``TEST_DEEP``.

By default a run tests each behaviour once, and tries few schedules of each scenario.
With ``TEST_DEEP=1``, set by ``.ci/run`` and by the mutants, it tries many schedules and
runs the tests marked ``deep``: the same behaviour in more cases or on more data.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["DEEP", "schedules"]

DEEP: Final = os.environ.get("TEST_DEEP", "") not in ("", "0")


def schedules(count: int) -> int:
    """Return how many schedules to try: so many in a deep run, else a fifth of them."""
    return count if DEEP else -(-count // 5)
