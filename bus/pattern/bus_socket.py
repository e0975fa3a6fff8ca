"""`BusSocket`: a node of the bus pattern, which sends to all other nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from typing_extensions import Buffer

from bus.pattern.drop_ledger import Drop
from bus.pattern.group import Group
from bus.pattern.native import BODY_BYTES_MAX, body_of
from bus.pattern.socket_config import SocketConfig
from bus.pattern.socket_state import Waiting
from bus.pattern.sp_socket import SpSocket
from bus.pattern.wire import EndpointType
from queuebroker.arguments import check_instance

__all__ = ["AnyBusSocket", "BusSocket"]

M = TypeVar("M")


class AnyBusSocket(SpSocket[M]):
    """A node of the bus pattern, cooked or raw."""

    __slots__ = ()

    def __init__(
        self,
        config: SocketConfig | None = None,
        *,
        on_drop: Callable[[Drop], object] | None = None,
        native: bool = True,
    ) -> None:
        check_instance("native", native, bool)
        super().__init__(
            config,
            on_drop,
            EndpointType.BUS,
            EndpointType.NATIVE_BUS if native else None,
        )

    def join_group(self, url: str, *, source: str = "") -> Group:
        """Join a multicast group, ``udp-mcast://group:port``, until closed.

        The group is one more peer: each message goes to it as one datagram, if it is
        short enough. Only sockets of this package understand the datagrams.

        source: the IP address of this host that selects the interface; "" for the one
          with the route to the group.

        Raises:
            TypeError, ValueError: a wrong address, or a ``source`` that is no str.
            OSError: the system refuses the group.
            BrokerClosedError: this socket is closed.
        """
        return Group(self._node, url, source)


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
            queuebroker.MessageTooLargeError: it has 4 GiB or more.
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
