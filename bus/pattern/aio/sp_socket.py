"""`SpSocket`: the common part of the sockets' faces for coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

from queuebroker.aio.waiting import wait_for
from queuebroker.arguments import deadline_after, index
from queuebroker.closable import Closable
from queuebroker.errors import BrokerClosedError, ReceiveTimeoutError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from bus.pattern import sp_socket as plain
    from bus.pattern.dialler import Dialler
    from bus.pattern.listener import Listener
    from bus.pattern.node import Waiting
    from bus.pattern.socket_stats import SocketStats

__all__ = ["SpSocket"]

M = TypeVar("M")


class SpSocket(Closable, Generic[M]):
    """The face of a socket for coroutines; see `wrap`.

    The calls that may wait are awaited, and ``async for`` yields messages until the
    socket is closed. Calls that never wait stay plain functions. A call that need not
    wait does not let other tasks run, as with `asyncio.Queue`.

    A call that is cancelled while it waits has no effect: no message is lost, and none
    is sent. Any number of tasks, loops and threads may use one socket.

    ``with`` and ``async with`` close the socket on leaving.
    """

    __slots__ = ("__weakref__", "_plain")

    def __init__(self, socket: plain.SpSocket[M]) -> None:
        self._plain: Final = socket

    def __repr__(self) -> str:
        return f"<aio {self._plain!r}>"

    def __reduce__(self) -> NoReturn:
        msg = f"cannot pickle or copy {type(self).__name__}: it belongs to its process"
        raise TypeError(msg)

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
            self._plain._node.for_peers(index("count", count)), timeout
        )

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait until all messages sent have left; return False if time is up first.

        As `bus.pattern.BusSocket.drain`.
        """
        return await self._wait(self._plain._node.draining(), timeout)

    async def _wait(self, wanted: Waiting[bool], timeout: float | None) -> bool:
        deadline = deadline_after(timeout)
        return await wait_for(self._plain._node, *wanted, deadline) is True

    async def receive(self, timeout: float | None = None) -> M:
        """Return the next message of any peer, one peer after the other (BP-18).

        As `bus.pattern.BusSocket.receive`.
        """
        deadline = deadline_after(timeout)
        try:
            return self._plain.receive(0)
        except ReceiveTimeoutError:
            if timeout == 0:
                raise
        node = self._plain._node
        taken = await wait_for(node, *self._plain._receiving(), deadline)
        return node.received(taken)

    def receive_nowait(self) -> M:
        """Receive without waiting; not awaited."""
        return self._plain.receive(0)

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
