"""Distances between two tasks, and a place at each of them.

Nothing here sleeps to put threads in order. A thread made by ``bus.here()`` runs only
when the test drives it; the effects of other threads are awaited, with a limit.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from bus.process.socket_network import SocketNetwork
from bus.testing import memory_bus
from tests.kit.buses import socket_bus
from tests.kit.systems import needs_unix_sockets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, BusConfig, BusThread, Overflow, Task

__all__ = ["DISTANCES", "FAR", "NEAR", "POLICIES", "There", "far", "far_apart"]

POLICIES: Final[tuple[Overflow, ...]] = (
    *("block", "drop-oldest", "drop-newest", "error", "disconnect"),
)

# Distances between two tasks (BUS-MSG-1): in one process, and in two.
NEAR: Final = ("same thread", "other thread")
FAR: Final = (
    *("other process", "other machine"),
    pytest.param("by sockets", marks=needs_unix_sockets),
)
DISTANCES: Final = (*NEAR, *FAR)
far_apart = pytest.mark.parametrize("distance", FAR)


def far(bus: Bus, distance: str) -> BusThread:
    """Return a thread of this process at a distance from the calling one."""
    return bus.here() if distance == "same thread" else bus.thread("far")


class There:
    """A place at a distance from the calling thread; a context manager.

    bus: the bus there, which may be that of another process.
    """

    def __init__(self, bus: Bus, distance: str) -> None:
        self._here: Final = bus
        self._stack: Final = ExitStack()
        if distance in NEAR:
            self.bus, self.thread = bus, far(bus, distance)
            return
        if distance == "by sockets":
            self.bus = self._stack.enter_context(socket_bus("other"))
        else:
            machine = "far" if distance == "other machine" else None
            self.bus = self._stack.enter_context(
                memory_bus(process="other", machine=machine, beside=bus)
            )
        self.thread = self.bus.thread("far")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def beside(self, process: str, config: BusConfig) -> Iterator[Bus]:
        """Yield one more process on this machine."""
        near = self._here
        made = (
            socket_bus(process, config=config)
            if isinstance(near._node.network, SocketNetwork)
            else memory_bus(process=process, config=config, beside=near)
        )
        with made as bus:
            yield bus

    def register(self, name: str, **options: Any) -> Task:
        """Register a task at this place."""
        return self.bus.register(name, thread=self.thread, **options)

    def at(self, name: str) -> str:
        """Return the address of a task there, as used from here."""
        return _reached(name, self.bus, self._here)

    def back(self, name: str) -> str:
        """Return the address of a task here, as used from there."""
        return _reached(name, self._here, self.bus)


def _reached(name: str, there: Bus, here: Bus) -> str:
    if there.machine == here.machine:
        return name
    return f"ism://{there.machine}/{name}"
