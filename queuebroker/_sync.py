"""The only door to threading, parking and time.

Everything in ``queuebroker`` and ``bus`` that can block says ``_sync.X`` at call
time: never ``from ._sync import X``, never a lock made at import time. The schedule
explorer of ``queuebroker.testing`` exchanges the attributes of this module for the
length of a run; there is no other hook.

All waiting goes through `park`, so that the explorer sees what each sleeper sleeps
for and can tell a lost wake-up from a deadlock.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "WAIT_S_MAX",
    "Local",
    "Lock",
    "RLock",
    "Thread",
    "current_thread",
    "get_ident",
    "glance",
    "may_be_struck",
    "monotonic",
    "monotonic_ns",
    "owns",
    "park",
    "wall_ns",
]

# The bare C lock: `with` on it cannot be torn by a signal, which a Python wrapper's
# `__enter__` can (the interrupt strikes after the lock is taken, before it is known).
Lock = _thread.allocate_lock
# The lock of a state that a signal handler may use: the handler runs in the thread that
# it interrupts, perhaps while that thread holds the lock (QB-CONC-10). C code as well.
RLock = _thread.RLock
Thread = threading.Thread
get_ident = _thread.get_ident
monotonic = time.monotonic

# For recording: both clocks in nanoseconds, what belongs to one thread, its name.
monotonic_ns = time.monotonic_ns
wall_ns = time.time_ns
Local = threading.local
current_thread = threading.current_thread

# The longest wait the platform can be asked for, in seconds.
WAIT_S_MAX = threading.TIMEOUT_MAX

# How long a caller lets others run before it sleeps, in seconds: less than it takes to
# put a thread to sleep and to wake it on another processor.
GLANCE_S = 2e-5


def may_be_struck() -> bool:
    """Whether an interrupt may come in the calling thread: only in the main one."""
    return threading.main_thread().ident == _thread.get_ident()


def owns(lock: _thread.RLock) -> bool:
    """Whether the calling thread holds ``lock``, which only that thread can change."""
    owned: bool = lock._is_owned()  # type: ignore[attr-defined]  # as `Condition` asks
    return owned


def glance(ready: Callable[[], bool]) -> bool:
    """Let other threads run for a moment; return whether ``ready`` came true.

    Two threads that answer each other need not sleep then, nor wake each other, which
    is most of a round trip. ``ready`` is called without any lock and must only read.
    """
    until = monotonic() + GLANCE_S
    while not ready():
        if monotonic() >= until:
            return False
        os.sched_yield()  # lets go of the interpreter lock, and sleeps not
    return True


def park(
    lock: _thread.LockType,
    predicate: Callable[[], bool],  # noqa: ARG001  # for the explorer, see below
    deadline: float | None,
) -> bool:
    """Sleep until somebody releases ``lock``, which the caller has taken.

    ``predicate`` says what the caller sleeps for. It is not called here: it is what
    the explorer evaluates when everybody sleeps, without any lock, so it must only
    read. ``deadline`` is a point on `monotonic` in seconds, None for never; however
    far away, since the wait is made in slices of what the platform takes.

    True when woken (the lock is taken again), False when the deadline passed first.
    """
    if deadline is None:
        return lock.acquire()
    while (remaining_s := deadline - monotonic()) > 0:
        # The platform may wake a hair early; QB-TIME-2 says never before the deadline.
        slice_s = min(WAIT_S_MAX, remaining_s)
        if lock.acquire(True, slice_s):
            return True
    return lock.acquire(False)
