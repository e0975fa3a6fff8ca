"""`QueueBroker` for coroutines: a name that accepts and opens connections.

The face of a `queuebroker.QueueBroker`. The underlying broker matches the calls, also
those of a thread with those of a coroutine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal, Self, cast, overload

from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.waiting import meet
from queuebroker.aio.waker import running_waker
from queuebroker.arguments import check_port, deadline_after
from queuebroker.channel import message_queue
from queuebroker.closable import Closable
from queuebroker.errors import BrokerClosedError, UnknownBrokerError
from queuebroker.meeting import queue_broker as plain
from queuebroker.meeting.broker import Broker
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.meeting.rendezvous import Kind, RdV

__all__ = ["QueueBroker"]


class QueueBroker(Closable):
    """A named meeting point for `queuebroker.aio.MessageQueue`\\ s.

    As `queuebroker.QueueBroker`, but ``accept`` and ``connect`` are awaited. A call
    that is cancelled while it waits is withdrawn: no other call can match it any more.

    Args:
        name, manager, capacity, max_message_size, strict_half: as there.

    ``with`` and ``async with`` close it on leaving.
    """

    __slots__ = ("__weakref__", "_plain")

    def __init__(
        self,
        name: str | Broker,
        *,
        manager: BrokerManager | None = None,
        capacity: int = plain.CAPACITY_MESSAGES,
        max_message_size: int | None = None,
        strict_half: bool = False,
    ) -> None:
        self._plain: plain.QueueBroker = plain.QueueBroker(
            name,
            manager=manager,
            capacity=capacity,
            max_message_size=max_message_size,
            strict_half=strict_half,
        )

    @property
    def broker(self) -> plain.QueueBroker:
        """The plain broker, for threads."""
        return self._plain

    def __repr__(self) -> str:
        return f"<aio {self._plain!r}>"

    # Accepting and connecting.

    async def accept(
        self,
        port: int,
        *,
        timeout: float | None = None,
        capacity: int | None = None,
        exclusive: bool = False,
        strict_half: bool | None = None,
    ) -> MessageQueue:
        """Wait for a connect to this broker and port; return this side's end.

        As `queuebroker.QueueBroker.accept`.
        """
        terms = self._plain._terms_with(strict_half, capacity, exclusive=exclusive)
        broker = self._plain._broker
        make = running_waker().waiter
        return await _met(broker.new_accept(Kind.QUEUE, port, terms, make), timeout)

    @overload
    async def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: Literal[True],
        strict_half: bool | None = None,
    ) -> MessageQueue: ...
    @overload
    async def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: bool = False,
        strict_half: bool | None = None,
    ) -> MessageQueue | None: ...
    async def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: bool = False,
        strict_half: bool | None = None,
    ) -> MessageQueue | None:
        """Wait for an accept at the named broker and port; return this side's end.

        As `queuebroker.QueueBroker.connect`.
        """
        terms = self._plain._terms_with(strict_half)
        broker = self._plain._broker
        make = running_waker().waiter
        rdv = broker.new_connect(Kind.QUEUE, name, port, terms, make)
        try:
            return await _met(rdv, timeout)
        except UnknownBrokerError:
            if required:
                raise
            return None

    def accept_iter(self, port: int) -> AsyncIterator[MessageQueue]:
        """Yield accepted queues until this broker is closed (QB-PY-9).

        A cancelled step accepts no connection, and the iteration may go on.

        Raises:
            TypeError, ValueError: wrong port, detected at the call.
        """
        return _Accepted(self, check_port(port))

    # Inspection.

    @property
    def name(self) -> str:
        """The name of the broker, also after it was closed."""
        return self._plain.name

    @property
    def manager(self) -> BrokerManager:
        """The name space of the broker."""
        return self._plain.manager

    @property
    def closed(self) -> bool:
        """True once `close()` was called."""
        return self._plain.closed

    def waiting_accepts(self) -> dict[int, int]:
        """Return the number of waiting accepts, by port, of coroutines and threads."""
        return self._plain.waiting_accepts()

    def waiting_connects(self) -> dict[int, int]:
        """Return the number of waiting connects, by port, of coroutines and threads."""
        return self._plain.waiting_connects()

    def outgoing(self) -> dict[tuple[str, int], int]:
        """Return the number of its waiting connects, by name and port."""
        return self._plain.outgoing()

    @staticmethod
    def get_broker() -> Broker | plain.QueueBroker:
        """Return the current broker of this coroutine; see `current_broker`."""
        return plain.QueueBroker.get_broker()

    def as_current(self) -> AbstractContextManager[None]:
        """Make the underlying broker the current one of this coroutine."""
        return self._plain.as_current()

    # Closing.

    def close(self) -> None:
        """Close the broker with all its faces; see `queuebroker.Broker.close`."""
        self._plain.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Accepted:
    """An asynchronous iterator of the queues accepted at a port.

    Not an asynchronous generator: a cancelled step would end it, and two tasks could
    not share it.
    """

    def __init__(self, broker: QueueBroker, port: int) -> None:
        self._broker = broker
        self._port = port

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageQueue:
        try:
            return await self._broker.accept(self._port)
        except BrokerClosedError:
            pass
        raise StopAsyncIteration


async def _met(rdv: RdV, timeout: float | None) -> MessageQueue:
    end = await meet(rdv, deadline_after(timeout), timeout)
    # QB-RDV-4: kinds never match one another.
    return MessageQueue(cast("message_queue.MessageQueue", end))
