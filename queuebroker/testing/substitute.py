"""Exchanges real things for stand-ins while schedules are explored: `substituted`.

The only place where anything outside is changed, and put back. It is done once for an
exploration, not once for a run: changing a class makes the interpreter forget what it
has learnt about it, and stand-ins see for themselves whether a run is on.
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

# Attributes that every run finds as if the process had just begun: module, attribute,
# and what makes the first value. The default manager, and whatever is numbered.
FRESH: Final[list[tuple[str, str, Callable[[], object]]]] = [
    ("queuebroker.broker_manager", "_defaults", dict),
    ("queuebroker.connection", "_numbers", lambda: itertools.count(1)),
    ("queuebroker.rendezvous", "_tickets", lambda: itertools.count(1)),
    ("threading", "_counter", lambda: itertools.count(1).__next__),
]

# Rebound by identity; so are users' modules that say ``from threading import Lock``, if
# they are given to `substituted`.
_MODULES: Final[tuple[ModuleType, ...]] = (threading, time, queue, _sync)


@contextmanager
def substituted(*, modules: Iterable[ModuleType] = ()) -> Iterator[None]:
    """Let stand-ins take the place of real things within the block."""
    changes: list[tuple[Any, str, Any]] = []
    refused = list(refusals())
    named = tuple(modules)
    for module in (*_MODULES, *named):
        for name, value in vars(module).items():
            if (stand_in := _stand_in(value)) is not None:
                changes.append((module, name, stand_in))
    # Also what a user's module holds on to: ``from queue import SimpleQueue``.
    by_identity = {id(getattr(owner, name)): what for owner, name, what in refused}
    changes += [
        (module, name, by_identity[id(value)])
        for module in named
        for name, value in vars(module).items()
        if id(value) in by_identity
    ]
    changes += renewable(named)  # as it is: every run exchanges it, none puts it back
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
    """Give the attributes of `FRESH` their first values again."""
    for module, name, first in _fresh_attributes():
        setattr(module, name, first())


def _stand_in(value: object) -> Any:
    try:
        return stand_ins.STAND_INS.get(value)
    except TypeError:  # what cannot be hashed has no stand-in
        return None


def _fresh_attributes() -> Iterator[tuple[ModuleType, str, Callable[[], object]]]:
    for path, name, first in FRESH:
        # Imported before the first run, whose task would have to do it otherwise.
        yield importlib.import_module(path), name, first
