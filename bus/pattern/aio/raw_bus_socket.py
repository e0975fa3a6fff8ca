"""`RawBusSocket`: a bus socket that states where messages came from, as awaitables."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from typing_extensions import Buffer

from bus.pattern import raw_bus_socket as plain
from bus.pattern.aio.sp_socket import SpSocket
from bus.pattern.group import Group
from bus.pattern.native import body_of

__all__ = ["RawBusSocket"]


class RawBusSocket(SpSocket[plain.RawBusSocket, plain.RawMessage]):
    """The face of a `bus.pattern.RawBusSocket` for coroutines; see `SpSocket`."""

    __slots__ = ()

    _kind = plain.RawBusSocket

    def join_group(self, url: str, *, source: str = "") -> Group:
        """Join a multicast group; as `bus.pattern.BusSocket.join_group`."""
        return self.socket.join_group(url, source=source)

    def send(self, message: plain.RawMessage | Buffer) -> Coroutine[Any, Any, None]:
        """Send a message to all peers but for that of its tag; never waits.

        The call, not the await, copies the bytes and raises errors of arguments.
        Otherwise as `bus.pattern.RawBusSocket.send`.
        """
        if not isinstance(message, plain.RawMessage):
            message = plain.RawMessage(body_of(message))
        return self._send(message)

    async def _send(self, message: plain.RawMessage) -> None:
        self.socket.send(message)
