"""`Driver`: who waits for sockets, one for a process by default.

It knows of descriptors and of whom to call when they are ready, and nothing of what
comes over them. By default a daemon thread turns it, begun with the first socket and
ended with the last one; a driver that somebody made is turned by its owner, by `poll`.
"""

from __future__ import annotations

import heapq
import itertools
import os
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from queuebroker import _net, _sync
from queuebroker.errors import BrokerClosedError

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

__all__ = ["Driver", "Handler", "default_driver"]

EVENTS_MAX = 256


class Handler(Protocol):
    """Whose descriptor it is."""

    def ready(self, mask: int) -> None:
        """Do what can be done without waiting."""

    def forsake(self) -> None:
        """Let go of everything: the driver is closed, or this is a fork's child."""


class Driver:
    """Calls handlers whose descriptors are ready; `call` works from any thread.

    Lock: ``_lock`` guards how many hold it, and whether it has stopped. Nothing is
    called under it. What a finalizer needs (`call`, `watch`) takes no lock at all.
    """

    def __init__(self) -> None:
        self._lock: _thread.LockType = _sync.Lock()
        self._handlers: dict[int, Handler] = {}
        self._calls: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._holders = 0
        # For receivers that wait in its place, while they do not.
        self._sleepers: list[_net.Sleeper] = []
        self._stopped = False
        self._ended = False  # and let go of what it waits with
        self._turning = 0  # the thread that calls handlers just now
        self.background: bool = False  # whether a thread of ours turns it
        self._poller = _net.Poller()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # The bell again, until it is closed; and an item for each thread that rings it.
        self._bells = [self._bell]
        self._ringing: list[None] = []
        self._poller.register(self._bell, _net.READ)
        _drivers.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._stopped else f"{len(self._handlers)} sockets"
        return f"<Driver {state}>"

    # For its owner.

    @property
    def sockets(self) -> int:
        """How many sockets it serves just now."""
        return len(self._handlers)

    @property
    def stopped(self) -> bool:
        """Whether it serves nothing any more."""
        return self._stopped

    def fileno(self) -> int:
        """Return a descriptor that is readable while `poll` has something to do."""
        return self._poller.fileno()

    def poll(self, timeout: float | None = None) -> int:
        """Wait for sockets, ``timeout`` seconds at most; return how many were ready.

        Raises:
            BrokerClosedError: this driver is closed.
        """
        if self._stopped:
            msg = "cannot poll: this driver is closed"
            raise BrokerClosedError(msg)
        ready = self._poller.poll(self._wait_s(timeout), EVENTS_MAX)
        self._turning = _sync.get_ident()
        try:
            self._deal(ready)
        finally:
            self._turning = 0
            if self._calls and not self._stopped:
                os.eventfd_write(self._bell, 1)
        return len(ready)

    def _deal(self, ready: list[tuple[int, int]]) -> None:
        """Call whom it concerns, and whatever is to be called now."""
        handlers = self._handlers
        for descriptor, mask in ready:
            if descriptor == self._bell:
                os.eventfd_read(self._bell)
                continue
            handler = handlers.get(descriptor)
            if handler is not None:
                handler.ready(mask)
        now = _sync.monotonic()
        while self._calls:
            self._calls.popleft()()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
            while self._calls:
                self._calls.popleft()()

    def close(self) -> None:
        """Close every socket it serves; their peers see a process that vanished."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        for handler in list(self._handlers.values()):
            handler.forsake()
        self._handlers.clear()
        self._close_descriptors()

    def _wait_s(self, timeout: float | None) -> float | None:
        if self._calls:
            return 0
        if not self._timers:
            return timeout
        rest_s = max(0.0, self._timers[0][0] - _sync.monotonic())
        return rest_s if timeout is None else min(timeout, rest_s)

    # For handlers.

    def hold(self) -> bool:
        """Say that it is needed; False if it has stopped already."""
        with self._lock:
            self._holders += not self._stopped
            return not self._stopped

    def release(self) -> None:
        """Say that it is not needed any more; called by whoever turns it."""
        with self._lock:
            self._holders -= 1
            if self.background and not self._holders:
                self._stopped = True

    def register(self, descriptor: int, handler: Handler, mask: int) -> None:
        """Call ``handler`` when a descriptor is ready."""
        self._handlers[descriptor] = handler
        self._poller.register(descriptor, mask)

    def watch(self, descriptor: int, mask: int) -> None:
        """Wait for something else of a registered descriptor."""
        self._poller.modify(descriptor, mask)

    def unregister(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

    def call(self, function: Callable[[], object]) -> None:
        """Call something soon, in the thread that turns this."""
        self._calls.append(function)
        if self._turning == _sync.get_ident():
            return  # who turns it comes to that anyway
        # That call may have been the last one, and have stopped this by now.
        try:
            self._ringing.append(None)  # no interrupt strikes before this is done
            if not self._stopped:
                os.eventfd_write(self._bell, 1)
        finally:
            self._ringing.pop()
            self._close_bell()

    def _close_bell(self) -> None:
        """Close the bell if this has ended and nobody rings it; without a lock.

        Who rings says so before it looks whether this has stopped, and who ends it
        does so before it looks whether anybody rings: the last of them closes.
        """
        if self._ended and not self._ringing:
            with suppress(IndexError):
                os.close(self._bells.pop())

    def at(self, moment: float, function: Callable[[], object]) -> None:
        """Call something at a point on the monotonic clock; never sooner."""

        def enter() -> None:
            heapq.heappush(self._timers, (moment, next(self._numbers), function))

        self.call(enter)

    def lend_sleeper(self) -> _net.Sleeper:
        """Return what to sleep on at a socket; `return_sleeper` it."""
        try:
            return self._sleepers.pop()
        except IndexError:
            return _net.Sleeper()

    def return_sleeper(self, sleeper: _net.Sleeper) -> None:
        """Take back what was lent, for the next one."""
        if self._stopped:
            sleeper.close()
        else:
            self._sleepers.append(sleeper)

    def _close_descriptors(self) -> None:
        self._timers.clear()
        self._calls.clear()
        self._poller.close()
        self._ended = True
        self._close_bell()
        while self._sleepers:
            self._sleepers.pop().close()

    # For the thread of the default one.

    def begin(self) -> None:
        """Turn it in a thread of its own until nobody holds it."""
        self.background = True
        _sync.Thread(target=self._turn, name="queuebroker sockets", daemon=True).start()

    def _turn(self) -> None:
        while not self._stopped:
            self.poll()
        self._close_descriptors()

    def forget_fork(self) -> None:
        """Let go of what belongs to the parent; no thread of its is here."""
        self._lock = _sync.Lock()
        self._stopped = True
        for handler in list(self._handlers.values()):
            handler.forsake()
        self._handlers.clear()
        self._ringing.clear()
        # Closed, not emptied: what the parent waits for is the same object.
        self._close_descriptors()


_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()

# One entry, "default", as for brokers.
_defaults: dict[str, Driver] = {}


def default_driver() -> Driver:
    """Return the one of this process, held once for the caller."""
    while True:
        driver = _defaults.get("default")
        if driver is not None and driver.hold():
            return driver
        made = Driver()
        made.hold()
        if driver is not None and _defaults.get("default") is driver:
            # Of two threads here at once one may take away what the other made: then
            # there are two drivers, each of which ends with its last socket.
            _defaults.pop("default", None)
        if _defaults.setdefault("default", made) is made:
            made.begin()
            return made
        made.close()


def _forked() -> None:
    _defaults.clear()
    for driver in list(_drivers):
        if not driver._stopped:
            driver.forget_fork()


os.register_at_fork(after_in_child=_forked)
