"""Every schedule of real threaded code, under a virtual clock.

Layout, each on top of those before it:

- ``failure``, ``strategy``, ``task``, ``trouble``: words that the others share
- ``unwinding``, ``ending``: how a run is brought to its end, well or badly
- ``quiescence``, ``scheduler``: what it means that nobody can go on; whose turn it is
- ``primitives``, ``threads``: locks, sleeping, parking, threads, as tasks see them
- ``refusals``, ``stand_ins``, ``substitute``: what is exchanged, and put back
- ``places``, ``recorder``, ``story``: a failed run in words
- ``run``, ``search``, ``supervise``, ``experiment``: one run, under one strategy
- ``housekeeping``, ``report``, ``explore``: many runs, one verdict
- ``shorten``, ``diagnosis``: from a failing run to one worth reading
- ``history``, ``linearizability``: what operations came to, and whether that can be
"""

from __future__ import annotations

from queuebroker.testing.explore import explore, replay
from queuebroker.testing.failure import Failure, FailureKind, UncontrolledError
from queuebroker.testing.history import PENDING, Call, History
from queuebroker.testing.linearizability import (
    Model,
    NotLinearizableError,
    check_linearizable,
)
from queuebroker.testing.report import Report, Round
from queuebroker.testing.run import Run, Spawned

__all__ = [  # noqa: RUF022 # grouped by module
    # explore
    "explore",
    "replay",
    # run
    "Run",
    "Spawned",
    # report
    "Report",
    "Round",
    # failure
    "Failure",
    "FailureKind",
    "UncontrolledError",
    # history
    "PENDING",
    "Call",
    "History",
    # linearizability
    "Model",
    "NotLinearizableError",
    "check_linearizable",
]
