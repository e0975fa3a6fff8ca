"""The comm thread of a process, which a test holds, or whose turn it awaits."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from bus.features.memory.link_memory import LinkMemory
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus
    from bus.process.comm_thread import CommThread

__all__ = ["comm_of", "held", "memory_of", "settled"]


def comm_of(bus: Bus) -> CommThread:
    """Return the comm thread of a process."""
    assert bus._node.comm is not None
    return bus._node.comm


def memory_of(bus: Bus) -> LinkMemory:
    """Return the shared memory of a process."""
    memory = comm_of(bus).bodies
    assert isinstance(memory, LinkMemory)
    return memory


def settled(bus: Bus) -> None:
    """Wait until the comm thread has served all earlier requests."""
    done = Event()
    comm_of(bus)._relay_outbox.ask(done.set)
    assert done.wait(LIMIT_S)


@contextmanager
def held(bus: Bus) -> Iterator[None]:
    """Block the comm thread, so that it neither sends nor receives."""
    is_held, go = Event(), Event()

    def hold() -> None:
        is_held.set()
        assert go.wait(LIMIT_S)

    comm_of(bus)._relay_outbox.ask(hold)
    assert is_held.wait(LIMIT_S)
    try:
        yield
    finally:
        go.set()
