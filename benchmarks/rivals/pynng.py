"""pynng: two Pair0 sockets over ``inproc``, with buffers of the same capacity."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pynng  # type: ignore[import-untyped] # it ships no types

from benchmarks.workloads import End, Link

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NAME", "VERSION", "link"]

NAME = "pynng"
VERSION = pynng.__version__

_numbers = itertools.count()


@contextmanager
def link(capacity: int) -> Iterator[Link]:
    """Open two sockets; ``inproc`` addresses are global, so each has a number."""
    room = {"send_buffer_size": capacity, "recv_buffer_size": capacity}
    address = f"inproc://link-{next(_numbers)}"
    with (
        pynng.Pair0(listen=address, **room) as far,
        pynng.Pair0(dial=address, block_on_dial=True, **room) as near,
    ):
        yield Link(End(near.send, near.recv), End(far.send, far.recv))
