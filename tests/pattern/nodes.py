"""Addresses and sockets for the tests of the bus pattern."""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

from bus.pattern import BusSocket
from queuebroker import _net
from queuebroker.closable import Closable
from tests.kit.systems import (
    needs_abstract_names,
    needs_unix_sockets,
    require_unix_sockets,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bus.pattern.sp_socket import SpSocket

__all__ = [
    "LIMIT_S",
    "TRANSPORTS",
    "Mesh",
    "all_of",
    "attach",
    "fresh_url",
    "is_readable",
    "queued",
]

LIMIT_S: Final = 20.0  # a watchdog, not an expectation
TRANSPORTS: Final = (
    "inproc",
    pytest.param("ipc", marks=needs_unix_sockets),
    *("tcp", "tcp6"),
    pytest.param("abstract", marks=needs_abstract_names),
)
_names: Final = itertools.count()


def fresh_url(transport: str, folder: Path) -> str:
    """Return an address of a transport that no listener has.

    transport: "local" for one within the machine: "ipc", or "tcp" with a port that is
      free at present where there are no UNIX sockets.
    """
    if transport == "ipc":
        require_unix_sockets()
    if transport == "local":
        if not _net.HAS_UNIX:
            return f"tcp://127.0.0.1:{_net.unused_port()}"
        transport = "ipc"
    name = f"n{next(_names)}"
    return {
        "inproc": f"inproc://{name}-{os.getpid()}",
        "ipc": f"ipc://{folder}/{name}",
        "abstract": f"abstract://qb-{os.getpid()}-{name}",
        "tcp": "tcp://127.0.0.1:0",
        "tcp6": "tcp6://[::1]:0",
    }[transport]


class Mesh(Closable):
    """Sockets, each connected with all others; leaving the block closes them."""

    def __init__(
        self, transport: str, folder: Path, count: int, **options: Any
    ) -> None:
        self._stack: Final = ExitStack()
        self.nodes: list[BusSocket] = []
        urls: list[str] = []
        try:
            for _ in range(count):
                node = self._stack.enter_context(BusSocket(**options))
                for url in urls:
                    node.dial(url)
                urls.append(node.listen(fresh_url(transport, folder)).url)
                self.nodes.append(node)
            for node in self.nodes:
                assert node.wait_for_peers(count - 1, LIMIT_S)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """Close all sockets."""
        self._stack.close()


def attach(hub: SpSocket[Any], leaves: Sequence[SpSocket[Any]], url: str) -> None:
    """Have a hub listen, and connect each leaf with it, in order."""
    listener = hub.listen(url)
    for leaf in leaves:
        leaf.dial(listener.url)
        assert leaf.wait_for_peers(1, LIMIT_S)
    assert hub.wait_for_peers(len(leaves), LIMIT_S)


def all_of(socket: BusSocket, count: int) -> list[bytes]:
    """Receive ``count`` messages, and check that no other one has arrived."""
    received = [socket.receive(LIMIT_S) for _ in range(count)]
    assert not queued(socket), (received, queued(socket))
    return received


def is_readable(descriptor: int) -> bool:
    """Return whether a descriptor is readable now."""
    poller = _net.Poller()
    poller.register(descriptor, _net.READ)
    try:
        return bool(poller.poll(0))
    finally:
        poller.close()


def queued(socket: SpSocket[Any]) -> int:
    """Return how many messages have arrived and were not taken."""
    return socket.stats.received_queued
