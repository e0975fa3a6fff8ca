"""Objects that a user's module made at import are new in every run."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import UncontrolledError, explore
from tests.testing.failing import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

# Objects that a module may have made at import, and how they can block two tasks or
# show a state left by the run before.
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
def test_an_object_that_a_module_makes_at_import_is_new_in_every_run(
    load: Callable[[str], Any], name: str
) -> None:
    made, one, other = MADE_AT_IMPORT[name]
    actors = f"\n\ndef one():\n    {one}\n\ndef other():\n    {other}\n"
    module = load(inspect.cleandoc(made) + actors)
    before = {name: id(value) for name, value in vars(module).items()}

    def program(run: Run) -> None:
        run.spawn(module.one)
        run.spawn(module.other)

    found = failure_of(program, modules=[module])

    assert found.kind in {"deadlock", "lost wake-up"}
    assert {name: id(value) for name, value in vars(module).items()} == before


def test_something_of_a_users_own_class_from_before_the_run_is_refused(
    load: Callable[[str], Any],
) -> None:
    """The explorer cannot know how to make another one."""
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


def test_a_story_names_a_lock_made_at_import_as_its_module_does(
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

    found = failure_of(module.program, modules=[module])

    assert "takes ledger" in found.story
    assert "takes paper" in found.story
