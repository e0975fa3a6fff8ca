"""`SpSocket`: the common part of the sockets' faces for coroutines."""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from bus.pattern import sp_socket as plain
from bus.pattern.dialler import Dialler
from bus.pattern.listener import Listener
from bus.pattern.socket_state import Waiting
from bus.pattern.socket_stats import SocketStats
from queuebroker.aio.waiting import wait_for
from queuebroker.arguments import check_instance, deadline_after, positive
from queuebroker.closable import Closable
from queuebroker.errors import BrokerClosedError, ReceiveTimeoutError

__all__ = ["SpSocket"]

S = TypeVar("S", bound="plain.SpSocket[Any]")
M = TypeVar("M")


class SpSocket(Closable, Generic[S, M]):
    """The face of a socket for coroutines; see `wrap`.

    The calls that may wait are awaited, and ``async for`` yields messages until the
    socket is closed. Calls that never wait stay plain functions. A call that need not
    wait does not let other tasks run, as with `asyncio.Queue`.

    A call that is cancelled while it waits has no effect: no message is lost, and none
    is sent. Any number of tasks, loops and threads may use one socket.

    ``with`` and ``async with`` close the socket on leaving.

    Attributes:
        socket: the plain socket, for threads.

    Raises:
        TypeError: ``socket`` is of another type.
    """

    __slots__ = ("__weakref__", "socket")

    _kind: ClassVar[type[plain.SpSocket[Any]]]

    def __init__(self, socket: S) -> None:
        check_instance("socket", socket, self._kind)
        self.socket: Final[S] = socket

    def __repr__(self) -> str:
        return f"<aio {self.socket!r}>"

    def listen(self, url: str, *, mode: int = 0o600) -> Listener:
        """Accept peers at an address; as `bus.pattern.BusSocket.listen`."""
        return self.socket.listen(url, mode=mode)

    def dial(self, url: str) -> Dialler:
        """Connect to an address; does not wait, as `bus.pattern.BusSocket.dial`."""
        return self.socket.dial(url)

    async def wait_for_peers(
        self, count: int = 1, timeout: float | None = None
    ) -> bool:
        """Wait until ``count`` peers are connected; return False if time is up first.

        As `bus.pattern.BusSocket.wait_for_peers`.
        """
        return await self._wait(
            self.socket._node.outbound.for_peers(positive("count", count)), timeout
        )

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait until all messages sent have left; return False if time is up first.

        As `bus.pattern.BusSocket.drain`.
        """
        return await self._wait(self.socket._node.outbound.draining(), timeout)

    async def _wait(self, wanted: Waiting[bool], timeout: float | None) -> bool:
        deadline = deadline_after(timeout)
        return await wait_for(self.socket._node, *wanted, deadline) is True

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
        node = self.socket._node
        taken = await wait_for(node, *self.socket._receiving(), deadline)
        message: M = node.inbound.on_received(taken)
        return message

    def receive_nowait(self) -> M:
        """Receive without waiting; not awaited."""
        message: M = self.socket.receive(0)
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
        return self.socket.stats

    @property
    def closed(self) -> bool:
        """True once the socket is closed."""
        return self.socket.closed

    def close(self) -> None:
        """Close all connections; each call that waits raises `BrokerClosedError`.

        Does not wait.
        """
        self.socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
