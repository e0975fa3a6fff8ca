"""Recorded operations on two ends, or on brokers, checked against the models.

`queuebroker.testing.History` records, `specs.models` states the possible results, and
`check_linearizable` searches for an order. This module connects the three: it performs
an operation, which the models know by name and arguments, on real objects.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from queuebroker import QueueBrokerError
from queuebroker.testing import History, check_linearizable
from specs.models.bulk import InOrder, singles
from specs.models.histories import channel_model, queue_model
from specs.models.meetings import BrokerModel, meetings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from queuebroker import BrokerManager, Channel, MessageQueue, QueueBroker

__all__ = ["ChannelHistory", "MeetingHistory", "QueueHistory", "Step"]

# One step of a thread: the name of an operation, and its arguments.
Step = tuple[Any, ...]


_ON_A_QUEUE: dict[str, Callable[..., object]] = {
    "send": lambda end, message: end.send(message),
    "send_nowait": lambda end, message: end.send_nowait(message),
    "receive": lambda end: end.receive(),
    "receive_nowait": lambda end: end.receive_nowait(),
    "send_many": lambda end, messages: end.send_many(messages),
    "receive_many": lambda end, limit: end.receive_many(limit),
    "disconnect": lambda end: end.disconnect(),
    "disconnected": lambda end: end.disconnected(),
    "remote_disconnected": lambda end: end.remote_disconnected,
    "pending": lambda end: end.pending,
}


class QueueHistory:
    """The operations of any number of threads on the two ends of one queue."""

    def __init__(self, ends: Sequence[MessageQueue], *, strict: bool = False) -> None:
        self._ends = ends
        self._strict = strict
        self._history = History()

    def perform(self, steps: Iterable[Step]) -> None:
        """Do the steps one after another: (name, number of the end, arguments ...).

        Errors of the library are outcomes: the next step follows.
        """
        for name, end, *args in steps:
            act = _ON_A_QUEUE[name]

            def on_end(
                number: int, *args: object, act: Callable[..., object] = act
            ) -> object:
                return act(self._ends[number], *args)

            with suppress(QueueBrokerError):
                self._history.call(name, on_end, end, *args)

    def check(self) -> None:
        """Find an order that explains all operations.

        Raises:
            NotLinearizableError: there is none.
        """
        model = queue_model(self._ends[0].capacity, strict_half=self._strict)
        check_linearizable(singles(self._history.operations), InOrder(model))


class ChannelHistory:
    """The operations of any number of threads on the two ends of one channel."""

    def __init__(self, ends: Sequence[Channel]) -> None:
        self._ends = ends
        self._history = History()

    def perform(self, steps: Iterable[Step]) -> None:
        """Do the steps one after another, as `QueueHistory.perform`."""
        acts: dict[str, Callable[..., object]] = {
            "write": lambda end, data: self._ends[end].write(data),
            "read": self._read,
            "disconnect": lambda end: self._ends[end].disconnect(),
            "disconnected": lambda end: self._ends[end].disconnected(),
        }
        for name, *args in steps:
            with suppress(QueueBrokerError):
                self._history.call(name, acts[name], *args)

    def _read(self, end: int, length: int) -> bytes:
        buffer = bytearray(length)
        return bytes(buffer[: self._ends[end].read(buffer)])

    def check(self) -> None:
        """Find an order that explains all operations, as `QueueHistory.check`."""
        check_linearizable(self._history, channel_model(self._ends[0].capacity))


class MeetingHistory:
    """The operations of any number of threads on brokers of one manager.

    timeout: how long an accept or a connect waits, in seconds.
    """

    def __init__(self, brokers: Mapping[str, QueueBroker], timeout: float) -> None:
        self._brokers = brokers
        self._timeout = timeout
        self._history = History()
        self.ends: list[MessageQueue] = []
        for name in brokers:
            self._history.call("create", lambda label, _: label, name, name)

    def perform(self, steps: Iterable[Step]) -> None:
        """Do the steps one after another: accept, connect, close, get."""
        acts: dict[str, Callable[..., object]] = {
            "accept": self._accept,
            "connect": self._connect,
            "close": lambda label: self._brokers[label].close(),
            "get": self._get,
        }
        for name, *args in steps:
            with suppress(QueueBrokerError):
                self._history.call(name, acts[name], *args)

    def _accept(self, label: str, port: int) -> int:
        return self._keep(self._brokers[label].accept(port, timeout=self._timeout))

    def _connect(self, label: str, name: str, port: int) -> int | None:
        end = self._brokers[label].connect(name, port, timeout=self._timeout)
        return None if end is None else self._keep(end)

    def _get(self, name: str) -> str | None:
        manager: BrokerManager = next(iter(self._brokers.values())).manager
        found = manager.get(name)
        return None if found is None else found.name

    def _keep(self, end: MessageQueue) -> int:
        self.ends.append(end)
        return end._connection.number

    def check(self) -> None:
        """Find an order that explains all operations; disconnect all ends first."""
        for end in self.ends:
            end.disconnect()
        check_linearizable(meetings(self._history.operations), BrokerModel())
