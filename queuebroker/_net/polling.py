"""Kernel readiness: epoll or a substitute, and waits for a few descriptors.

Without epoll, a `Poller` is built on a `WaitSet`; without poll, a `WaitSet` is built on
select. Both cost time for each descriptor watched. kqueue would cost none, but no
system with kqueue was available for tests.
"""

from __future__ import annotations

import errno
import os
import select
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker._green import refuse_green_threads
from queuebroker._platform import SYSTEM
from queuebroker.waiting.event import Event
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ENDED",
    "INT_MAX",
    "ONCE",
    "POLL_S_MAX",
    "READ",
    "WRITE",
    "Poller",
    "WaitSet",
    "processors",
    "wait_to_read",
    "wait_to_read_any",
]

refuse_green_threads()  # green threads remove `epoll`

# The numbers of epoll and of poll.
READ: Final = 0x1
WRITE: Final = 0x4
ENDED: Final = 0x8 | 0x10  # an error, a hang-up
ONCE: Final = 1 << 30  # alone: reports only a hang-up or an error, once
_CLOSED: Final = 0x20  # reported by poll alone

# The largest number that the system accepts as a timeout in milliseconds, or as a
# backlog.
INT_MAX: Final = 2**31 - 1
# The longest timeout that `Poller.poll` accepts, in seconds.
POLL_S_MAX: Final = float(INT_MAX // 1000)


# The most sockets that `select` accepts on Windows, and the pause between two polls of
# more sockets.
_SELECT_MAX: Final = 512 if SYSTEM == "windows" else INT_MAX
_PAUSE_S: Final = 0.005
# How long a thread that forgets a descriptor waits for another one to leave it, in
# seconds. That one may be stopped.
_END_S: Final = 1.0


class _SelectSet:
    """The part of `select.poll` that this package uses, built on `select.select`.

    Windows reports no hang-up: the socket becomes readable, and a read finds its end.
    It reports a connect that failed as an exceptional condition. No signal ends
    `select` there, so the main thread waits in slices.
    """

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}

    def register(self, of: int | _HasDescriptor, mask: int) -> None:
        self._masks[of if isinstance(of, int) else of.fileno()] = mask

    def unregister(self, of: int | _HasDescriptor) -> None:
        del self._masks[of if isinstance(of, int) else of.fileno()]

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        read = [each for each, mask in self._masks.items() if mask & READ]
        written = [each for each, mask in self._masks.items() if mask & WRITE]
        rest_s = inf if timeout_ms is None else timeout_ms / 1000
        try:
            ready = _select_in_slices(read, written, rest_s)
        except (OSError, ValueError):  # one is closed, or has no number any more
            closed = [each for each in self._masks if _is_closed(each)]
            if not closed:
                raise
            return [(each, _CLOSED) for each in closed]
        found: dict[int, int] = {}
        for mask, descriptors in zip((READ, WRITE, ENDED), ready, strict=True):
            for each in descriptors:
                found[each] = found.get(each, 0) | mask
        return list(found.items())


def _select_in_slices(
    read: list[int], written: list[int], rest_s: float
) -> tuple[list[int], list[int], list[int]]:
    slice_s = _sync.SLICE_S if _sync.runs_handlers() else inf
    while True:
        limit_s = min(rest_s, slice_s)
        ready = _select(read, written, limit_s)
        rest_s -= limit_s
        if rest_s <= 0 or any(ready):
            return ready


def _select(
    read: list[int], written: list[int], limit_s: float
) -> tuple[list[int], list[int], list[int]]:
    """Call `select.select`; for more sockets than Windows accepts, part by part.

    Only the first part ends the wait at once. The other parts are polled.
    """
    count = max(len(read), len(written))
    if count <= _SELECT_MAX:
        limit = None if limit_s == inf else limit_s
        return select.select(read, written, written, limit)
    parts = [
        (read[start : start + _SELECT_MAX], written[start : start + _SELECT_MAX])
        for start in range(0, count, _SELECT_MAX)
    ]
    ready: tuple[list[int], list[int], list[int]] = [], [], []
    while True:
        for each_read, each_written in parts:
            found = select.select(each_read, each_written, each_written, 0)
            for all_found, some in zip(ready, found, strict=True):
                all_found.extend(some)
        if any(ready) or limit_s <= 0:
            return ready
        pause_s = min(limit_s, _PAUSE_S)
        limit_s -= pause_s
        select.select(*parts[0], parts[0][1], pause_s)


def _is_closed(descriptor: int) -> bool:
    try:
        select.select((descriptor,), (), (), 0)
    except OSError:
        return True
    except ValueError:  # or too large for Linux as the stand-in: then the caller raises
        return descriptor < 0
    return False


class _Registration:
    """The events that are awaited at one descriptor of a `_PortablePoller`.

    wanted: the mask, in a new tuple after each change.
    spent: the tuple whose events are not awaited any more.
    """

    __slots__ = ("spent", "wanted")

    def __init__(self, mask: int) -> None:
        self.wanted: tuple[int] = (mask,)
        self.spent: tuple[int] | None = None


class _Wait:
    """One wait in a `_PortablePoller`: its thread, and a lock taken until it ends."""

    __slots__ = ("ended", "ident")

    def __init__(self) -> None:
        self.ident: Final = _sync.get_ident()
        self.ended: Final = taken_lock()


class _PortablePoller:
    """The part of `select.epoll` that this package uses, built on a `WaitSet`.

    A thread may change the descriptors while another one waits: it sets an event that
    ends the wait, and the wait begins again. As with epoll, no event is awaited at a
    closed descriptor.
    """

    def __init__(self) -> None:
        self._registered: dict[int, _Registration] = {}
        # Collected, and so closed, once no thread uses it after `close`.
        self._changed: Event | None = Event()
        self._process: Final = os.getpid()
        # One item per waiting thread. Its thread adds it before it reads the masks.
        self._waiting: list[_Wait] = []

    def register(self, descriptor: int, mask: int) -> None:
        self._registered[descriptor] = _Registration(mask)
        self._wake()

    def modify(self, descriptor: int, mask: int) -> None:
        registration = self._registered.get(descriptor)
        if registration is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        # Not a new registration: another thread may have removed this one meanwhile.
        registration.wanted = (mask,)
        self._wake()

    def unregister(self, descriptor: int) -> None:
        """Forget a descriptor; return once no other thread waits at it.

        A socket stays open while a thread waits at it: closed then, a listening one
        would take another connect, and its peer would find a broker that has closed.
        """
        if self._registered.pop(descriptor, None) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        # Before they are woken: a later wait reads the descriptors that are left.
        waits = self._waiting.copy()
        self._wake()
        for wait in waits:
            # Not its own: a signal handler may have interrupted it.
            if wait.ident != _sync.get_ident() and wait.ended.acquire(timeout=_END_S):
                wait.ended.release()

    def _wake(self) -> None:
        changed = self._changed
        if self._waiting and changed is not None:
            changed.set()

    def poll(
        self, timeout: float | None = None, _maxevents: int = -1
    ) -> list[tuple[int, int]]:
        """Wait as `select.epoll.poll`, and report each event."""
        deadline = None if timeout is None else _sync.monotonic() + timeout
        while True:
            wait = _Wait()
            self._waiting.append(wait)
            try:
                ready = self._poll_once(deadline)
            finally:
                self._waiting.remove(wait)
                wait.ended.release()
            if ready or (deadline is not None and _sync.monotonic() >= deadline):
                return ready

    def _poll_once(self, deadline: float | None) -> list[tuple[int, int]]:
        changed = self._changed
        if changed is None:
            raise ValueError("cannot poll: this poller is closed")
        waited = WaitSet()
        waited.register(changed.fd, READ)
        awaited: dict[int, tuple[_Registration, tuple[int]]] = {}
        # Not `list` of the items: the tuples that it makes may start the collector, and
        # a finalizer lets other threads change the dict.
        for descriptor, registration in self._registered.copy().items():
            wanted = registration.wanted
            if wanted is not registration.spent:
                awaited[descriptor] = registration, wanted
                waited.register(descriptor, wanted[0] & (READ | WRITE))
        rest_ms = None
        if deadline is not None:
            rest_ms = min(max(0.0, deadline - _sync.monotonic()) * 1000, INT_MAX)
        ready = []
        for descriptor, mask in waited.poll(rest_ms):
            if descriptor == changed.fd:
                with suppress(BlockingIOError):  # another waiting thread cleared it
                    changed.clear()
                continue
            registration, wanted = awaited[descriptor]
            # Spends the mask that was reported, not one set since.
            if mask & _CLOSED or wanted[0] == ONCE:
                registration.spent = wanted
            if not mask & _CLOSED:
                ready.append((descriptor, mask))
        return ready

    def fileno(self) -> int:
        """Raise: only epoll has a descriptor of its own."""
        msg = (
            "cannot watch a driver in another event loop: this system has no epoll;"
            " call its `poll` in a thread"
        )
        raise NotImplementedError(msg)

    def close(self) -> None:
        self._registered.clear()
        changed, self._changed = self._changed, None
        if changed is not None and os.getpid() != self._process:
            # The child of a fork lacks the waiting thread, but keeps its references.
            changed.close()


if TYPE_CHECKING:
    from typing import Protocol

    class _HasDescriptor(Protocol):
        def fileno(self) -> int: ...

    Poller = select.epoll
    WaitSet = select.poll
else:
    WaitSet = getattr(select, "poll", _SelectSet)
    Poller = getattr(select, "epoll", _PortablePoller)


def wait_to_read(descriptor: int, timeout_s: float) -> None:
    """Wait until a descriptor is readable or the time is up; open no descriptor."""
    waited = WaitSet()
    waited.register(descriptor, READ)
    waited.poll(min(timeout_s * 1000, INT_MAX))


def wait_to_read_any(descriptors: Iterable[int], timeout_s: float | None) -> set[int]:
    """Wait as `wait_to_read`; return the descriptors that are readable or have ended.

    timeout_s: in seconds; None for no limit. A regular file is always readable.
    """
    waited = WaitSet()
    for descriptor in descriptors:
        waited.register(descriptor, READ)
    limit = None if timeout_s is None else min(timeout_s * 1000, INT_MAX)
    return {descriptor for descriptor, _ in waited.poll(limit)}


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
