"""Kernel readiness: epoll, its events, a wait for one descriptor; `Descriptors`."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Final

from queuebroker._files import Descriptors
from queuebroker._green import refuse_green_threads

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
    "processors",
    "wait_to_read",
    "wait_to_read_any",
]

refuse_green_threads()  # green threads remove `epoll`
if not hasattr(select, "epoll"):
    raise ImportError(
        "a bus and queuebroker.sockets need Linux: there is no epoll here"
    )
Poller = select.epoll

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
ENDED: Final = select.EPOLLHUP | select.EPOLLERR
ONCE: Final = select.EPOLLONESHOT  # alone: reports only a hang-up or an error, once

# The largest number that the system accepts as a timeout in milliseconds, or as a
# backlog.
INT_MAX: Final = 2**31 - 1
# The longest timeout that `Poller.poll` accepts, in seconds.
POLL_S_MAX: Final = float(INT_MAX // 1000)


def wait_to_read(descriptor: int, timeout_s: float) -> None:
    """Wait until a descriptor is readable or the time is up; open no descriptor."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    poller.poll(min(timeout_s * 1000, INT_MAX))


def wait_to_read_any(descriptors: Iterable[int], timeout_s: float | None) -> set[int]:
    """Wait as `wait_to_read`; return the descriptors that are readable or have ended.

    timeout_s: in seconds; None for no limit. A regular file is always readable.
    """
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    limit = None if timeout_s is None else min(timeout_s * 1000, INT_MAX)
    return {descriptor for descriptor, _ in poller.poll(limit)}


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
