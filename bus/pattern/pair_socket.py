"""`PairSocket`: one end of a pair, as PAIR of nanomsg and NNG."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import Buffer

from bus.pattern.drop_ledger import Drop
from bus.pattern.native import body_of
from bus.pattern.socket_config import SocketConfig
from bus.pattern.socket_state import Waiting
from bus.pattern.sp_socket import SpSocket
from bus.pattern.wire import EndpointType
from queuebroker.arguments import deadline_after, index

__all__ = ["PairSocket"]

_VERSIONS = {0: EndpointType.PAIR0, 1: EndpointType.PAIR1}


class PairSocket(SpSocket[bytes]):
    """A socket with one peer at a time; further peers are rejected.

    Unlike a bus socket, it waits for room when it sends, and reads nothing more
    while its receive queue is full. It speaks the wire of nanomsg and NNG alone:
    between sockets of this package, a queue of `queuebroker` is faster.

    Args:
        version: of the protocol: 0 (nanomsg and NNG) or 1 (NNG).
        config, on_drop: as for `BusSocket`.

    Raises:
        TypeError, ValueError: a wrong argument.
    """

    __slots__ = ()

    def __init__(
        self,
        config: SocketConfig | None = None,
        *,
        version: int = 0,
        on_drop: Callable[[Drop], object] | None = None,
    ) -> None:
        if index("version", version) not in _VERSIONS:
            raise ValueError(f"version of a pair must be 0 or 1, got {version!r}")
        endpoint = _VERSIONS[version]
        super().__init__(config, on_drop, endpoint, overflow="block", pipes_max=1)

    def send(self, data: Buffer, timeout: float | None = None) -> None:
        """Send a message, once there is a peer with room.

        timeout: in seconds; None for no limit, 0 to return at once.

        Raises:
            TypeError: ``data`` is not bytes-like.
            queuebroker.MessageTooLargeError: it has 4 GiB or more.
            SendTimeoutError: there was no peer, or no room, in time.
            BrokerClosedError: the socket is closed.
        """
        self._node.send_waiting(body_of(data), deadline_after(timeout))

    def send_nowait(self, data: Buffer) -> None:
        """Send with ``timeout=0``."""
        self.send(data, 0)

    def receive(self, timeout: float | None = None) -> bytes:
        """Return the next message.

        timeout: in seconds; None for no limit, 0 to return at once.

        Raises:
            ReceiveTimeoutError: none arrived in time.
            BrokerClosedError: the socket is closed.
        """
        return self._take(timeout)

    def _receiving(self) -> Waiting[bytes]:
        return self._node.inbound.receiving()
