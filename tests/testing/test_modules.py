"""A user's own modules are explored as they are, and are as they were afterwards."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, UncontrolledError, explore, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from queuebroker.testing import Run

_numbers = itertools.count()


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Import a module of the given text, as a user's that lies somewhere else."""
    loaded: list[str] = []

    def load(text: str) -> ModuleType:
        name = f"users_{next(_numbers)}"
        path = tmp_path / f"{name}.py"
        path.write_text(inspect.cleandoc(text) + "\n", encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]


# Each moves money both ways between two accounts: one lock after the other, in the
# order in which they come. What differs is how the names of `threading` are got.
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

    with pytest.raises(Failure) as caught:
        explore(module.program, modules=[module])

    assert caught.value.kind == "deadlock"
    assert f"{module.__name__}.py:" in caught.value.story
    assert vars(module) == before


def test_the_hint_for_a_replay_names_the_modules(load: Callable[[str], Any]) -> None:
    module = load(inspect.cleandoc(WAYS["from threading import"]) + TRANSFERS)
    with pytest.raises(Failure) as caught:
        explore(module.program, modules=[module])
    failure = caught.value

    with pytest.raises(Failure) as again:
        replay(module.program, failure.schedule, modules=[module])

    assert again.value.story == failure.story
    hint = f"replay(program, {failure.schedule}, modules=[{module.__name__}])"
    assert hint in failure.story


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
    """Who looks whether there is something, and then gets, may wait for ever."""
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

    with pytest.raises(Failure) as caught:
        explore(module.program, modules=[module])

    assert caught.value.kind == "deadlock"
    assert "Queue.get" in caught.value.story


# What a module may have made when it was imported, and how two tasks can get stuck
# because of it, or see what the run before has left.
MADE_AT_IMPORT = {
    "locks": (
        """
        from threading import Lock, RLock
        left, right = Lock(), RLock()
        """,
        "with left, right: pass",
        "with right, left: pass",
    ),
    "a condition on a lock": (
        """
        import threading
        lock = threading.Lock()
        condition = threading.Condition(lock)
        """,
        "with lock: condition.wait()",
        "with condition: condition.notify()",
    ),
    "an event": (
        """
        import threading
        event = threading.Event()
        """,
        "event.is_set() or event.wait()",
        "event.set(); event.clear()",
    ),
    "a semaphore": (
        """
        import threading
        slots = threading.BoundedSemaphore(2)
        """,
        "slots.acquire(); slots.acquire(); slots.release(); slots.release()",
        "slots.acquire(); slots.acquire(); slots.release(); slots.release()",
    ),
    "a queue": (
        """
        import queue
        tasks = queue.Queue()
        tasks.put("only one")
        """,
        "tasks.empty() or tasks.get()",
        "tasks.empty() or tasks.get()",
    ),
    "a lock of a class": (
        """
        import threading
        class Printer:
            lock = threading.Lock()
        class Scanner:
            lock = threading.Lock()
        """,
        "with Printer.lock, Scanner.lock: pass",
        "with Scanner.lock, Printer.lock: pass",
    ),
    "a lock that is taken": (
        """
        import threading
        gate = threading.Lock()
        gate.acquire()
        """,
        "gate.acquire()",
        "pass",
    ),
    "a barrier": (
        """
        import threading
        all_here = threading.Barrier(3)
        """,
        "all_here.wait()",
        "all_here.wait()",
    ),
}


@pytest.mark.parametrize("name", MADE_AT_IMPORT)
def test_what_a_module_made_when_imported_is_new_in_every_run(
    load: Callable[[str], Any], name: str
) -> None:
    made, one, other = MADE_AT_IMPORT[name]
    actors = f"\n\ndef one():\n    {one}\n\ndef other():\n    {other}\n"
    module = load(inspect.cleandoc(made) + actors)
    before = {name: id(value) for name, value in vars(module).items()}

    def program(run: Run) -> None:
        run.spawn(module.one)
        run.spawn(module.other)

    with pytest.raises(Failure) as caught:
        explore(program, modules=[module])

    assert caught.value.kind in {"deadlock", "lost wake-up"}
    assert {name: id(value) for name, value in vars(module).items()} == before


def test_something_of_a_users_own_class_from_before_the_run_is_refused(
    load: Callable[[str], Any],
) -> None:
    """Nobody knows how to make another one."""
    module = load(
        """
        import queue

        class Inbox(queue.Queue):
            pass

        inbox = Inbox()
        """
    )

    with pytest.raises(UncontrolledError, match="made before the run"):
        explore(lambda run: module.inbox.get(), modules=[module])


def test_a_lock_made_when_imported_is_called_what_its_module_calls_it(
    load: Callable[[str], Any],
) -> None:
    module = load(
        """
        import threading
        ledger = threading.Lock()
        paper = threading.Condition()

        def program(run):
            run.settle()
            with ledger, paper:
                raise LookupError
        """
    )

    with pytest.raises(Failure) as caught:
        explore(module.program, modules=[module])

    assert "takes ledger" in caught.value.story
    assert "takes paper" in caught.value.story


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


# What cannot be exchanged, and how a user's module may hold on to it.
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


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exchanged_is_refused_when_it_is_used(
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
    """It outlives the run, whichever way it is imported."""
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
