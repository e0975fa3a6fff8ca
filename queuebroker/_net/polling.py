"""Kernel readiness: epoll or a substitute, a wait for one descriptor; `Descriptors`.

Without epoll a `Poller` is built on a `WaitSet`, and that without poll on select. These
cost time for each descriptor watched. kqueue would not, but this code could be tested
on no system that has it.
"""

from __future__ import annotations

import errno
import os
import select
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker._files import Descriptors
from queuebroker._green import refuse_green_threads
from queuebroker.waiting.event import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ENDED",
    "INT_MAX",
    "ONCE",
    "POLL_S_MAX",
    "READ",
    "WRITE",
    "Descriptors",
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


class _SelectSet:
    """The part of `select.poll` that this package uses, by `select.select`.

    Windows reports no hang-up: the socket becomes readable, and its end is found by
    reading. It reports a connect that failed as an exceptional condition. No signal
    ends `select` there, so the main thread calls it for a slice of time at once.
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
        slice_s = _sync.SLICE_S if _sync.runs_handlers() else inf
        try:
            while True:
                limit = min(rest_s, slice_s)
                ready = select.select(
                    read, written, written, None if limit == inf else limit
                )
                rest_s -= limit
                if rest_s <= 0 or any(ready):
                    break
        except (OSError, ValueError):  # closed, or too large a number
            closed = [each for each in self._masks if _is_closed(each)]
            if not closed:
                raise
            return [(each, _CLOSED) for each in closed]
        found: dict[int, int] = {}
        for mask, descriptors in zip((READ, WRITE, ENDED), ready, strict=True):
            for each in descriptors:
                found[each] = found.get(each, 0) | mask
        return list(found.items())


def _is_closed(descriptor: int) -> bool:
    try:
        select.select((descriptor,), (), (), 0)
    except (OSError, ValueError):
        return True
    return False


class _PortablePoller:
    """The part of `select.epoll` that this package uses, by a `WaitSet`.

    A thread may change the descriptors while another one waits: it sets an event that
    ends the wait, and the wait begins again. As with epoll, a closed descriptor is
    forgotten.
    """

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}
        self._changed: Final = Event()
        # One item per waiting thread. Its thread adds it before it reads the masks.
        self._waiting: list[None] = []

    def register(self, descriptor: int, mask: int) -> None:
        self._masks[descriptor] = mask
        self._wake()

    def modify(self, descriptor: int, mask: int) -> None:
        if descriptor not in self._masks:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self.register(descriptor, mask)

    def unregister(self, descriptor: int) -> None:
        if self._masks.pop(descriptor, None) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._changed.set()

    def poll(
        self, timeout: float | None = None, _maxevents: int = -1
    ) -> list[tuple[int, int]]:
        """Wait as `select.epoll.poll`, and report each event."""
        deadline = None if timeout is None else _sync.monotonic() + timeout
        while True:
            self._waiting.append(None)
            try:
                ready = self._poll_once(deadline)
            finally:
                self._waiting.pop()
            if ready or (deadline is not None and _sync.monotonic() >= deadline):
                return ready

    def _poll_once(self, deadline: float | None) -> list[tuple[int, int]]:
        waited = WaitSet()
        waited.register(self._changed.fd, READ)
        for descriptor, mask in list(self._masks.items()):
            if mask != _NEVER:
                waited.register(descriptor, mask & (READ | WRITE))
        rest_ms = None
        if deadline is not None:
            rest_ms = min(max(0.0, deadline - _sync.monotonic()) * 1000, INT_MAX)
        ready = []
        for descriptor, mask in waited.poll(rest_ms):
            if descriptor == self._changed.fd:
                with suppress(BlockingIOError):  # another waiting thread cleared it
                    self._changed.clear()
            elif mask & _CLOSED:
                self._masks.pop(descriptor, None)
            else:
                if self._masks.get(descriptor) == ONCE:
                    self._masks[descriptor] = _NEVER
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
        self._masks.clear()
        self._changed.close()


_NEVER: Final = 0

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
