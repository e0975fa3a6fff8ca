"""``queue.SimpleQueue``, written in C, one for each direction. It has no bound."""

from __future__ import annotations

import platform
import queue
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.workloads import End, Link

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NAME", "VERSION", "link"]

NAME = "queue.SimpleQueue"
VERSION = platform.python_version()


@contextmanager
def link(capacity: int) -> Iterator[Link]:  # noqa: ARG001 # it cannot be bounded
    """Open two queues, crossed."""
    there: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    back: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    yield Link(End(there.put, back.get), End(back.put, there.get))
