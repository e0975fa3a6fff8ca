"""`MessageQueue`: one end of a full-duplex connection for whole messages.

This file is the surface that every kind of end shares; a kind decides only how it
sends, receives and waits. `LockedMessageQueue` does it under the connection's lock,
`FastMessageQueue` without one where nobody has to wait.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from queuebroker.end import End
from queuebroker.errors import DisconnectedError, DisconnectedQueueError
from queuebroker.queue_connection import QueueConnection
from queuebroker.readiness import Readiness
from queuebroker.typed_queue import TypedQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

__all__ = ["MessageQueue"]

T = TypeVar("T")


class MessageQueue(End[QueueConnection], abc.ABC):
    """Whole messages both ways, first in, first out, none lost while connected.

    Two `CircularBufferQueue`, crossed: what goes out of one end comes in at the other
    (QB-BUF-9). Ends are made by a `QueueBroker`; every method may be called from any
    thread. ``timeout`` is in seconds: None waits for ever, 0 tries once.

    Used as a context manager it disconnects on leaving; iterating yields messages
    until the end is disconnected.
    """

    # The turn of its last message by `receive_any`, set by that and not here: most ends
    # never have one, and are made often.
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

        The bytes are taken at the call; ``length=None`` means to the end. Waits while
        the peer's buffer is full. When the peer has hung up but messages are left to
        receive here, the message is dropped and counted (QB-DISC-6), unless the
        broker was made with ``strict_half=True``.

        Raises:
            DisconnectedQueueError: this end is disconnected, or became so, or the
                peer hung up, while waiting; nothing was sent.
            SendTimeoutError: the buffer stayed full; nothing was sent.
            MessageTooLargeError: longer than the connection allows.
            TypeError, ValueError: wrong arguments, found before anything else.
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

        From then on this connection takes a lock for every message, both ways: use it
        to receive into memory you have, not for speed.

        Raises:
            ValueError: the message is longer than the buffer; it stays where it is.
            DisconnectedQueueError, ReceiveTimeoutError: as `receive`.
        """

    @abc.abstractmethod
    def send_many(
        self, messages: Iterable[Buffer], *, timeout: float | None = None
    ) -> int:
        """Send messages in order; return how many of the sends were done (QB-BULK-1).

        As so many sends by one caller, under one timeout for all. What stops a later
        one (a full buffer, a disconnect, a wrong argument) ends the call with the
        count so far; it raises only where the very first send would have raised.
        """

    @abc.abstractmethod
    def receive_many(
        self, limit: int | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        """Wait for one message, then take what is there, ``limit`` at most (QB-BULK-2).

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

        An abnormal disconnect is raised, not taken for the end.
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

        ``wanted`` is what msgspec can decode: a Struct, a dataclass, an attrs class, a
        TypedDict, ``list[int]``, a union of such, and so on. Encoder and decoder are
        made here, so make one face and keep it. Type checkers infer ``TypedQueue[T]``
        from a class; a union needs its annotation.

        Raises:
            TypeError: msgspec cannot decode that.
        """
        return TypedQueue(self, wanted)

    def fileno(self) -> int:
        """Return a descriptor for `selectors`, made on first use (QB-BOOK-5).

        Readable while a receive would not wait: a message is here, or the disconnect
        is to be told. It lives as long as the connection.
        """
        connection, side = self._connection, self._side

        def make() -> int:
            while (readiness := connection.readiness[side]) is None:
                made = Readiness()
                # A signal handler may have made one since.
                if connection.readiness[side] is None:
                    connection.readiness[side] = made
            connection.refresh_locked(side)
            return readiness.fd

        if connection.sole:
            connection.check_not_within("make a descriptor")
        return connection.critical(make)
