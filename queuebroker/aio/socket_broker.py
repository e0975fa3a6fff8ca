"""`SocketQueueBroker`: a broker that other processes can reach, for coroutines.

The face of a `queuebroker.sockets.SocketQueueBroker`, created by
`queuebroker.aio.wrap`. It accepts, and connects by name, as any other face. This class
adds the connect to an address.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

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
from queuebroker.sockets import broker as sockets
from queuebroker.sockets.address import is_address

if TYPE_CHECKING:
    from queuebroker.channel import message_queue

__all__ = ["SocketQueueBroker"]


class SocketQueueBroker(QueueBroker):
    """A named meeting point for coroutines of this process and of others.

    `connect` also takes an address, as `queuebroker.sockets.SocketQueueBroker.connect`.
    A thread of the loop's executor looks up a host name: that may take long, and cannot
    be interrupted.
    """

    __slots__ = ()

    _plain_type = sockets.SocketQueueBroker
    _plain: sockets.SocketQueueBroker

    @property
    def broker(self) -> sockets.SocketQueueBroker:
        """The plain broker, for threads."""
        return self._plain

    @property
    def address(self) -> str | None:
        """Its address, with the port that was chosen; None if it does not listen."""
        return self._plain.address

    async def _connect(
        self, name: str, port: int, timeout: float | None, strict_half: bool | None
    ) -> MessageQueue:
        if not is_address(name):
            try:
                return await super()._connect(name, port, timeout, strict_half)
            except UnknownBrokerError as error:
                raise self._plain._unknown_name(error) from None
        rdv, outgoing_connect, deadline = self._plain._connecting(
            name, port, timeout, strict_half, running_waker().waiter
        )
        if _net.has_host_name(place := outgoing_connect.place):
            try:
                where = f"{name!r} port {port}"
                found = await _look_up(place, where, deadline, timeout)
                outgoing_connect.place = found
            except OSError as error:
                if not isinstance(error, TimeoutError):
                    error.filename = error.filename or name
                raise
        try:
            end = await meet(rdv, deadline, timeout, outgoing_connect.begin)
        except (BrokerClosedError, UnknownBrokerError) as error:
            raise outgoing_connect.error_for(error)  # noqa: B904 # it has its own cause
        finally:
            # No lock: a coroutine may be closed within any operation of its thread.
            outgoing_connect.cancel_soon()
        return MessageQueue(cast("message_queue.MessageQueue", end))


async def _look_up(
    place: tuple[str, int], where: str, deadline: float | None, timeout: float | None
) -> _net.Place:
    """Look up a host name in the executor, for as long as the caller would wait."""
    looking = asyncio.to_thread(_net.resolve, place)
    try:
        return await asyncio.wait_for(looking, remaining_s(deadline))
    except TimeoutError:
        msg = (
            f"cannot connect to {where}: {place[0]!r} was not looked up in {timeout} s"
        )
        raise RendezvousTimeoutError(msg) from None
