"""The only module that uses threading, parking and time.

All blocking code in ``queuebroker`` and ``bus`` refers to ``_sync.X`` at call time. It
never uses ``from ._sync import X``, and creates no lock at import. The schedule
explorer of ``queuebroker.testing`` replaces the attributes of this module during a run;
there is no other hook.

Every wait goes through `park`, so that the explorer sees each sleeper's condition and
can distinguish a lost wake-up from a deadlock.
"""

from __future__ import annotations

import _thread
import contextlib
import itertools
import os
import sys
import threading
import time
import weakref
from functools import partial
from math import inf
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from queuebroker import _platform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "SLICE_S",
    "WAIT_S_MAX",
    "Local",
    "Lock",
    "RLock",
    "Thread",
    "WithLock",
    "WithRLock",
    "at_exit_of_main",
    "current_thread",
    "draw",
    "free_after_fork",
    "get_ident",
    "has_interpreter_lock",
    "is_subinterpreter",
    "join",
    "main_ident",
    "may_be_interrupted",
    "monotonic",
    "monotonic_ns",
    "only_once",
    "owns",
    "park",
    "process_time",
    "runs_handlers",
    "sleep_lock",
    "spin",
    "thread_time",
    "wall_ns",
    "yield_processor",
]


T = TypeVar("T")

# On Windows no signal ends the ``acquire`` of a lock. There the main thread, which runs
# the handlers of signals, wakes after each slice of this length, in seconds.
SLICE_S: Final = 0.05
_IN_SLICES: Final = _platform.SYSTEM == "windows"
_main_thread: Final = threading.main_thread()


def runs_handlers() -> bool:
    """Return True in the thread that runs signal handlers, and so waits in slices.

    Not `may_be_interrupted`: the explorer has a main thread of its own.
    """
    return _thread.get_ident() == _main_thread.ident


class WithLock:
    """A mutex that an interrupt cannot leave taken by ``with``, for CPython 3.14.

    There the interpreter checks for signals when an ``__enter__`` written in C has
    returned. The ``with`` statement does not cover its body yet (CPython gh-148874), so
    the exception bypasses ``__exit__``. The interpreter does not check when a Python
    function returns, nor when a C iterator has yielded its next item. So `__enter__` is
    a Python function that takes the lock by such an iterator. ``__exit__`` is the C
    lock's own.
    """

    __slots__ = ("__exit__", "__weakref__", "_take", "acquire", "locked", "release")

    def __init__(self) -> None:
        self._stand_for(_thread.allocate_lock())

    def _stand_for(self, lock: Any) -> None:
        self.acquire = lock.acquire
        self.locked = lock.locked
        self.release = lock.release
        self.__exit__ = lock.__exit__
        self._take = iter(lock.acquire, None)

    def __enter__(self) -> bool:
        # No call and no jump once the lock is taken.
        taken: bool
        for taken in self._take:
            return taken
        raise AssertionError("the iterator of a lock has no end")


class WithRLock(WithLock):
    """A `WithLock` that its owner may take again."""

    __slots__ = ("_at_fork_reinit", "_is_owned")

    def __init__(self) -> None:
        lock: Any = _thread.RLock()
        self._stand_for(lock)
        self._is_owned = lock._is_owned  # used by `owns`
        if hasattr(lock, "_at_fork_reinit"):  # Windows has no fork
            self._at_fork_reinit = lock._at_fork_reinit  # used by `free_after_fork`


class _Begun(threading.Event):
    """The event for which `Thread.start` waits; the wait ends if the thread has died.

    first: the first function of the new thread. Only the interpreter keeps it, until
      that thread has ended, even if the thread had no memory to call it.
    """

    def __init__(self, first: object) -> None:
        super().__init__()
        self._first = weakref.ref(first)

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return super().wait(timeout)
        while not super().wait(_ALIVE_S):
            if self._first() is None and not self.is_set():
                raise RuntimeError("can't start new thread: it ended before it began")
        return True


# How often `Thread.start` checks whether a thread that has not begun still lives.
_ALIVE_S: Final = 0.05


class Thread(threading.Thread):
    """A thread whose `start` raises `RuntimeError` if the new thread dies early.

    The base class waits without limit until the new thread has begun. A thread that
    has no memory for its first steps never does.
    """

    @property
    def _bootstrap(self) -> Callable[[], object]:
        # `start` of the base class reads this once, then waits for `_started`.
        first: Callable[[], object] = super()._bootstrap  # type: ignore[misc]
        self._started = _Begun(first)
        return first

    if _IN_SLICES:

        def join(self, timeout: float | None = None) -> None:
            """Wait as the base class does, and run signal handlers meanwhile."""
            rest_s = inf if timeout is None else timeout
            deadline = monotonic() + rest_s
            while rest_s > SLICE_S and runs_handlers() and self.is_alive():
                super().join(SLICE_S)
                rest_s = deadline - monotonic()
            super().join(None if rest_s == inf else max(0.0, rest_s))

    def start(self) -> None:
        try:
            super().start()
        except RuntimeError:
            # Where the base class has left it, so that `threading.enumerate` finds it.
            library: Any = threading
            library._limbo.pop(self, None)
            raise


# The bare C lock: a signal cannot come between taking it and entering the `with` block.
# With the `__enter__` of a Python wrapper, an interrupt may come after the lock is
# taken and before that is known. On 3.14 the C lock has the same flaw; 3.15 has the
# fix.
#
# On 3.13 and 3.14 a `with` or a `try` does not cover a conditional backward jump of a
# loop (`while condition:`, or an `if` that ends the body). The interpreter checks for
# signals there. So where an interrupt must not bypass a lock or a handler, the loop is
# in a function of its own. Or its body ends with a plain statement. tests/test_jumps.py
# finds such places.
_TORN: Final = sys.version_info[:2] == (3, 14)
Lock = cast("Any", WithLock) if _TORN else _thread.allocate_lock
# The lock of a state that a signal handler may use: the handler runs in the thread that
# it interrupts, perhaps while that thread holds the lock (QB-CONC-10). Also C code.
if TYPE_CHECKING:
    from _thread import RLock
else:
    RLock = WithRLock if _TORN else _thread.RLock
get_ident = _thread.get_ident

# On Windows, `time.monotonic` of Python 3.11 and 3.12 advances every 15.6 ms. Callers
# compare times with one another only, never with those of another clock.
_IS_COARSE: Final = time.get_clock_info("monotonic").resolution > 1e-3
monotonic = time.perf_counter if _IS_COARSE else time.monotonic

# For recording: both clocks in nanoseconds, thread-local storage, the thread's name.
monotonic_ns = time.perf_counter_ns if _IS_COARSE else time.monotonic_ns
wall_ns = time.time_ns
Local = threading.local
current_thread = threading.current_thread

# Processor time in seconds, for reports; nothing waits by these.
process_time = time.process_time
thread_time = time.thread_time

# The longest wait that the platform accepts, in seconds.
WAIT_S_MAX = threading.TIMEOUT_MAX

# How long a caller spins before it sleeps, in seconds: less than it takes to put a
# thread to sleep and to wake it on another processor.
SPIN_S = 2e-5
# If a caller gets the processor back later than this, other programs use it: each yield
# may cost a time slice of the scheduler, some 4 ms. Then no caller yields for a while.
LATE_S = 1e-3
BUSY_S = 0.25
_busy_until = 0.0  # on `monotonic`; a race over it costs one time slice


# Lets other threads run, without a sleep, and releases the interpreter lock.
yield_processor: Callable[[], object] = getattr(os, "sched_yield", None) or partial(
    time.sleep, 0
)


def join(thread: threading.Thread, seconds: float) -> bool:
    """Wait for a thread; return True if it has ended.

    The explorer replaces this, to report a wait that can never end as a deadlock.
    """
    thread.join(seconds)
    return not thread.is_alive()


def at_exit_of_main(function: Callable[[], object]) -> None:
    """Call a function in the main thread before Python joins the other threads."""
    register = getattr(threading, "_register_atexit", None)
    if register is not None:  # CPython's own, as `concurrent.futures` uses it
        with contextlib.suppress(RuntimeError):  # the program is ending already
            register(function)


def has_interpreter_lock() -> bool:
    """Return True if one thread at a time runs Python code, as in most builds."""
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return is_enabled is None or is_enabled()


# Without the interpreter lock, two threads that advance one iterator at the same time
# may get the same item, or free it twice: also those in C.
_PARALLEL: Final = not has_interpreter_lock()


# A signal handler may draw a number in the middle of a draw of its own thread.
_drawing = _thread.RLock()


def _draw_alone(numbers: Iterator[int]) -> int:
    with _drawing:
        return next(numbers)


# Return the next number of an iterator that many threads draw from.
draw: Callable[[Iterator[int]], int] = _draw_alone if _PARALLEL else next


def only_once(item: T) -> tuple[Iterator[T], Callable[[], int]]:
    """Return an iterator of one item, and a call that counts the items left in it.

    Of several threads that advance it, one gets the item and the others get none. Both
    are in C, so that no interrupt is raised in them. ``item`` is true.
    """
    if not _PARALLEL:
        one = iter((item,))
        return one, partial(length_hint, one)
    # A call of `dict.pop` is one step in every build; `map` and `repeat` have no state.
    left: dict[None, T] = {None: item}
    pop = cast("Callable[[None, None], T]", left.pop)
    popped = map(pop, itertools.repeat(None), itertools.repeat(None))
    return itertools.takewhile(bool, popped), left.__len__


class _Descriptor:
    """The descriptor on which a thread sleeps; closed when it is collected."""

    __slots__ = ("_clear", "_opened", "_polls", "set")

    def __init__(self) -> None:
        # One call in C opens and stores it: an interrupt between two would leave it
        # open forever.
        self._opened: Final[list[int]] = []
        flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self._opened.extend(map(os.eventfd, (0,), (flags,)))
        [descriptor] = self._opened
        self.set = partial(os.eventfd_write, descriptor, 1)
        self._clear = partial(os.eventfd_read, descriptor)
        # One for the thread, and one for each signal handler that has waited in it: a
        # call that a handler interrupts refuses another call.
        self._polls: Final[list[Callable[[float | None], object]]] = []

    def wait(self, timeout_ms: float | None) -> None:
        """Wait until it is set, for a time at most, and clear it."""
        polls = self._polls
        poll = polls.pop() if polls else _platform.poll_of(self._opened[0])
        try:
            if poll(timeout_ms):
                with contextlib.suppress(BlockingIOError):
                    self._clear()
        finally:
            polls.append(poll)

    def __del__(self) -> None:
        while self._opened:
            any(map(os.close, map(self._opened.pop, (-1,))))


class SleepLock:
    """A lock on which only its maker sleeps, for CPython without the interpreter lock.

    There a thread that waits for a lock of the interpreter yields the processor forty
    times before it sleeps, also if the lock is released meanwhile (CPython 3.13). That
    takes longer than a rendezvous. `queue.SimpleQueue` does the same when it wakes. A
    thread that polls a descriptor sleeps at once.

    locked, release: calls in C, which no interrupt can break off. Of several threads
      that release it at the same time one succeeds.
    """

    __slots__ = ("_descriptor", "_taken", "locked", "release")

    def __init__(self, descriptor: _Descriptor) -> None:
        self._descriptor: Final = descriptor
        # One item while it is taken: the arguments of `set`.
        self._taken: Final[list[tuple[()]]] = []
        self.locked: Final = self._taken.__len__
        released = itertools.starmap(self._taken.pop, _NO_ARGUMENTS)
        self.release: Final = itertools.starmap(descriptor.set, released).__next__

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock once it is free, as `threading.Lock.acquire` does."""
        rest_s, deadline = timeout, monotonic() + timeout
        while self._taken:
            if not blocking or (rest_s <= 0 and timeout != -1):
                return False
            # The descriptor is set by every lock of this thread: also by a lock on
            # which the thread no longer sleeps.
            self._descriptor.wait(None if timeout == -1 else rest_s * 1e3)
            rest_s = deadline - monotonic()
        self._taken.append(())
        return True


_NO_ARGUMENTS: Final = itertools.repeat(())
_own = threading.local()


def _forget_descriptors() -> None:
    # The parent's thread sleeps on the same kernel objects.
    global _own  # noqa: PLW0603 # a fork is an event of the whole process
    _own = threading.local()


def _sleep_lock() -> Any:
    """Return a free lock on which the calling thread is going to sleep."""
    try:
        return SleepLock(_own.descriptor)
    except AttributeError:
        try:
            _own.descriptor = _Descriptor()
        except OSError:  # no descriptor is left
            return Lock()
        return SleepLock(_own.descriptor)


sleep_lock: Callable[[], _thread.LockType] = Lock
if _PARALLEL and hasattr(os, "eventfd"):
    sleep_lock = _sleep_lock
    _platform.after_fork_in_child(_forget_descriptors)


def is_subinterpreter() -> bool:
    """Return True in a subinterpreter; always False before CPython 3.12."""
    is_main: Callable[[], bool] | None = getattr(_thread, "_is_main_interpreter", None)
    return is_main is not None and not is_main()


def main_ident() -> int | None:
    """Return the ident of the main thread, the only one that gets interrupts."""
    return threading.main_thread().ident


def may_be_interrupted() -> bool:
    """Return True in the main thread, the only one that an interrupt may reach."""
    return main_ident() == _thread.get_ident()


def owns(lock: _thread.RLock) -> bool:
    """Return True if the calling thread holds ``lock``; exact for that thread."""
    # As `Condition` does. A user's own lock for a buffer may lack this method.
    owned: Callable[[], bool] | None = getattr(lock, "_is_owned", None)
    return owned is not None and owned()


def free_after_fork(lock: _thread.RLock) -> None:
    """Free a lock, in a fork's child, that another thread held at the time.

    That thread is not in the child, and would never release it.
    """
    if not owns(lock):
        # As `threading` and `logging` do.
        lock._at_fork_reinit()  # type: ignore[attr-defined]


def spin(ready: Callable[[], bool]) -> bool:
    """Yield to other threads for a moment; return True if ``ready`` came true.

    Two threads that answer each other then need not sleep, nor wake each other: these
    take most of a round trip. ``ready`` is called without any lock and must only read.
    On a busy machine it is called once.
    """
    global _busy_until  # noqa: PLW0603 # all threads share the processors
    until = monotonic() + SPIN_S
    if until < _busy_until:
        return ready()
    while not (came := ready()) and monotonic() < until:
        yield_processor()
    if monotonic() > until + LATE_S:
        _busy_until = until + BUSY_S
    return came


def park(
    lock: _thread.LockType,
    predicate: Callable[[], bool],  # noqa: ARG001  # for the explorer, see below
    deadline: float | None,
) -> bool:
    """Sleep until another thread releases ``lock``, which the caller has taken.

    ``predicate`` is the condition that the caller waits for. It is not called here: the
    explorer evaluates it, without any lock, when all threads sleep, so it must only
    read. ``deadline`` is a point on `monotonic` in seconds, None for never. It may be
    any distance away, since the wait is split into slices that the platform accepts.

    Returns True when woken (the lock is taken again), False if the deadline passed
    first.
    """
    if deadline is None:
        return lock.acquire()
    while (remaining_s := deadline - monotonic()) > 0:
        # The platform may wake slightly early; QB-TIME-2 forbids a return before the
        # deadline.
        slice_s = min(WAIT_S_MAX, remaining_s)
        if lock.acquire(True, slice_s):
            return True
    return lock.acquire(False)


_park: Final = park


def _park_in_slices(
    lock: _thread.LockType, predicate: Callable[[], bool], deadline: float | None
) -> bool:
    """Replace `park` on Windows, where each slice ends to run signal handlers.

    Replace it also without the interpreter lock. There, if a thread drops the last
    reference to an object of another thread, the other thread frees the object when it
    runs next. The object may be an end, and its maker may wait here for the end's peer.
    """
    while _PARALLEL or runs_handlers():
        soon = monotonic() + SLICE_S
        if deadline is not None and deadline <= soon:
            break
        if _park(lock, predicate, soon):
            return True
    return _park(lock, predicate, deadline)


if _IN_SLICES or _PARALLEL:
    park = _park_in_slices
