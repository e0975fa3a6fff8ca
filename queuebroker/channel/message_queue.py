"""`MessageQueue`: one end of a full-duplex connection for whole messages.

This module is the interface shared by every kind of end. A kind decides only how it
sends, receives and waits. `LockedMessageQueue` uses the connection's lock,
`FastMessageQueue` takes none unless it has to wait.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TypeVar, overload

from queuebroker.arguments import Buffer
from queuebroker.channel import typed_queue
from queuebroker.channel.end import End
from queuebroker.channel.queue_connection import QueueConnection
from queuebroker.channel.typed_queue import TypedQueue
from queuebroker.errors import DisconnectedError, DisconnectedQueueError
from queuebroker.waiting.readiness import Readiness

__all__ = ["MessageQueue"]

T = TypeVar("T")


class MessageQueue(End[QueueConnection], abc.ABC):
    """Whole messages both ways, first in, first out, without loss while connected.

    Two `CircularBufferQueue`, crossed: a message sent at one end arrives at the other
    (QB-BUF-9). A `QueueBroker` creates the ends; every method may be called from any
    thread. ``timeout`` is in seconds: None waits forever, 0 tries once.

    As a context manager it disconnects on leaving. Iteration yields messages until the
    end is disconnected.
    """

    # The turn of its last message by `receive_any`, which sets it: most ends never have
    # one, and must stay cheap to create.
    __slots__ = ("_served",)
    _served: int

    _kind: ClassVar[str] = "MessageQueue"
    _error: ClassVar[type[DisconnectedError]] = DisconnectedQueueError

    @abc.abstractmethod
    def send(
        self,
        data: Buffer,
        offset: int = 0,
        length: int | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Send ``length`` bytes of ``data`` from ``offset`` on, as one message.

        The call copies the bytes; ``length=None`` means to the end. Waits while the
        peer's buffer is full. If the peer has disconnected but messages are left to
        receive here, the message is dropped and counted (QB-DISC-6), unless the broker
        was created with ``strict_half=True``.

        Raises:
            DisconnectedQueueError: this end is disconnected, or either end disconnected
                during the wait; nothing was sent.
            SendTimeoutError: the buffer stayed full; nothing was sent.
            MessageTooLargeError: longer than the connection allows.
            TypeError, ValueError: wrong arguments, detected before anything else.
        """

    @abc.abstractmethod
    def receive(self, *, timeout: float | None = None) -> bytes:
        """Remove and return the oldest message, waiting while there is none.

        Raises:
            DisconnectedQueueError: disconnected and nothing is left (QB-RECV-4).
            ReceiveTimeoutError: nothing arrived in time.
        """

    @abc.abstractmethod
    def receive_into(self, buffer: Buffer, *, timeout: float | None = None) -> int:
        """Receive into a writable buffer; return the length of the message.

        From then on this connection takes a lock for every message, both ways. Use it
        to receive into existing memory, not for speed.

        Raises:
            ValueError: the message is longer than the buffer; it stays in the queue.
            DisconnectedQueueError, ReceiveTimeoutError: as `receive`.
        """

    @abc.abstractmethod
    def send_many(
        self, messages: Iterable[Buffer], *, timeout: float | None = None
    ) -> int:
        """Send messages in order; return how many of the sends were done (QB-BULK-1).

        Equals a series of sends by one caller, under one timeout for all. If a later
        send would fail (a full buffer, a disconnect, a wrong argument), the call ends
        with the count so far. It raises only if the very first send would have raised.
        """

    @abc.abstractmethod
    def receive_many(
        self, limit: int | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        """Wait for a message, then take all present, up to ``limit`` (QB-BULK-2).

        Raises:
            ValueError: limit below 1.
            DisconnectedQueueError, ReceiveTimeoutError: as `receive`.
        """

    def send_nowait(
        self, data: Buffer, offset: int = 0, length: int | None = None
    ) -> None:
        """Send with ``timeout=0`` (QB-PY-10)."""
        self.send(data, offset, length, timeout=0)

    def receive_nowait(self) -> bytes:
        """Receive with ``timeout=0`` (QB-PY-10)."""
        return self.receive(timeout=0)

    def __iter__(self) -> Iterator[bytes]:
        """Yield messages until this end is disconnected (QB-PY-2).

        An abnormal disconnect raises instead of ending the iteration.
        """
        while True:
            try:
                message = self.receive()
            except DisconnectedQueueError as error:
                if error.__cause__ is not None:
                    raise
                return
            yield message

    @overload
    def of(self, wanted: type[T]) -> TypedQueue[T]: ...
    @overload
    def of(self, wanted: Any) -> TypedQueue[Any]: ...
    def of(self, wanted: Any) -> TypedQueue[Any]:
        """Return a face of this end for objects of one type (QB-PY-12).

        ``wanted`` is a type that msgspec can decode: a Struct, a dataclass, an attrs
        class, a TypedDict, ``list[int]``, a union of such, and so on. The call creates
        the encoder and the decoder, so make one face and keep it. Type checkers infer
        ``TypedQueue[T]`` from a class; a union needs its annotation.

        Raises:
            TypeError: msgspec cannot decode that type.
            ImportError: msgspec is not installed.
        """
        return TypedQueue(self, wanted)

    def fileno(self) -> int:
        """Return a descriptor for `selectors`, created on first use (QB-BOOK-5).

        Readable while a receive would not wait: a message is here, or a receive would
        report the disconnect. It lives as long as the connection.
        """
        connection, side = self._connection, self._side

        def make() -> int:
            while (readiness := connection.readiness[side]) is None:
                made = Readiness()
                # A signal handler may have created one since.
                if connection.readiness[side] is None:
                    connection.readiness[side] = made
            connection.refresh_locked(side)
            return readiness.fd

        if connection.sole:
            connection.check_not_within("make a descriptor")
        return connection.critical(make)


# `TypedQueue` has a queue, and this class returns typed queues, so `typed_queue`
# imports this name for type checkers only. Here `typing.get_type_hints` gets it.
vars(typed_queue)["MessageQueue"] = MessageQueue
