"""`PairSocket`: one end of a pair, for coroutines."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from typing_extensions import Buffer

from bus.pattern import pair_socket as plain
from bus.pattern.aio.sp_socket import SpSocket
from bus.pattern.native import body_of
from queuebroker.aio.waiting import wait_for
from queuebroker.arguments import deadline_after

__all__ = ["PairSocket"]


class PairSocket(SpSocket[plain.PairSocket, bytes]):
    """The face of a `bus.pattern.PairSocket` for coroutines; see `SpSocket`."""

    __slots__ = ()

    _kind = plain.PairSocket

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
        node = self.socket._node
        outbound = node.outbound
        outbound.on_sent(await wait_for(node, *outbound.sending(body), deadline))

    def send_nowait(self, data: Buffer) -> None:
        """Send without waiting; not awaited."""
        self.socket.send_nowait(data)
