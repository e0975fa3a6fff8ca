"""`Carrier`: the interface of a queue that the tasks of the demo need.

Between threads it is a `queuebroker.MessageQueue`, and between processes a
`bus.demo.recorded_queue.RecordedQueue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

__all__ = ["Carrier", "Connector"]


class Carrier(Protocol):
    """One end of a queue; every method as that of `queuebroker.MessageQueue`."""

    @property
    def remote_name(self) -> str:
        """The name of the other end."""

    @property
    def remote_disconnected(self) -> bool:
        """True if the other end was disconnected."""

    def send(self, data: bytes, /) -> None:
        """Send one message."""

    def send_many(self, messages: Sequence[bytes], /) -> object:
        """Send several, in order."""

    def receive(self) -> bytes:
        """Wait for the next message."""

    def disconnect(self) -> None:
        """Disconnect this end."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Connector(Protocol):
    """Connects a worker, as `queuebroker.QueueBroker` does."""

    @property
    def name(self) -> str:
        """The name of the worker."""

    def connect(self, name: str, port: int, *, required: Literal[True]) -> Carrier:
        """Wait until the peer accepts."""
