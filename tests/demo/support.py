"""Shared by the tests of the demo's tasks: their bus, and both ends of a queue."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bus.demo.messages import ENCODERS
from bus.model.config import BusConfig
from bus.testing import memory_bus
from queuebroker import BrokerManager, QueueBroker
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from bus import Bus
    from queuebroker import MessageQueue

__all__ = ["demo_bus", "pair"]


def demo_bus() -> AbstractContextManager[Bus]:
    """Give a bus that carries the tasks' messages."""
    return memory_bus(config=BusConfig(encoders=ENCODERS))


@contextmanager
def pair(
    accepting: str, connecting: str
) -> Iterator[tuple[MessageQueue, MessageQueue]]:
    """Give the accepting end and the connecting end; hang up at the end."""
    with BrokerManager() as manager, Threads() as threads:
        server = QueueBroker(accepting, manager=manager)
        client = QueueBroker(connecting, manager=manager)
        accepted = threads.start(server.accept, 1)
        near = client.connect(accepting, 1, required=True)
        with near, accepted.result() as far:
            yield far, near
