"""`BusSocket`: a node of the bus pattern, for coroutines."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from typing_extensions import Buffer

from bus.pattern import bus_socket as plain
from bus.pattern.aio.sp_socket import SpSocket
from bus.pattern.group import Group
from bus.pattern.native import body_of

__all__ = ["BusSocket"]


class BusSocket(SpSocket[plain.BusSocket, bytes]):
    """The face of a `bus.pattern.BusSocket` for coroutines; see `SpSocket`."""

    __slots__ = ()

    _kind = plain.BusSocket

    def join_group(self, url: str, *, source: str = "") -> Group:
        """Join a multicast group; as `bus.pattern.BusSocket.join_group`."""
        return self.socket.join_group(url, source=source)

    def send(self, data: Buffer) -> Coroutine[Any, Any, None]:
        """Send a message to all peers that are connected at the await; never waits.

        The call, not the await, copies the bytes and raises errors of arguments.
        Otherwise as `bus.pattern.BusSocket.send`.
        """
        return self._send(body_of(data))

    async def _send(self, body: bytes) -> None:
        self.socket.send(body)
