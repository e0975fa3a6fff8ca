"""`substituted`: the replacement of real objects by stand-ins during an exploration.

This is the only place that changes and restores objects outside the explorer. It does
so once per exploration, not once per run: a change of a class invalidates the
interpreter's caches for it, and stand-ins check for themselves whether a run is active.
"""

from __future__ import annotations

import importlib
import itertools
import queue
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from queuebroker import _sync
from queuebroker.testing import stand_ins
from queuebroker.testing.refusals import refusals
from queuebroker.testing.renewal import renewable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

__all__ = ["FRESH", "freshen", "substituted"]

# Attributes that have their initial value in every run: module, attribute, and a
# factory for that value. They are the default manager and the counters.
FRESH: Final[list[tuple[str, str, Callable[[], object]]]] = [
    ("queuebroker.meeting.broker_manager", "_defaults", dict),
    ("queuebroker.channel.connection", "_numbers", lambda: itertools.count(1)),
    ("queuebroker.meeting.rendezvous", "_tickets", lambda: itertools.count(1)),
    ("threading", "_counter", lambda: itertools.count(1).__next__),
]

# In these modules names are replaced by identity. The same holds for users' modules
# with ``from threading import Lock``, if they are passed to `substituted`.
_MODULES: Final[tuple[ModuleType, ...]] = (threading, time, queue, _sync)


@contextmanager
def substituted(*, modules: Iterable[ModuleType] = ()) -> Iterator[None]:
    """Replace real objects by stand-ins within the block."""
    changes: list[tuple[Any, str, Any]] = []
    refused = list(refusals())
    named = tuple(modules)
    for module in (*_MODULES, *named):
        for name, value in vars(module).items():
            if (stand_in := _stand_in(value)) is not None:
                changes.append((module, name, stand_in))
    # Also the names in a user's module: ``from queue import SimpleQueue``.
    by_identity = {id(getattr(owner, name)): what for owner, name, what in refused}
    changes += [
        (module, name, by_identity[id(value)])
        for module in named
        for name, value in vars(module).items()
        if id(value) in by_identity
    ]
    changes += renewable(named)  # unchanged: runs replace it, only the end restores it
    changes += stand_ins.SEAMS
    changes += refused
    changes += [(module, name, first()) for module, name, first in _fresh_attributes()]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        # Last in, first out: a name may have been changed twice.
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def freshen() -> None:
    """Reset the attributes of `FRESH` to their initial values."""
    for module, name, first in _fresh_attributes():
        setattr(module, name, first())


def _stand_in(value: object) -> Any:
    try:
        return stand_ins.STAND_INS.get(value)
    except TypeError:  # an unhashable value has no stand-in
        return None


def _fresh_attributes() -> Iterator[tuple[ModuleType, str, Callable[[], object]]]:
    for path, name, first in FRESH:
        # Imported before the first run: otherwise a task of it would import the module.
        yield importlib.import_module(path), name, first
