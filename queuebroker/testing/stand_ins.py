"""The replacements of real objects for tasks: `STAND_INS` and `SEAMS`.

Every stand-in checks its caller. A task of the run gets the simulated object, any other
thread (the test runner's, a logger's) the real one, so nothing outside is disturbed. If
a task is the first to import a module, that module gets real objects: it outlives the
run.

The seams of `threading` are those that all CPythons from 3.11 share: the names that its
own pure Python classes look up when they are called. `Condition`, `Event`, `Semaphore`,
`Barrier`, `Timer` and `queue.Queue` then run their own code on simulated locks.
"""

from __future__ import annotations

import _thread
import builtins
import functools
import importlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from queuebroker import _sync
from queuebroker.testing import primitives, threads
from queuebroker.testing.ending import refuse
from queuebroker.testing.refusals import Imitation
from queuebroker.testing.scheduler import caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing.scheduler import Scheduler
    from queuebroker.testing.task import Task

__all__ = ["SEAMS", "STAND_INS"]

# The date at which virtual time begins, for `time.time`; an arbitrary one.
_EPOCH_S: Final = 1_000_000_000.0

_real_lock = _thread.allocate_lock
_real_rlock = threading.RLock
_REAL_LOCKS: Final = (
    type(_real_lock()),
    type(_real_rlock()),
    _sync.WithLock,
    _sync.WithRLock,
)
_real_wait = threading.Condition.wait
_real_wait_for = threading.Condition.wait_for
_real_notify = threading.Condition.notify
_real_park = _sync.park
_real_spin = _sync.spin
_real_join = _sync.join
_real_sleep = time.sleep


# Locks.


def _made(
    real: Callable[[], Any], simulated: Callable[[Scheduler, Task], Any]
) -> Callable[[], Any]:
    """Return a factory: of simulated objects for a task, of real ones otherwise."""

    def make() -> Any:
        called = caller()
        if called is None or called[1].importing:
            return real()
        return simulated(*called)

    return make


_lock = _made(_real_lock, primitives.SimulatedLock)
_rlock = _made(_real_rlock, primitives.SimulatedRLock)
# `Condition.wait` creates its waiter with this.
_waiter = _made(_real_lock, primitives.SimulatedWaiter)

# `Lock` is a class from 3.13 on, which users pass to ``isinstance``.
_Lock = Imitation("Lock", (_thread.LockType, primitives.SimulatedLock), _lock)
_RLock = Imitation("RLock", (type(_real_rlock()), primitives.SimulatedRLock), _rlock)
# The locks of this library, which are other classes on CPython 3.14.
_OwnLock = Imitation(
    "Lock",
    (type(_sync.Lock()), primitives.SimulatedLock),
    _made(_sync.Lock, primitives.SimulatedLock),
)
_sleep_lock = _made(_sync.sleep_lock, primitives.SimulatedLock)
_OwnRLock = Imitation(
    "RLock",
    (type(_sync.RLock()), primitives.SimulatedRLock),
    _made(_sync.RLock, primitives.SimulatedRLock),
)


def _wait_for(
    condition: threading.Condition,
    predicate: Callable[[], object],
    timeout: float | None = None,
) -> object:
    """Replace `Condition.wait_for`: record the predicate in the task."""
    called = caller()
    if called is None:
        return _real_wait_for(condition, predicate, timeout)
    _, me = called
    outer, me.predicate = me.predicate, predicate
    try:
        return _real_wait_for(condition, predicate, timeout)
    finally:
        me.predicate = outer


def _wait(condition: threading.Condition, timeout: float | None = None) -> bool:
    """Replace `Condition.wait`: refuse older conditions, add spurious wake-ups.

    `Event` has no spurious wake-ups: its own code relies on a wake-up by `Event.set`.
    """
    called = caller()
    if called is None:
        return _real_wait(condition, timeout)
    scheduler, me = called
    private: Any = condition
    if isinstance(private._lock, _REAL_LOCKS):
        # Its waiters would be simulated, but its lock is real: the explorer could not
        # control their wake-up.
        refuse(
            scheduler,
            "a Condition, Event or Queue that was made before the run cannot be"
            " explored: the program has to make what it waits for",
        )
    recorder = scheduler.recorder
    if recorder is not None and recorder.need_not_wait(private._waiters):
        return True
    event_wait = threading.Event.wait.__code__
    if scheduler.spurious_left and sys._getframe(1).f_code is not event_wait:
        me.spurious_wake = functools.partial(_wake, condition, me)
    try:
        return _real_wait(condition, timeout)
    finally:
        me.spurious_wake = None


def _wake(condition: Any, sleeper: Task) -> None:
    """Wake a given sleeper, which `Condition.notify` cannot select."""
    waiter: Any = sleeper.obstacle
    condition._waiters.remove(waiter)
    waiter.taken = False


def _notify(condition: threading.Condition, n: int = 1) -> None:
    """Replace `Condition.notify`: also record a notify that woke no task."""
    called = caller()
    private: Any = condition
    if called is not None:
        scheduler, me = called
        if scheduler.recorder is not None and private._is_owned():
            scheduler.recorder.notifies(me, private._waiters)
    _real_notify(condition, n)


def _park(lock: Any, predicate: Callable[[], bool], deadline: float | None) -> bool:
    if isinstance(lock, primitives.SimulatedLock):
        return primitives.park(lock, predicate, deadline)
    return _real_park(lock, predicate, deadline)


def _spin(ready: Callable[[], bool]) -> bool:
    # Other tasks also run when this one sleeps: a switch here would only multiply the
    # schedules.
    return _real_spin(ready) if caller() is None else ready()


def _join(thread: threading.Thread, seconds: float) -> bool:
    if caller() is None:
        return _real_join(thread, seconds)
    thread.join()  # without a timeout, so that a deadlock is reported as one
    return True


def _importing(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an import function: mark the task as importing during the call."""

    @functools.wraps(real)
    def import_(*args: Any, **kwargs: Any) -> Any:
        called = caller()
        if called is None:
            return real(*args, **kwargs)
        _, me = called
        me.importing += 1
        try:
            return real(*args, **kwargs)
        finally:
            me.importing -= 1

    return import_


# Time.


def _clock(real: Callable[[], Any], of: Callable[[float], Any]) -> Callable[[], Any]:
    def read() -> Any:
        called = caller()
        return real() if called is None else of(called[0].read_clock())

    return read


def _seconds(now_s: float) -> float:
    return now_s


def _nanoseconds(now_s: float) -> int:
    return round(now_s * 1e9)


def _date(now_s: float) -> float:
    return _EPOCH_S + now_s


def _date_in_nanoseconds(now_s: float) -> int:
    return round(_EPOCH_S * 1e9) + _nanoseconds(now_s)


def _sleep(seconds: float) -> None:
    called = caller()
    if called is None:
        _real_sleep(seconds)
    elif seconds < 0:
        raise ValueError("sleep length must be non-negative")
    else:
        primitives.sleep(*called, seconds)


# Real object -> its stand-in, under any name in a module.
STAND_INS: Final[dict[Any, Any]] = {
    _thread.allocate_lock: _Lock,
    **({} if _sync.Lock is _real_lock else {_sync.Lock: _OwnLock}),
    **({} if _sync.sleep_lock is _sync.Lock else {_sync.sleep_lock: _sleep_lock}),
    threading.Lock: _Lock,
    threading.RLock: _rlock,
    threading.current_thread: threads.current_thread,
    threading.main_thread: threads.main_thread,
    threading.enumerate: threads.enumerate_threads,
    threading.active_count: threads.active_count,
    threading.get_ident: threads.get_ident,
    _sync.park: _park,
    _sync.spin: _spin,
    _sync.join: _join,
    time.monotonic: _clock(time.monotonic, _seconds),
    time.monotonic_ns: _clock(time.monotonic_ns, _nanoseconds),
    time.perf_counter: _clock(time.perf_counter, _seconds),
    time.perf_counter_ns: _clock(time.perf_counter_ns, _nanoseconds),
    time.time: _clock(time.time, _date),
    time.time_ns: _clock(time.time_ns, _date_in_nanoseconds),
    time.sleep: _sleep,
}

# Owner, attribute, stand-in: methods, and names that must not be found by identity (in
# 3.11 the function that creates the lock of a waiter is the same object as `Lock`).
SEAMS: Final[list[tuple[Any, str, Any]]] = [
    (threading, "_allocate_lock", _waiter),
    (threading.Thread, "start", threads.start),
    (threading.Thread, "join", threads.join),
    (threading.Thread, "is_alive", threads.is_alive),
    (threading.Condition, "wait", _wait),
    (threading.Condition, "wait_for", _wait_for),
    (threading.Condition, "notify", _notify),
    (builtins, "__import__", _importing(builtins.__import__)),
    (importlib, "import_module", _importing(importlib.import_module)),
    (_thread, "allocate_lock", _Lock),
    (_thread, "RLock", _RLock),
    (_sync, "RLock", _OwnRLock),  # by name: `threading` uses the same class
]

# A task named after its function must be called ``sleep``, not ``_sleep``.
for _real, _stand_in in STAND_INS.items():
    if not isinstance(_stand_in, type):
        functools.update_wrapper(_stand_in, _real, updated=())
