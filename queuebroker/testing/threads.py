"""The thread functions of `threading`, for the tasks of a run.

During an exploration these functions replace methods of `threading.Thread` and
functions of `threading`. A `Thread` that a task starts becomes a task; a thread that a
test started before is left alone. The objects belong to the user's own classes, and the
library's own constructor initializes them. Their state stays consistent, so that the
original methods work on them when the run is over.
"""

from __future__ import annotations

import _thread
import contextlib
import threading
from typing import TYPE_CHECKING, Any

from queuebroker.testing.ending import pass_by, refuse
from queuebroker.testing.primitives import wait_for
from queuebroker.testing.scheduler import Scheduler, caller
from queuebroker.testing.task import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing.task import Task

__all__ = [
    "active_count",
    "current_thread",
    "enumerate_threads",
    "get_ident",
    "is_alive",
    "join",
    "main_thread",
    "mark_ended",
    "start",
]

_real_get_ident = _thread.get_ident
_real_start = threading.Thread.start
_real_join = threading.Thread.join
_real_is_alive = threading.Thread.is_alive
_real_current_thread = threading.current_thread
_real_main_thread = threading.main_thread
_real_enumerate = threading.enumerate
_real_active_count = threading.active_count


def get_ident() -> int:
    """Replace `threading.get_ident`.

    The system reuses real numbers, so that a program that uses them would depend on
    chance. These numbers belong to one task of a run.
    """
    called = caller()
    return _real_get_ident() if called is None else _ident(called[1])


def current_thread() -> threading.Thread:
    """Replace `threading.current_thread`."""
    called = caller()
    return _real_current_thread() if called is None else _thread_of(*called)


def main_thread() -> threading.Thread:
    """Replace `threading.main_thread`: return that of the program under exploration."""
    called = caller()
    if called is None:
        return _real_main_thread()
    scheduler, _ = called
    return _thread_of(scheduler, scheduler.main)


def enumerate_threads() -> list[threading.Thread]:
    """Replace `threading.enumerate`."""
    called = caller()
    if called is None:
        return _real_enumerate()
    scheduler, _ = called
    return [_thread_of(scheduler, task) for task in scheduler.alive]


def active_count() -> int:
    """Replace `threading.active_count`."""
    called = caller()
    return _real_active_count() if called is None else len(called[0].alive)


def start(thread: threading.Thread) -> None:
    """Replace `Thread.start`: the thread becomes a task, and may run at once."""
    called = caller()
    if called is None:
        _real_start(thread)
        return
    scheduler, me = called
    if not getattr(thread, "_initialized", False):
        raise RuntimeError("thread.__init__() not called")
    if thread.ident is not None:
        raise RuntimeError("threads can only be started once")
    if not scheduler.holder:
        pass_by(scheduler, me)
        return
    task = scheduler.create(thread.name, _body(thread), daemon=thread.daemon)
    _adopt(scheduler, task, thread)
    if scheduler.recorder is not None:
        scheduler.recorder.note(me, f"starts {task.name}")
    scheduler.switch_freely()


def join(thread: threading.Thread, timeout: float | None = None) -> None:
    """Replace `Thread.join`."""
    called = caller()
    if called is None or thread.ident is None:
        _real_join(thread, timeout)
        return
    scheduler, me = called
    task = scheduler.by_thread.get(id(thread))
    if task is None:
        refuse(scheduler, f"cannot join {thread.name!r}: this run did not start it")
    if task is me:
        raise RuntimeError("cannot join current thread")
    if not scheduler.holder:
        pass_by(scheduler, me)
        return
    wait_for(
        scheduler, task, NEVER if timeout is None else scheduler.now + max(timeout, 0.0)
    )


def is_alive(thread: threading.Thread) -> bool:
    """Replace `Thread.is_alive`."""
    scheduler = Scheduler.active
    task = None if scheduler is None else scheduler.by_thread.get(id(thread))
    return _real_is_alive(thread) if task is None else task.taken


def mark_ended(thread: threading.Thread) -> None:
    """Mark a thread as ended for the original methods."""
    private: Any = thread
    for name in ("_handle", "_os_thread_handle"):  # from 3.13 on; newer releases
        if hasattr(private, name):
            library: Any = threading
            handle = library._make_thread_handle(private._ident)
            handle._set_done()
            setattr(private, name, handle)
            return
    private._is_stopped = True


def _body(thread: threading.Thread) -> Callable[[], None]:
    def body() -> None:
        # Outside a run, too, this exception ends a thread without a message.
        with contextlib.suppress(SystemExit):
            thread.run()

    return body


def _thread_of(scheduler: Scheduler, task: Task) -> threading.Thread:
    """Return the `Thread` of a task; create it on first use if the task has none."""
    if task.thread is None:
        # Without `daemon` the constructor would call `current_thread`: a recursion.
        thread = threading.Thread(name=task.name, daemon=task.daemon)
        _adopt(scheduler, task, thread)
        assert task.thread is not None
    return task.thread


def _adopt(scheduler: Scheduler, task: Task, thread: threading.Thread) -> None:
    """Attach ``thread`` to ``task``, and mark it as started."""
    task.thread = thread
    scheduler.by_thread[id(thread)] = task
    private: Any = thread
    private._ident = _ident(task)
    # An event: with no holder its lock does not block, as for an inspected predicate.
    holder, scheduler.holder = scheduler.holder, 0
    try:
        private._started.set()
    finally:
        scheduler.holder = holder


def _ident(task: Task) -> int:
    return task.number + 1
