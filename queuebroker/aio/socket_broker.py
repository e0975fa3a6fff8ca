"""`SocketQueueBroker`: a broker that other processes can reach, for coroutines.

The face of a `queuebroker.sockets.SocketQueueBroker`, created by
`queuebroker.aio.wrap`. The broker within this process serves accepts and connects by
name, as for any other face. This class adds the connect to an address.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, cast, overload

from queuebroker import _net
from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.queue_broker import QueueBroker
from queuebroker.aio.waiting import meet
from queuebroker.aio.waker import running_waker
from queuebroker.arguments import remaining_s
from queuebroker.errors import (
    BrokerClosedError,
    RendezvousTimeoutError,
    UnknownBrokerError,
)
from queuebroker.sockets.address import is_address

if TYPE_CHECKING:
    from queuebroker.channel import message_queue
    from queuebroker.sockets import broker as sockets
    from queuebroker.sockets.outgoing_connect import OutgoingConnect

__all__ = ["SocketQueueBroker", "face_of"]


class SocketQueueBroker(QueueBroker):
    """A named meeting point for coroutines of this process and of others."""

    __slots__ = ("_socket_broker",)

    _socket_broker: sockets.SocketQueueBroker

    @property
    def broker(self) -> sockets.SocketQueueBroker:  # type: ignore[override]
        """The plain broker, for threads; of its own kind, with the same methods."""
        return self._socket_broker

    @property
    def address(self) -> str | None:
        """Its address, with the port that was chosen; None if it does not listen."""
        return self._socket_broker.address

    def __repr__(self) -> str:
        return f"<aio {self._socket_broker!r}>"

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
        """Wait for an accept of the broker at an address, or of a name in this process.

        As `queuebroker.sockets.SocketQueueBroker.connect`. A thread of the loop's
        executor looks up a host name: that may take long, and cannot be interrupted.
        """
        if not is_address(name):
            try:
                return await super().connect(
                    *(name, port),
                    timeout=timeout,
                    required=required,
                    strict_half=strict_half,
                )
            except UnknownBrokerError as error:
                raise self._socket_broker._unknown_name(error) from None
        rdv, outgoing_connect, deadline = self._socket_broker._connecting(
            name, port, timeout, strict_half, running_waker().waiter
        )
        if (host := outgoing_connect.host_name_to_resolve()) is not None:
            try:
                where = f"{name!r} port {port}"
                await _look_up(outgoing_connect, host, where, deadline, timeout)
            except OSError as error:
                if not isinstance(error, TimeoutError):
                    error.filename = error.filename or name
                raise
        try:
            end = await meet(rdv, deadline, timeout, outgoing_connect.begin)
        except (BrokerClosedError, UnknownBrokerError) as error:
            if isinstance(error, UnknownBrokerError) and not required:
                return None
            raise outgoing_connect.error_for(error)  # noqa: B904 # it has its own cause
        finally:
            # No lock: a coroutine may be closed within any operation of its thread.
            outgoing_connect.cancel_soon()
        return MessageQueue(cast("message_queue.MessageQueue", end))


async def _look_up(
    outgoing_connect: OutgoingConnect,
    host: str,
    where: str,
    deadline: float | None,
    timeout: float | None,
) -> None:
    """Look up a host name in the executor, for as long as the caller would wait."""
    looking = asyncio.to_thread(_net.resolve_host, host, 0)
    try:
        found = await asyncio.wait_for(looking, remaining_s(deadline))
    except TimeoutError:
        msg = f"cannot connect to {where}: {host!r} was not looked up in {timeout} s"
        raise RendezvousTimeoutError(msg) from None
    outgoing_connect.set_host(found)


def face_of(broker: sockets.SocketQueueBroker) -> SocketQueueBroker:
    """Return the face of a broker."""
    face = SocketQueueBroker.__new__(SocketQueueBroker)
    face._plain = broker._broker
    face._socket_broker = broker
    return face
