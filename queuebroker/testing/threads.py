"""What `threading` says of threads, for the tasks of a run.

The functions take the place of methods of `threading.Thread` and of functions of
`threading` for the length of an exploration. A `Thread` that a task starts becomes a
task; one that a test started before is left alone. The objects are of the user's own
classes, made by the library's own constructor; they are kept such that the original
methods can be asked again when the run is over.
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
    """Stands for `threading.get_ident`.

    Real numbers are used again and again, so that what a program does with them would
    depend on chance; these belong to one task of a run.
    """
    me = caller()
    return _real_get_ident() if me is None else _ident(me)


def current_thread() -> threading.Thread:
    """Stands for `threading.current_thread`."""
    me = caller()
    return _real_current_thread() if me is None else _thread_of(me)


def main_thread() -> threading.Thread:
    """Stands for `threading.main_thread`: that of the program under exploration."""
    me = caller()
    return _real_main_thread() if me is None else _thread_of(me.scheduler.main)


def enumerate_threads() -> list[threading.Thread]:
    """Stands for `threading.enumerate`."""
    me = caller()
    return (
        _real_enumerate() if me is None else [_thread_of(t) for t in me.scheduler.alive]
    )


def active_count() -> int:
    """Stands for `threading.active_count`."""
    me = caller()
    return _real_active_count() if me is None else len(me.scheduler.alive)


def start(thread: threading.Thread) -> None:
    """Stands for `Thread.start`: the thread becomes a task, and may run at once."""
    me = caller()
    if me is None:
        _real_start(thread)
        return
    scheduler = me.scheduler
    if not getattr(thread, "_initialized", False):
        raise RuntimeError("thread.__init__() not called")
    if thread.ident is not None:
        raise RuntimeError("threads can only be started once")
    if not scheduler.holder:
        pass_by(scheduler, me)
        return
    task = scheduler.create(thread.name, _body(thread), daemon=thread.daemon)
    _adopt(task, thread)
    if scheduler.recorder is not None:
        scheduler.recorder.note(me, f"starts {task.name}")
    scheduler.switch_freely()


def join(thread: threading.Thread, timeout: float | None = None) -> None:
    """Stands for `Thread.join`."""
    me = caller()
    if me is None or thread.ident is None:
        _real_join(thread, timeout)
        return
    scheduler = me.scheduler
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
    """Stands for `Thread.is_alive`."""
    scheduler = Scheduler.active
    task = None if scheduler is None else scheduler.by_thread.get(id(thread))
    return _real_is_alive(thread) if task is None else task.taken


def mark_ended(thread: threading.Thread) -> None:
    """Let the original methods see a thread that has ended."""
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
        # That ends a thread without a word in production, too.
        with contextlib.suppress(SystemExit):
            thread.run()

    return body


def _thread_of(task: Task) -> threading.Thread:
    """The `Thread` of a task; one that began without gets it when it is asked for."""
    if task.thread is None:
        # With `daemon` given it does not ask for the current thread, which is this.
        _adopt(task, threading.Thread(name=task.name, daemon=task.daemon))
        assert task.thread is not None
    return task.thread


def _adopt(task: Task, thread: threading.Thread) -> None:
    """Make ``thread`` that of ``task``, and let it look as if it had been started."""
    scheduler = task.scheduler
    task.thread = thread
    scheduler.by_thread[id(thread)] = task
    private: Any = thread
    private._ident = _ident(task)
    # It is an event; its lock is passed through as for a predicate under inspection.
    holder, scheduler.holder = scheduler.holder, 0
    try:
        private._started.set()
    finally:
        scheduler.holder = holder


def _ident(task: Task) -> int:
    return task.number + 1
