"""The reference with an object in it that the explorer cannot control."""

from __future__ import annotations

import queue

from tests.conformance import reference

__all__ = ["factory"]


class World(reference.World):
    """Keeps its names in order of arrival in a queue implemented in C."""

    offers = frozenset({"RDV", "SEND"})

    def __init__(self) -> None:
        super().__init__()
        self.arrivals: queue.SimpleQueue[str] = queue.SimpleQueue()

    def broker(
        self, name: str, max_message_size: int | None = None
    ) -> reference.Broker:
        """Return a broker of messages."""
        made = super().broker(name, max_message_size)
        self.arrivals.put(name)
        return made


def factory() -> World:
    """Return a new world."""
    return World()
