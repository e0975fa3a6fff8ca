"""``queue.Queue``, bounded to the same capacity, one for each direction."""

from __future__ import annotations

import platform
import queue
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.workloads import End, Link

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NAME", "VERSION", "link"]

NAME = "queue.Queue"
VERSION = platform.python_version()


@contextmanager
def link(capacity: int) -> Iterator[Link]:
    """Open two queues, crossed."""
    there: queue.Queue[bytes] = queue.Queue(capacity)
    back: queue.Queue[bytes] = queue.Queue(capacity)
    yield Link(End(there.put, back.get), End(back.put, there.get))
