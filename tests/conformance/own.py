"""The suite's view of `queuebroker`: every group of clauses is offered."""

from __future__ import annotations

import queuebroker

__all__ = ["World", "factory"]


class World:
    """A new manager, and the library's errors under the suite's names."""

    offers = frozenset(
        {"NAME", "RDV", "SEND", "RECV", "FIFO", "BUF", "CHAN", "DISC"}
        | {"ERR", "TIME", "CONC", "PY", "BULK"}
    )
    disconnected_error = queuebroker.DisconnectedQueueError
    disconnected_channel_error = queuebroker.DisconnectedChannelError
    timeout_error = queuebroker.QueueBrokerTimeoutError
    closed_error = queuebroker.BrokerClosedError
    name_in_use_error = queuebroker.BrokerNameInUseError
    unknown_broker_error = queuebroker.UnknownBrokerError
    port_in_use_error = queuebroker.PortInUseError
    message_too_large_error = queuebroker.MessageTooLargeError

    def __init__(self, observer: queuebroker.Observer | None = None) -> None:
        self._manager = queuebroker.BrokerManager(observer=observer)

    def broker(
        self, name: str, *, max_message_size: int | None = None
    ) -> queuebroker.QueueBroker:
        """Return a broker of messages."""
        return queuebroker.QueueBroker(
            name, manager=self._manager, max_message_size=max_message_size
        )

    def channels(self, name: str, *, capacity: int = 4096) -> queuebroker.Broker:
        """Return a broker of bytes."""
        return queuebroker.Broker(name, manager=self._manager, capacity=capacity)

    def close(self) -> None:
        """Close the manager."""
        self._manager.close()


def factory() -> World:
    """Return a new world."""
    return World()
