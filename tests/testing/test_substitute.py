"""Replaced objects are restored, and only tasks see the replacements."""

from __future__ import annotations

import builtins
import importlib
import queue
import threading
import time
import types
from typing import Any

import pytest

from queuebroker import _sync
from queuebroker.testing import Failure, explore
from queuebroker.testing.substitute import FRESH, substituted
from tests.support import LIMIT_S
from tests.testing.programs import under_way

_OWNERS = (
    threading,
    threading.Thread,
    threading.Condition,
    time,
    queue,
    _sync,
    builtins,
)


def _everything() -> list[dict[str, Any]]:
    return [dict(vars(owner)) for owner in _OWNERS]


def test_everything_is_put_back() -> None:
    before = _everything()

    explore(lambda run: None, bound=0, random=0, spurious=1)

    assert _everything() == before


def test_everything_is_put_back_after_a_failure() -> None:
    before = _everything()

    with pytest.raises(Failure):
        explore(lambda run: threading.Event().wait(), bound=0, random=0)

    assert _everything() == before


def test_threads_outside_are_not_disturbed() -> None:
    """A real thread during a run has real locks, threads, time and queues."""
    made: list[object] = []

    with under_way():
        made += [threading.Lock(), threading.RLock(), _sync.Lock()]
        assert abs(time.monotonic() - _sync.monotonic()) < LIMIT_S
        assert time.time() > 1_500_000_000
        assert threading.current_thread() is threading.main_thread()
        assert threading.get_ident() == threading.current_thread().ident
        helper = threading.Thread(target=made.append, args=("helped",))
        helper.start()
        helper.join()
        assert not helper.is_alive()
        simple: queue.SimpleQueue[int] = queue.SimpleQueue()
        simple.put(1)
        assert simple.get() == 1
        condition = threading.Condition()
        with condition:
            assert not condition.wait_for(lambda: False, timeout=0)

    kinds = [type(threading.Lock()), type(threading.RLock()), type(_sync.Lock())]
    assert [type(lock) for lock in made[:3]] == kinds
    assert made[3:] == ["helped"]


def test_a_module_that_imported_names_can_be_rebound() -> None:
    module: Any = types.ModuleType("a_users_module")
    exec(
        "from threading import Lock, RLock\nfrom time import sleep", vars(module)
    )  # ours
    before = dict(vars(module))

    with substituted(modules=[module]):
        rebound = {name for name in before if vars(module)[name] is not before[name]}

    assert rebound == {"Lock", "RLock", "sleep"}
    assert vars(module) == before


@pytest.mark.parametrize(("path", "name"), [each[:2] for each in FRESH])
def test_every_object_that_is_fresh_in_each_run_exists(path: str, name: str) -> None:
    """After a rename it would silently no longer be fresh."""
    assert hasattr(importlib.import_module(path), name)
