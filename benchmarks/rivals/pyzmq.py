"""pyzmq: a PAIR of sockets over ``inproc``.

Settings as its guide advises for this use: no I/O thread, since ``inproc`` needs
none; copied messages, which are faster than ``copy=False`` far above 64 bytes; both
high-water marks at the capacity (``inproc`` adds them up: twice our capacity).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import zmq

from benchmarks.workloads import End, Link

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NAME", "VERSION", "link"]

NAME = "pyzmq"
VERSION = zmq.__version__

_ADDRESS = "inproc://link"


@contextmanager
def link(capacity: int) -> Iterator[Link]:
    """Open a context with two PAIR sockets. One thread at a time may use an end."""
    with zmq.Context(io_threads=0) as context:
        near, far = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        with near, far:
            for socket in (near, far):
                socket.set_hwm(capacity)
                socket.linger = 0
            far.bind(_ADDRESS)
            near.connect(_ADDRESS)
            yield Link(End(near.send, near.recv), End(far.send, far.recv))
