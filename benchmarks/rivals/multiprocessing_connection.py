"""``multiprocessing.connection``: a Listener and its Clients, over UNIX sockets.

UNIX sockets are its fastest family on one machine; a longer backlog than the default
changes nothing. A client may continue before the accept, which a symmetric rendez-vous
cannot do.
"""

from __future__ import annotations

import platform
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Client, Listener
from typing import TYPE_CHECKING

from benchmarks.workloads import Doors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["NAME", "VERSION", "doors"]

NAME = "multiprocessing.connection"
VERSION = platform.python_version()


@contextmanager
def doors(pairs: int) -> Iterator[Sequence[Doors]]:
    """Open ``pairs`` listeners, each with its own address."""
    with ExitStack() as stack:
        listeners = [
            stack.enter_context(Listener(family="AF_UNIX")) for _ in range(pairs)
        ]
        yield [
            Doors(one.accept, partial(Client, one.address, "AF_UNIX"))
            for one in listeners
        ]
