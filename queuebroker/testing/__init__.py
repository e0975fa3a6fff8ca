"""Every schedule of real threaded code, under a virtual clock.

::

    import threading

    from queuebroker.testing import explore

    def program(run):
        forks = [threading.Lock(), threading.Lock()]

        def eat(left, right):
            with forks[left], forks[right]:
                pass

        run.spawn(eat, 0, 1)
        run.spawn(eat, 1, 0)
        run.join()

    explore(program)  # Failure: deadlock, and the schedule that leads to it

`explore` calls the program again for each schedule, and `replay` repeats one of them.
`stress` runs code that the explorer cannot control, on real threads.
`check_linearizable` compares a `History` of calls with a `Model`. ``python -m
queuebroker.testing --help`` does the same in a shell, and the fixture ``explore`` in
pytest.

Layout; each group uses only those above it:

- ``failure``, ``task``: types that the others share
- ``instructions``, ``places``, ``recorder``: the actions of a run, in words
- ``scheduling``, ``ending``: the end of a run, with or without a failure
- ``tracing``, ``monitoring``, ``bytecode``: switch points inside of lines
- ``scheduler``: selection of tasks, and runs in which none can go on
- ``primitives``, ``threads``: locks, sleeping, parking, threads, as tasks see them
- ``refusals``, ``stand_ins``, ``renewal``, ``substitute``: the replaced objects
- ``run``, ``program``, ``search``, ``supervise``, ``housekeeping``, ``experiment``:
  one run, under one strategy
- ``shorten``, ``story``, ``diagnosis``: from a failing run to a readable one
- ``report``, ``survey``, ``explore``: many runs, one verdict
- ``history``, ``linearizability``: outcomes of operations, and their explanation
- ``strategies``: schedules that Hypothesis draws; used by no other module
- ``stress``: real threads, for programs that cannot be controlled
- ``program_file``, ``command``, ``plugin``: from a shell, and from pytest

Each module is loaded on first use: with this package installed, every pytest imports
``plugin``, which is part of it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from queuebroker.testing.explore import explore, replay
    from queuebroker.testing.failure import Failure, FailureKind, UncontrolledError
    from queuebroker.testing.history import PENDING, Call, History
    from queuebroker.testing.linearizability import (
        Model,
        NotLinearizableError,
        check_linearizable,
    )
    from queuebroker.testing.report import Mode, Report, Round
    from queuebroker.testing.run import Run, Spawned
    from queuebroker.testing.stress import stress

__all__ = [  # noqa: RUF022 # grouped by module
    # explore
    "explore",
    "replay",
    # run
    "Run",
    "Spawned",
    # report
    "Mode",
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
    # stress
    "stress",
]

_HOMES: Final = {
    "explore": "explore",
    "replay": "explore",
    "Run": "run",
    "Spawned": "run",
    "Mode": "report",
    "Report": "report",
    "Round": "report",
    "Failure": "failure",
    "FailureKind": "failure",
    "UncontrolledError": "failure",
    "PENDING": "history",
    "Call": "history",
    "History": "history",
    "Model": "linearizability",
    "NotLinearizableError": "linearizability",
    "check_linearizable": "linearizability",
    "stress": "stress",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This package: `explore` stays its function after the module is loaded.

    So does `stress`.
    """

    def __setattr__(self, name: str, value: object) -> None:
        # The import system sets each module of a package as its attribute.
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
