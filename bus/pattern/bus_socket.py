"""`BusSocket`: a node of the bus pattern, which sends to all other nodes."""

from __future__ import annotations

from typing_extensions import Buffer

from bus.pattern.any_bus_socket import AnyBusSocket
from bus.pattern.native import BODY_BYTES_MAX, body_of
from bus.pattern.socket_state import Waiting

__all__ = ["BusSocket"]


class BusSocket(AnyBusSocket[bytes]):
    """A node of the bus pattern: each message goes to every peer, never to its sender.

    It hands on nothing that it receives (BP-2): every pair of nodes needs a connection,
    or a `device` between them. The peers may be sockets of nanomsg or NNG. Delivery is
    not reliable (BP-4): sending never waits, and each dropped message is counted.

    Args:
        config: the limits; the default ones if None.
        on_drop: called after messages were dropped, with a `Drop`. In any thread, which
          it must not block.
        native: False to be a plain socket also for peers of this package. Then nothing
          recognises duplicates, and no peer sends its account.

    Raises:
        TypeError: a wrong argument.
    """

    __slots__ = ()

    def send(self, data: Buffer) -> None:
        """Send a message to all peers that are connected now; never waits.

        Raises:
            TypeError: ``data`` is not bytes-like.
            MessageTooLargeError: it has 4 GiB or more.
            BrokerClosedError: the socket is closed.
        """
        if type(data) is not bytes or len(data) > BODY_BYTES_MAX:
            data = body_of(data)
        self._node.send(data)

    def receive(self, timeout: float | None = None) -> bytes:
        """Return the next message of any peer, one peer after the other (BP-18).

        timeout: in seconds; None for no limit, 0 to return at once.

        Raises:
            ReceiveTimeoutError: none arrived in time.
            BrokerClosedError: the socket is closed.
        """
        return self._take(timeout)

    def _receiving(self) -> Waiting[bytes]:
        return self._node.inbound.receiving()
