"""`QueueBroker` for coroutines: a name that accepts and opens connections.

The face of a `queuebroker.QueueBroker`. The underlying broker matches the calls, also
those of a thread with those of a coroutine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import ClassVar, Literal, Self, cast, overload

from queuebroker.aio.face import Face
from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.waiting import meet
from queuebroker.aio.waker import running_waker
from queuebroker.arguments import check_port, deadline_after
from queuebroker.channel import message_queue
from queuebroker.errors import BrokerClosedError, UnknownBrokerError
from queuebroker.meeting import queue_broker as plain
from queuebroker.meeting.broker import Broker, BrokerFace
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.meeting.rendezvous import Kind, RdV

__all__ = ["QueueBroker"]


class QueueBroker(BrokerFace, Face[plain.QueueBroker]):
    """A named meeting point for `queuebroker.aio.MessageQueue`\\ s.

    As `queuebroker.QueueBroker`, but ``accept`` and ``connect`` are awaited. A call
    that is cancelled while it waits is withdrawn: no other call can match it any more.

    Args:
        name, manager, capacity, max_message_size, strict_half: as there.

    ``with`` and ``async with`` close it on leaving.
    """

    __slots__ = ()

    _plain_type: ClassVar[type[plain.QueueBroker]] = plain.QueueBroker

    def __init__(
        self,
        name: str | Broker,
        *,
        manager: BrokerManager | None = None,
        capacity: int = plain.CAPACITY_MESSAGES,
        max_message_size: int | None = None,
        strict_half: bool = False,
    ) -> None:
        super().__init__(
            plain.QueueBroker(
                name,
                manager=manager,
                capacity=capacity,
                max_message_size=max_message_size,
                strict_half=strict_half,
            )
        )

    @classmethod
    def _of(cls, existing: plain.QueueBroker) -> Self:
        face = cls.__new__(cls)
        face._plain = existing
        return face

    @property
    def _broker(self) -> Broker:
        return self._plain._broker

    @property
    def broker(self) -> plain.QueueBroker:
        """The plain broker, for threads."""
        return self._plain

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
        make = running_waker().waiter
        rdv = self._broker.new_accept(Kind.QUEUE, port, terms, make)
        return await _met(rdv, timeout)

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
        try:
            return await self._connect(name, port, timeout, strict_half)
        except UnknownBrokerError:
            if required:
                raise
            return None

    async def _connect(
        self, name: str, port: int, timeout: float | None, strict_half: bool | None
    ) -> MessageQueue:
        """Connect as `connect` does with ``required``."""
        terms = self._plain._terms_with(strict_half)
        make = running_waker().waiter
        rdv = self._broker.new_connect(Kind.QUEUE, name, port, terms, make)
        return await _met(rdv, timeout)

    def accept_iter(self, port: int) -> AsyncIterator[MessageQueue]:
        """Yield accepted queues until this broker is closed (QB-PY-9).

        A cancelled step accepts no connection, and the iteration may go on.

        Raises:
            TypeError, ValueError: wrong port, detected at the call.
        """
        return _Accepted(self, check_port(port))

    def as_current(self) -> AbstractContextManager[None]:
        """Make the underlying broker the current one of this coroutine."""
        return self._plain.as_current()


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
