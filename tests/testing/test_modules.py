"""A user's own modules are explored unchanged, and restored afterwards."""

from __future__ import annotations

import importlib.util
import inspect
import os
import queue
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, UncontrolledError, explore, replay
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuebroker.testing import Run

# Each moves money both ways between two accounts: one lock after the other, in argument
# order. They differ in how they import the names of `threading`.
WAYS = {
    "from threading import": """
        from threading import Lock, Thread

        class Account:
            def __init__(self):
                self.lock = Lock()

        def start(work):
            thread = Thread(target=work)
            thread.start()
            return thread
        """,
    "import as": """
        import threading as t

        class Account:
            def __init__(self):
                self.lock = t.RLock()

        def start(work):
            thread = t.Thread(target=work)
            thread.start()
            return thread
        """,
    "from import as": """
        from threading import Condition as Monitor, Thread as Worker

        class Account:
            def __init__(self):
                self.lock = Monitor()

        def start(work):
            thread = Worker(target=work)
            thread.start()
            return thread
        """,
    "_thread": """
        from _thread import allocate_lock
        import threading

        class Account:
            def __init__(self):
                self.lock = allocate_lock()

        def start(work):
            thread = threading.Thread(target=work)
            thread.start()
            return thread
        """,
}

TRANSFERS = """

def transfer(source, target):
    with source.lock:
        with target.lock:
            pass

def program(run=None):
    one, other = Account(), Account()
    threads = [
        start(lambda: transfer(one, other)), start(lambda: transfer(other, one)),
    ]
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_deadlock_is_found_however_names_are_imported(
    load: Callable[[str], Any], way: str
) -> None:
    module = load(inspect.cleandoc(WAYS[way]) + TRANSFERS)
    before = dict(vars(module))

    found = failure_of(module.program, modules=[module])

    assert found.kind == "deadlock"
    assert f"{module.__name__}.py:" in found.story
    assert vars(module) == before


def test_the_hint_for_a_replay_names_the_modules(load: Callable[[str], Any]) -> None:
    module = load(inspect.cleandoc(WAYS["from threading import"]) + TRANSFERS)
    found = failure_of(module.program, modules=[module])

    with pytest.raises(Failure) as again:
        replay(module.program, found.schedule, modules=[module])

    assert again.value.story == found.story
    hint = f"replay(program, {found.schedule}, modules=[{module.__name__}])"
    assert hint in found.story


def test_time_in_a_users_module_is_virtual(load: Callable[[str], Any]) -> None:
    module = load(
        """
        from time import monotonic, sleep, time
        import time as clock

        def program(run):
            began, date = monotonic(), time()
            sleep(3600)
            clock.sleep(3600)
            assert monotonic() - began == clock.monotonic() - began == 7200
            assert time() - date == 7200
            assert run.now == 7200
        """
    )

    explore(module.program, modules=[module], random=5)


def test_a_queue_in_a_users_module_is_explored(load: Callable[[str], Any]) -> None:
    """A task that checks for an item, and then gets one, may wait forever."""
    module = load(
        """
        from queue import Queue
        from threading import Thread

        def program(run):
            tasks = Queue()
            tasks.put("only one")

            def work():
                if not tasks.empty():
                    tasks.get()

            for _ in range(2):
                Thread(target=work).start()
        """
    )

    found = failure_of(module.program, modules=[module])

    assert found.kind == "deadlock"
    assert "Queue.get" in found.story


def test_a_module_is_as_it_was_after_an_error_that_is_none_of_the_runs(
    load: Callable[[str], Any],
) -> None:
    module = load("from threading import Lock\nlock = Lock()\n")
    before = dict(vars(module))

    with pytest.raises(ValueError, match="bound"):
        explore(lambda run: None, modules=[module], bound=-1)
    with pytest.raises(Failure, match="AttributeError"):
        explore(lambda run: module.nothing, modules=[module])

    assert vars(module) == before


def test_a_thread_outside_of_the_run_gets_real_things_from_the_module(
    load: Callable[[str], Any],
) -> None:
    module = load("from threading import Lock\ndef make():\n    return Lock()\n")
    made: list[object] = []

    def program(_run: Run) -> None:
        made.append(module.make())

    real = type(module.make())
    explore(program, modules=[module], bound=0, random=0)

    assert type(made[0]) is not real
    assert type(module.make()) is real


@pytest.mark.parametrize(
    ("modules", "complaint"),
    [
        (threading, "modules must be an iterable of modules, got module"),
        (None, "modules must be an iterable of modules, got NoneType"),
        (["bank"], "modules[0] must be a module, got str"),
        ("bank", "modules[0] must be a module, got str"),
        ([queue, threading.Thread], "modules[1] must be a module, got type"),
    ],
)
def test_modules_are_modules(modules: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(complaint)}$"):
        explore(lambda run: None, modules=modules)
    with pytest.raises(TypeError, match=f"^{re.escape(complaint)}$"):
        replay(lambda run: None, [], modules=modules)


def test_modules_may_come_from_a_generator(load: Callable[[str], Any]) -> None:
    module = load(inspect.cleandoc(WAYS["from threading import"]) + TRANSFERS)

    found = failure_of(module.program, modules=(each for each in [module]))

    assert found.kind == "deadlock"


# Objects that cannot be replaced, and how a user's module may keep a reference.
REFUSED = {
    "queue.SimpleQueue": "from queue import SimpleQueue as Q\ndef use(): Q().put(1)",
    "_thread.start_new_thread": (
        "from _thread import start_new_thread\ndef use(): start_new_thread(print, ())"
    ),
    "socket.socket": "from socket import socket\ndef use(): socket().close()",
    "select.select": ("from select import select\ndef use(): select([], [], [], 0)"),
    "multiprocessing.Process": (
        "from multiprocessing import Process\ndef use(): Process(target=print).start()"
    ),
    "a lock of multiprocessing": (
        "from multiprocessing import Event\ndef use(): Event().wait(timeout=0)"
    ),
    "multiprocessing.Pipe": ("import multiprocessing as mp\ndef use(): mp.Pipe()"),
    "os.fork": "from os import _exit, fork\ndef use(): fork() or _exit(0)",
}
if not hasattr(os, "fork"):  # Windows
    del REFUSED["os.fork"]


@pytest.mark.parametrize("name", REFUSED)
def test_an_object_that_cannot_be_replaced_is_refused_when_it_is_used(
    load: Callable[[str], Any], name: str
) -> None:
    module = load(REFUSED[name])
    explore(lambda run: None, modules=[module], bound=0, random=0)

    with pytest.raises(UncontrolledError) as caught:
        explore(lambda run: module.use(), modules=[module])

    line = caught.value.story.splitlines()[0]
    assert line.startswith("uncontrolled: ")
    assert "cannot be explored" in line
    assert name in line
    assert f"{module.__name__}.py:" in caught.value.story


def test_a_module_first_imported_by_a_task_gets_real_things(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It outlives the run, however it is imported."""
    for name in ("made_by_statement", "made_by_call"):
        (tmp_path / f"{name}.py").write_text("import threading\na = threading.Lock()\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def program(_run: Run) -> None:
        import made_by_statement  # type: ignore[import-not-found] # noqa: F401, PLC0415

        importlib.import_module("made_by_call")

    explore(program, bound=0, random=0)

    for name in ("made_by_statement", "made_by_call"):
        module: Any = sys.modules.pop(name)
        assert type(module.a) is type(threading.Lock())
