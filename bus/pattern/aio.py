"""The sockets of `bus.pattern` from asyncio: the same names, with ``await``.

::

    async with aio.wrap(socket) as bus:
        await bus.send(b"here I am")
        async for message in bus:
            ...

A face adds no rules, as those of `queuebroker.aio`: a coroutine sleeps instead of a
thread. So a socket and its face may be used at once, by tasks, loops and threads. No
socket needs a descriptor or a thread for this: a loop has one descriptor for all that
its coroutines wait for.

Not imported by ``import bus.pattern``, so that only programs with asyncio load it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Generic, Self, TypeVar, overload

from typing_extensions import Buffer

from bus.pattern import bus_socket, pair_socket, raw_bus_socket, sp_socket
from bus.pattern.dialler import Dialler
from bus.pattern.group import Group
from bus.pattern.listener import Listener
from bus.pattern.native import body_of
from bus.pattern.node import SocketStats
from bus.pattern.raw_bus_socket import RawMessage
from bus.pattern.socket_state import Waiting
from queuebroker.aio.face import Face, face_of
from queuebroker.aio.waiting import wait_for
from queuebroker.arguments import check_instance, deadline_after, positive
from queuebroker.errors import BrokerClosedError, ReceiveTimeoutError

__all__ = ["BusSocket", "PairSocket", "RawBusSocket", "wrap"]

S = TypeVar("S", bound="sp_socket.SpSocket[Any]")
M = TypeVar("M")


class SpSocket(Face[S], Generic[S, M]):
    """The face of a socket for coroutines; see `wrap`.

    The calls that may wait are awaited, and ``async for`` yields messages until the
    socket is closed. Calls that never wait stay plain functions. A call that need not
    wait does not let other tasks run, as with `asyncio.Queue`.

    A call that is cancelled while it waits has no effect: no message is lost, and none
    is sent. Any number of tasks, loops and threads may use one socket.

    ``with`` and ``async with`` close the socket on leaving.

    Raises:
        TypeError: ``socket`` is of another type.
    """

    __slots__ = ()

    def __init__(self, socket: S) -> None:
        check_instance("socket", socket, self._plain_type)
        super().__init__(socket)

    @property
    def socket(self) -> S:
        """The plain socket, for threads."""
        return self._plain

    def listen(self, url: str, *, mode: int = 0o600) -> Listener:
        """Accept peers at an address; as `bus.pattern.BusSocket.listen`."""
        return self._plain.listen(url, mode=mode)

    def dial(self, url: str) -> Dialler:
        """Connect to an address; does not wait, as `bus.pattern.BusSocket.dial`."""
        return self._plain.dial(url)

    async def wait_for_peers(
        self, count: int = 1, timeout: float | None = None
    ) -> bool:
        """Wait until ``count`` peers are connected; return False if time is up first.

        As `bus.pattern.BusSocket.wait_for_peers`.
        """
        return await self._wait(
            self._plain._node.outbound.for_peers(positive("count", count)), timeout
        )

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait until all messages sent have left; return False if time is up first.

        As `bus.pattern.BusSocket.drain`.
        """
        return await self._wait(self._plain._node.outbound.draining(), timeout)

    async def _wait(self, wanted: Waiting[bool], timeout: float | None) -> bool:
        deadline = deadline_after(timeout)
        return await wait_for(self._plain._node, *wanted, deadline) is True

    async def receive(self, timeout: float | None = None) -> M:
        """Return the next message of any peer, one peer after the other (BP-18).

        As `bus.pattern.BusSocket.receive`.
        """
        deadline = deadline_after(timeout)
        try:
            return self.receive_nowait()
        except ReceiveTimeoutError:
            if timeout == 0:
                raise
        node = self._plain._node
        taken = await wait_for(node, *self._plain._receiving(), deadline)
        message: M = node.inbound.on_received(taken)
        return message

    def receive_nowait(self) -> M:
        """Receive without waiting; not awaited."""
        message: M = self._plain.receive(0)
        return message

    def __aiter__(self) -> Self:
        """Yield messages until the socket is closed.

        A cancelled step loses nothing, and the iteration may go on.
        """
        return self

    async def __anext__(self) -> M:
        try:
            return await self.receive()
        except BrokerClosedError:
            raise StopAsyncIteration from None

    @property
    def stats(self) -> SocketStats:
        """The account of the socket: messages sent, delivered, and dropped."""
        return self._plain.stats

    @property
    def closed(self) -> bool:
        """True once the socket is closed."""
        return self._plain.closed

    def close(self) -> None:
        """Close all connections; each call that waits raises `BrokerClosedError`.

        Does not wait.
        """
        self._plain._node.close()


class BusSocket(SpSocket[bus_socket.BusSocket, bytes]):
    """The face of a `bus.pattern.BusSocket` for coroutines; see `SpSocket`."""

    __slots__ = ()

    _plain_type = bus_socket.BusSocket

    def join_group(self, url: str, *, source: str = "") -> Group:
        """Join a multicast group; as `bus.pattern.BusSocket.join_group`."""
        return self._plain.join_group(url, source=source)

    def send(self, data: Buffer) -> Coroutine[Any, Any, None]:
        """Send a message to all peers that are connected at the await; never waits.

        The call, not the await, copies the bytes and raises errors of arguments.
        Otherwise as `bus.pattern.BusSocket.send`.
        """
        return self._send(body_of(data))

    async def _send(self, body: bytes) -> None:
        self._plain.send(body)


class RawBusSocket(SpSocket[raw_bus_socket.RawBusSocket, RawMessage]):
    """The face of a `bus.pattern.RawBusSocket` for coroutines; see `SpSocket`."""

    __slots__ = ()

    _plain_type = raw_bus_socket.RawBusSocket

    def join_group(self, url: str, *, source: str = "") -> Group:
        """Join a multicast group; as `bus.pattern.BusSocket.join_group`."""
        return self._plain.join_group(url, source=source)

    def send(self, message: RawMessage | Buffer) -> Coroutine[Any, Any, None]:
        """Send a message to all peers but for that of its tag; never waits.

        The call, not the await, copies the bytes and raises errors of arguments.
        Otherwise as `bus.pattern.RawBusSocket.send`.
        """
        if not isinstance(message, RawMessage):
            message = RawMessage(body_of(message))
        return self._send(message)

    async def _send(self, message: RawMessage) -> None:
        self._plain.send(message)


class PairSocket(SpSocket[pair_socket.PairSocket, bytes]):
    """The face of a `bus.pattern.PairSocket` for coroutines; see `SpSocket`."""

    __slots__ = ()

    _plain_type = pair_socket.PairSocket

    def send(
        self, data: Buffer, timeout: float | None = None
    ) -> Coroutine[Any, Any, None]:
        """Send a message, once there is a peer with room.

        The call, not the await, copies the bytes and raises errors of arguments; the
        time limit also starts with the call. Otherwise as
        `bus.pattern.PairSocket.send`.
        """
        return self._send(body_of(data), deadline_after(timeout))

    async def _send(self, body: bytes, deadline: float | None) -> None:
        node = self._plain._node
        outbound = node.outbound
        outbound.on_sent(await wait_for(node, *outbound.sending(body), deadline))

    def send_nowait(self, data: Buffer) -> None:
        """Send without waiting; not awaited."""
        self._plain.send_nowait(data)


@overload
def wrap(socket: bus_socket.BusSocket) -> BusSocket: ...
@overload
def wrap(socket: raw_bus_socket.RawBusSocket) -> RawBusSocket: ...
@overload
def wrap(socket: pair_socket.PairSocket) -> PairSocket: ...
def wrap(socket: object) -> BusSocket | RawBusSocket | PairSocket:
    """Return the face of a socket; both may be used at once.

    Raises:
        TypeError: it is no socket of `bus.pattern`.
    """
    wanted = "a BusSocket, a RawBusSocket or a PairSocket"
    face: BusSocket | RawBusSocket | PairSocket
    face = face_of(socket, wanted, BusSocket, RawBusSocket, PairSocket)
    return face
