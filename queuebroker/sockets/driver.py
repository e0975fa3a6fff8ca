"""`Driver`: the event loop for sockets, by default one per process.

It maps descriptors to the handlers to call when they are ready, and does not interpret
the bytes. By default a daemon thread runs it: the thread starts with the first socket
and ends with the last one. If the user creates a driver, the user runs it with `poll`.

An error of one connection ends that connection and nothing else (QB-SOCK-10). The
driver makes each call on behalf of one object, a `Served`. If the call raises, the
driver fails that object.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import logging
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from queuebroker import _net, _platform, _sync
from queuebroker.arguments import deadline_after
from queuebroker.closable import Uncopyable
from queuebroker.errors import BrokerClosedError
from queuebroker.sockets.quick_sends import GATHERED_S
from queuebroker.waiting.event import Event
from queuebroker.waiting.parking import pause, taken_lock

if TYPE_CHECKING:
    import _thread

__all__ = [
    "Driver",
    "Handler",
    "Served",
    "await_background_end",
    "call_in_background",
    "default_driver",
]

EVENTS_MAX = 256
# Interval at which a driver that ends checks for connections begun since, and pause of
# a driver without memory, in seconds.
_REVIEW_S: Final = 0.05
# How long the close of the last socket waits for the driver's thread, in seconds.
_END_S: Final = 1.0

_log: Final = logging.getLogger("queuebroker.sockets")

_Call: TypeAlias = "tuple[Callable[[], object], Served | None]"


class Served(Protocol):
    """The object on whose behalf the driver makes a call: a connection, a listener."""

    def fail(self, error: BaseException) -> None:
        """End the connection or the wait that the call served, with this cause."""


class Handler(Served, Protocol):
    """The owner of a descriptor."""

    def abort(self, error: BaseException) -> None:
        """End all waits for a connection that has not begun."""

    def ready(self, mask: int) -> None:
        """Read and write without blocking."""

    def abandon_after_fork(self) -> None:
        """Abandon the descriptor: the driver is closed, or this is a fork's child."""

    @property
    def is_ending(self) -> bool:
        """True once nothing but the end of its connection keeps it from releasing."""


class _Unowned:
    """The `Served` of a call that has none."""

    def fail(self, error: BaseException) -> None:
        """Do nothing: the driver has counted and logged the error."""


_UNOWNED: Final = _Unowned()


class Driver(Uncopyable):
    """An event loop that calls the handlers of ready descriptors.

    `call` works from any thread.

    Lock: ``_lock`` guards the number of holders and the stopped flag. Nothing is
    called under it. The methods that a finalizer needs (`call`, `watch`) take no lock.

    Attributes:
        background: True if a thread of this library runs it.
        failures: number of errors of this process that have ended a `Served`.
        failed: True if an error ended this driver itself; it refuses new holders.
        watch: takes a registered descriptor and a mask, and changes the events awaited
            there. It is the method of the poller: each wait of a receiver calls it.
    """

    def __init__(self) -> None:
        self._lock: _thread.LockType = _sync.Lock()
        self._handlers: dict[int, Handler] = {}
        self._calls: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()
        self._holders = 0
        # Free sleepers, for receivers that wait in its place.
        self._sleepers: list[_net.Sleeper] = []
        self._stopped = False
        self._ended = False  # stopped, and its poller is closed
        self._running_in = 0  # the thread that is calling handlers
        self._turns = 0  # how often a thread has done so
        self.background: bool = False
        self.failures: int = 0
        self.failed: bool = False
        self._thread: _sync.Thread | None = None  # of a background driver
        self._thread_ident = 0
        self._poller = _net.Poller()
        self.watch: Callable[[int, int], None] = self._poller.modify
        self._wake = Event()
        self._wakers: list[None] = []  # one item per thread that sets the event
        self._poller.register(self._wake.fd, _net.READ)
        _drivers.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._stopped else f"{len(self._handlers)} sockets"
        return f"<Driver {state}>"

    # For its owner.

    @property
    def sockets(self) -> int:
        """Number of sockets it serves."""
        return len(self._handlers)

    @property
    def stopped(self) -> bool:
        """True once it has stopped serving."""
        return self._stopped

    def fileno(self) -> int:
        """Return a descriptor that is readable while `poll` has something to do.

        Raises:
            NotImplementedError: this system has no epoll, so there is none.
        """
        return self._poller.fileno()

    def poll(self, timeout: float | None = None) -> int:
        """Wait for sockets, ``timeout`` seconds at most; return how many were ready.

        A timeout of weeks may end early, at the system's maximum. An error of one
        connection ends that connection and is not raised here.

        Raises:
            BrokerClosedError: this driver is closed.
            TypeError, ValueError: wrong timeout.
        """
        if timeout is not None and not (type(timeout) is float and timeout >= 0):
            deadline_after(timeout)  # raises for a wrong one
        if self._stopped:
            msg = "cannot poll: this driver is closed"
            raise BrokerClosedError(msg)
        ready = self._poller.poll(self._wait_s(timeout), EVENTS_MAX)
        self._running_in = _sync.get_ident()
        try:
            self._deal(ready)
        finally:
            self._turns += 1
            self._running_in = 0
            # `call` wrote nothing in this thread: `fileno` must show the calls left.
            if self._calls and not self._stopped:
                self._wake.set()
        return len(ready)

    def _deal(self, ready: list[tuple[int, int]]) -> None:
        """Call the handlers of ready descriptors, then the calls and timers due."""
        handlers = self._handlers
        wake_fd = self._wake.fd
        for descriptor, mask in ready:
            if descriptor == wake_fd:
                self._wake.clear()
                continue
            handler = handlers.get(descriptor)
            if handler is not None:
                try:
                    handler.ready(mask)
                except BaseException as error:  # noqa: BLE001 # it decides what to raise
                    self._fail(handler, error)
        now = _sync.monotonic()
        while self._calls:
            self._do(self._calls.popleft())
        while self._timers and self._timers[0][0] <= now:
            self._do(heapq.heappop(self._timers)[2])
            while self._calls:
                self._do(self._calls.popleft())

    def _do(self, call: _Call) -> None:
        function, served = call
        try:
            function()
        except BaseException as error:
            if served is None:
                raise
            self._fail(served, error)

    def _fail(self, served: Served, error: BaseException) -> None:
        """End the object whose call raised an error, and nothing else.

        An interrupt is raised to the owner that calls `poll`. A background driver has
        no owner: there each error belongs to the call that raised it, such as a user's
        callback.
        """
        if not (self.background or isinstance(error, Exception)):
            raise error
        self.failures += 1
        # Log at powers of two only: a peer may cause many failures.
        if not self.failures & (self.failures - 1):
            with suppress(MemoryError):
                _log.error(
                    "failure %d of this driver: %s: %s: that connection ends",
                    *(self.failures, type(error).__name__, error),
                    exc_info=error,
                )
        try:
            served.fail(error)
        except Exception:  # noqa: BLE001 # else it would end all others
            text = "cannot close a connection in order: it is left as it is"
            with suppress(MemoryError):
                _log.exception(text)

    def close(self) -> None:
        """Close every socket it serves; to their peers this process has vanished."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        for handler in list(self._handlers.values()):
            handler.abandon_after_fork()
            handler.abort(BrokerClosedError("cannot connect: its driver is closed"))
        self._handlers.clear()
        self._close_descriptors()

    def _wait_s(self, timeout: float | None) -> float | None:
        """Return the time to wait, at most the system's maximum."""
        if self._calls:
            return 0
        if self._timers:
            rest_s = max(0.0, self._timers[0][0] - _sync.monotonic())
            timeout = rest_s if timeout is None else min(timeout, rest_s)
        return None if timeout is None else min(timeout, _net.POLL_S_MAX)

    # For handlers.

    def hold(self) -> bool:
        """Add a holder; return False if the driver has stopped or failed."""
        with self._lock:
            serves = not (self._stopped or self.failed)
            self._holders += serves
            return serves

    def release(self) -> None:
        """Remove a holder; called in the thread that runs the driver."""
        with self._lock:
            self._holders -= 1
            if self.background and not self._holders and not self.failed:
                self._stopped = True

    def register(self, descriptor: int, handler: Handler, mask: int) -> None:
        """Call ``handler`` when a descriptor is ready.

        Raises:
            OSError: the system can watch no more descriptors.
        """
        self._handlers[descriptor] = handler
        try:
            self._poller.register(descriptor, mask)
        except BaseException:
            self._handlers.pop(descriptor, None)
            raise

    def unregister(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed."""
        if self._handlers.pop(descriptor, None) is not None:
            with suppress(OSError):  # a driver that failed may have lost its poller
                self._poller.unregister(descriptor)

    def handler_of(self, descriptor: int) -> Handler | None:
        """Return the handler of a registered descriptor."""
        return self._handlers.get(descriptor)

    def call(
        self, function: Callable[[], object], served: Served | None = None
    ) -> None:
        """Schedule a call in the thread that runs this driver.

        served: the object to fail if the function raises; without one `poll` raises.
        """
        self._calls.append((function, served))
        if self._running_in == _sync.get_ident():
            return  # this thread makes the call when its handlers return
        # The driver's thread may have made the call by now, and may have stopped.
        try:
            self._wakers.append(None)  # no interrupt is raised before this is done
            if not self._stopped:
                self._wake.set()
        finally:
            self._wakers.pop()
            self._close_wake()
            if self._ended:
                self._calls.clear()  # no thread makes them, and each keeps an object

    def _close_wake(self) -> None:
        """Close the event once the driver has ended and no thread sets it.

        Lock-free: a waking thread enters itself in ``_wakers`` before it checks
        ``_stopped``. The ending thread sets ``_ended`` before it checks ``_wakers``. So
        the last of them closes the event.
        """
        if self._ended and not self._wakers:
            with suppress(IndexError):
                self._wake.close()

    def at(
        self,
        moment: float,
        function: Callable[[], object],
        served: Served | None = None,
    ) -> None:
        """Schedule a call at a point on the monotonic clock; never sooner.

        served: as for `call`.
        """

        def enter() -> None:
            timer = (moment, next(self._numbers), (function, served))
            heapq.heappush(self._timers, timer)

        self.call(enter, served)

    def lend_sleeper(self) -> _net.Sleeper:
        """Lend a sleeper for one socket; give it back with `return_sleeper`."""
        try:
            return self._sleepers.pop()
        except IndexError:
            return _net.Sleeper()

    def return_sleeper(self, sleeper: _net.Sleeper) -> None:
        """Take back a lent sleeper, for the next receiver."""
        if self._stopped:
            sleeper.close()
        else:
            self._sleepers.append(sleeper)

    def _close_descriptors(self) -> None:
        self._timers.clear()
        self._calls.clear()
        self._poller.close()
        self._ended = True
        self._close_wake()
        while self._sleepers:
            self._sleepers.pop().close()

    # For the thread of the default one.

    def begin(self) -> None:
        """Run the driver in a thread of its own until it has no holder."""
        self.background = True
        for driver in list(_running):
            if driver._ended:
                driver.join(0)
        if not _watched:
            _watched.append(True)
            _sync.at_exit_of_main(_await_writes)
            atexit.register(_await_writes)
        if _sync.is_subinterpreter():
            atexit.register(_end_all)
        thread = _sync.Thread(target=self._run, name="queuebroker sockets", daemon=True)
        _running[self] = None
        try:
            thread.start()
        except BaseException:
            if thread.ident is None:  # the system has no thread left
                _running.pop(self, None)
            raise
        self._thread = thread

    def join(self, seconds: float) -> bool:
        """Wait for the end of its thread; return True if it has ended, or has none."""
        ended = self._thread is None or _sync.join(self._thread, seconds)
        if ended and self._ended:
            _running.pop(self, None)
        return ended

    def await_end(self) -> None:
        """Wait until its thread has ended, if only ends of connections keep it running.

        At most `_END_S`: a peer may leave its messages unread. It does not wait in that
        thread, where a callback may close a broker.
        """
        until = _sync.monotonic() + _END_S
        if self._thread_ident == _sync.get_ident():
            return
        while self._is_ending() and _sync.monotonic() < until:
            if self.join(_REVIEW_S):
                return

    def await_writes(self) -> None:
        """Wait until it has written all that senders had gathered (`QuickSends`)."""
        parker, until = taken_lock(), _sync.monotonic() + _END_S

        def later(function: Callable[[], object]) -> Callable[[], object]:
            return lambda: self.at(
                _sync.monotonic() + 2 * GATHERED_S, function, _UNOWNED
            )

        # Each review that has found more groups is due within `GATHERED_S`, and the
        # next one may find more, once. Both count from the time of the driver, which
        # may be late: so each of these two steps begins in its thread, behind a review.
        self.call(later(later(parker.release)), _UNOWNED)
        # A driver that ends meanwhile has written all, and drops its calls.
        while parker.locked() and not self._ended and _sync.monotonic() < until:
            soon = min(until, _sync.monotonic() + _REVIEW_S)
            if _sync.park(parker, lambda: not parker.locked(), soon):
                return

    def _is_ending(self) -> bool:
        """Return True if each holder is about to release it, as far as is known now.

        A holder without a handler is a dialler between two attempts, or it ends: then
        the call that releases it is waiting, or being made.
        """
        turns = self._turns
        handlers = list(self._handlers.values())  # one call into C
        if not all(each.is_ending for each in handlers):
            return False
        known = len(handlers) + len(self._calls)
        if self._holders <= known:
            return True
        # The comparison means nothing if the thread made calls meanwhile.
        return bool(self._running_in) or self._turns != turns

    def _run(self) -> None:
        parker = taken_lock()  # made while there is memory
        self._thread_ident = _sync.get_ident()
        try:
            while not self._stopped:
                try:
                    self.poll()
                except MemoryError:
                    # For the events themselves: they are reported again. Each other
                    # lack of memory ends the connection that it concerns.
                    self.failures += 1
                    pause(_REVIEW_S, parker)
        except BaseException as error:  # noqa: BLE001 # else every waiter would hang
            self._end_by(error)
        self._close_descriptors()

    def _end_by(self, error: BaseException) -> None:
        """End every handler, with an error as the cause; for its own thread.

        From now on the driver refuses new holders, and the next call of the process
        starts another driver. This thread remains until every holder has released the
        driver, since only this thread may close their sockets. It does not use the
        poller, which may have failed.
        """
        with self._lock:
            self.failed = True
        _log.critical(
            "the driver of the sockets ends, with its %d sockets; the next call starts"
            " another driver",
            len(self._handlers),
            exc_info=error,
        )
        failed: set[Handler] = set()
        while self._holders:
            for handler in list(self._handlers.values()):
                if handler not in failed:
                    failed.add(handler)
                    self._fail(handler, error)
            timers, self._timers = self._timers, []
            for _, _, (function, served) in timers:  # each finds its connection ended
                self._do((function, served or _UNOWNED))
            while self._calls:
                function, served = self._calls.popleft()
                self._do((function, served or _UNOWNED))
            if self._holders:
                _net.wait_to_read(self._wake.fd, _REVIEW_S)
                with suppress(BlockingIOError):
                    self._wake.clear()
        self._stopped = True

    def forget_fork(self) -> None:
        """Abandon the parent's sockets in a fork's child, which lacks its thread."""
        self._lock = _sync.Lock()
        self._stopped = True
        for handler in list(self._handlers.values()):
            handler.abandon_after_fork()
        self._handlers.clear()
        self._wakers.clear()
        # Close the epoll, do not empty it: the parent waits on the same kernel object.
        self._close_descriptors()


_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()
# Those with a thread. Each access is one call into C: finalizers read this. A driver
# leaves when its thread has ended, not before: that thread would miss a join, and abort
# the process if it outlives its subinterpreter.
_running: dict[Driver, None] = {}
# Not empty once `_await_writes` is to be called at the end of the program.
_watched: Final[list[bool]] = []

# A single entry, "default", as for brokers.
_defaults: dict[str, Driver] = {}


def default_driver() -> Driver:
    """Return the driver of this process, held once for the caller."""
    while True:
        driver = _defaults.get("default")
        if driver is not None and driver.hold():
            return driver
        made = Driver()
        made.hold()
        try:
            # First: the next call must not find a driver without a thread.
            made.begin()
        except RuntimeError:  # the system has no thread left
            made.close()
            raise
        except BaseException:
            made.call(made.release)  # interrupted when its thread may run already
            raise
        try:
            if driver is not None and _defaults.get("default") is driver:
                # If two threads are here at once, one may remove the driver of the
                # other. Then there are two drivers, each of which ends with its last
                # socket.
                _defaults.pop("default", None)
            if _defaults.setdefault("default", made) is made:
                return made
        except BaseException:
            made.call(made.release)
            raise
        made.call(made.release)


def await_background_end() -> None:
    """Wait for the thread of the background driver, if no socket needs it any more.

    Each close ends with this. A thread that is left would abort the process if the
    program ends a subinterpreter now.
    """
    for driver in list(_running):
        driver.await_end()


def call_in_background(function: Callable[[], object]) -> None:
    """Call a function in the thread of each background driver: one, but for a race.

    For finalizers: it takes no lock. An error is logged, and ends nothing.
    """
    for driver in list(_running):
        driver.call(function, _UNOWNED)


def _await_writes() -> None:
    """Wait until each message that was sent is with the system, as the program ends.

    Before Python joins its threads, and again after that.
    """
    for driver in list(_running):
        driver.await_writes()


def _end_all() -> None:
    """End the background drivers: their threads must not outlive a subinterpreter."""
    for driver in list(_running):
        driver.call(driver.close, _UNOWNED)
        driver.join(_END_S)


def _forked() -> None:
    _defaults.clear()
    _running.clear()
    for driver in list(_drivers):
        if not driver._stopped:
            driver.forget_fork()


_platform.after_fork_in_child(_forked)
