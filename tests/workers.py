"""Distribution of the tests among worker processes, for pytest-xdist.

Files stay whole: their fixtures are set up once. Every test that may start Spark stays
with one worker, since a session takes seconds to start and as much memory as all the
others.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

__all__ = ["Shares"]

_SPARK = "tests/pipeline/"


class Shares(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Files in the order of their names, those of the pipeline as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        return _SPARK if nodeid.startswith(_SPARK) else super()._split_scope(nodeid)
