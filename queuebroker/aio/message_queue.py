"""`MessageQueue`: one end of a connection, for coroutines.

Each call first tries the operation of the plain end with ``timeout=0``. Only if that
would block, the call waits in `queuebroker.aio.waiting`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Self, TypeVar

from queuebroker.aio.face import Face
from queuebroker.aio.waiting import act
from queuebroker.arguments import Buffer, check_instance, deadline_after, snapshot
from queuebroker.channel import message_queue as plain
from queuebroker.channel.end import Stats
from queuebroker.channel.locked_queue import LockedMessageQueue
from queuebroker.channel.receive_attempt import Take
from queuebroker.channel.status import DONE, Status
from queuebroker.errors import (
    DisconnectedQueueError,
    ReceiveTimeoutError,
    SendTimeoutError,
)

__all__ = ["MessageQueue"]

T = TypeVar("T")


class MessageQueue(Face[LockedMessageQueue]):
    """The face of a `queuebroker.MessageQueue` for coroutines.

    Created by `queuebroker.aio.QueueBroker` and by `queuebroker.aio.wrap`.

    Differs from the plain class as follows: ``send``, ``receive`` and the other calls
    that may wait are awaited, and ``async for`` yields messages. Calls that never wait
    stay plain functions. A call that need not wait does not let other tasks run, as
    with `asyncio.Queue`.

    A call that is cancelled while it waits has no effect: no message is lost, and none
    is sent. Only `send_many` may have sent some. Any number of tasks, loops and threads
    may use one end.

    ``with`` and ``async with`` disconnect on leaving.
    """

    __slots__ = ()

    _plain_type = plain.MessageQueue

    def __init__(self, queue: plain.MessageQueue) -> None:
        check_instance("queue", queue, plain.MessageQueue)
        if not isinstance(queue, LockedMessageQueue):
            msg = f"cannot wrap {queue!r}: it has no face for coroutines"
            raise TypeError(msg)
        super().__init__(queue)

    @property
    def queue(self) -> plain.MessageQueue:
        """The plain end, for threads."""
        return self._plain

    # Sending.

    def send(
        self,
        data: Buffer,
        offset: int = 0,
        length: int | None = None,
        *,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Send a message, waiting while the peer's buffer is full.

        The call, not the await, copies the bytes and raises errors of arguments
        (QB-SEND-7). Otherwise as `queuebroker.MessageQueue.send`.
        """
        message = snapshot(data, offset, length, self._plain._connection.limit)
        return self._send(message, timeout, deadline_after(timeout))

    async def _send(
        self, message: bytes, timeout: float | None, deadline: float | None
    ) -> None:
        try:
            self._plain.send(message, timeout=0)
        except SendTimeoutError:
            if timeout == 0:
                raise
        else:
            return
        attempt = self._plain._send_attempt(message)
        verdict = await act(self._plain, attempt, deadline, sends=True)
        if verdict not in DONE:
            raise self._plain._unsent(verdict)

    def send_many(
        self, messages: Iterable[Buffer], *, timeout: float | None = None
    ) -> Coroutine[Any, Any, int]:
        """Send messages in order; return how many of the sends were done.

        The call, not the await, copies them and raises errors of arguments, as `send`
        does. If it is cancelled, some may have been sent. Otherwise as
        `queuebroker.MessageQueue.send_many`.
        """
        deadline = deadline_after(timeout)
        sendable, flaw = self._plain._snapshots(messages)
        if flaw is not None and not sendable:
            raise flaw
        return self._send_many(sendable, timeout, deadline)

    async def _send_many(
        self, sendable: list[bytes], timeout: float | None, deadline: float | None
    ) -> int:
        end = self._plain
        sent = 0
        while sent < len(sendable):
            try:
                sent = end._send_from(sendable, sent, 0, None)
            except SendTimeoutError:  # not even the first was sent
                if timeout == 0:
                    raise
            if timeout == 0 or sent == len(sendable):
                return sent
            attempt = end._send_attempt(sendable[sent])
            verdict = await act(end, attempt, deadline, sends=True)
            if verdict not in DONE:
                if not sent:
                    raise end._unsent(verdict)
                return sent
            sent += 1
        return sent

    def send_nowait(
        self, data: Buffer, offset: int = 0, length: int | None = None
    ) -> None:
        """Send without waiting; not awaited."""
        self._plain.send_nowait(data, offset, length)

    # Receiving.

    async def receive(self, *, timeout: float | None = None) -> bytes:
        """Remove and return the oldest message, waiting while there is none.

        As `queuebroker.MessageQueue.receive`.
        """
        end = self._plain
        take = end._connection.take_locked
        return await self._receive(end.receive_nowait, lambda: take, timeout)

    async def receive_into(
        self, buffer: Buffer, *, timeout: float | None = None
    ) -> int:
        """Receive into a writable buffer; return the length of the message.

        As `queuebroker.MessageQueue.receive_into`.
        """
        end = self._plain
        return await self._receive(
            lambda: end.receive_into(buffer, timeout=0),
            lambda: end._take_into(buffer),
            timeout,
        )

    async def receive_many(
        self, limit: int | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        """Wait for one message, then take all that have arrived, ``limit`` at most.

        As `queuebroker.MessageQueue.receive_many`.
        """
        end = self._plain
        return await self._receive(
            lambda: end.receive_many(limit, timeout=0),
            lambda: end._take_many(limit),
            timeout,
        )

    async def _receive(
        self,
        at_once: Callable[[], T],
        taking: Callable[[], Take[T]],
        timeout: float | None,
    ) -> T:
        deadline = deadline_after(timeout)
        try:
            return at_once()
        except ReceiveTimeoutError:
            if timeout == 0:
                raise
        end = self._plain
        receive_attempt = end._receive_attempt(taking(), timeout)
        try:
            receive_attempt.verdict = await act(
                end, receive_attempt.attempt, deadline, sends=False
            )
        finally:
            receive_attempt.end()
        return end._result_of(receive_attempt, timeout)

    def receive_nowait(self) -> bytes:
        """Receive without waiting; not awaited."""
        return self._plain.receive_nowait()

    def __aiter__(self) -> Self:
        """Yield messages until this end is disconnected (QB-PY-2).

        An abnormal disconnect raises instead of ending the iteration. A cancelled step
        loses nothing, and the iteration may go on.
        """
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self.receive()
        except DisconnectedQueueError as error:
            if error.__cause__ is not None:
                raise
        raise StopAsyncIteration

    # State.

    @property
    def status(self) -> Status:
        """Connected, half-disconnected or disconnected."""
        return self._plain.status

    def disconnected(self) -> bool:
        """Return True if neither sending nor receiving can succeed again."""
        return self._plain.disconnected()

    @property
    def closed(self) -> bool:
        """The same as `disconnected()`, as a property."""
        return self._plain.closed

    @property
    def remote_disconnected(self) -> bool:
        """True once the peer has disconnected, even while this end drains."""
        return self._plain.remote_disconnected

    @property
    def local_name(self) -> str:
        """Name of the broker that created this end."""
        return self._plain.local_name

    @property
    def remote_name(self) -> str:
        """Name of the peer's broker."""
        return self._plain.remote_name

    @property
    def port(self) -> int:
        """Port of the rendezvous that made this connection."""
        return self._plain.port

    @property
    def capacity(self) -> int:
        """Maximum number of messages in each direction."""
        return self._plain.capacity

    @property
    def pending(self) -> int:
        """Number of arrived messages that neither face has received yet."""
        return self._plain.pending

    def stats(self) -> Stats:
        """Return the counters of this end."""
        return self._plain.stats()

    # Disconnecting.

    def disconnect(self, error: BaseException | None = None) -> None:
        """Disconnect, as `queuebroker.MessageQueue.disconnect`; never waits."""
        self._plain.disconnect(error)

    def close(self) -> None:
        """The same as `disconnect()`."""
        self._plain.disconnect()
