"""`AnyBusSocket`: the common part of the sockets of the bus pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bus.pattern.drop_ledger import Drop
from bus.pattern.group import Group
from bus.pattern.socket_config import SocketConfig
from bus.pattern.sp_socket import SpSocket
from bus.pattern.wire import EndpointType
from queuebroker.arguments import check_instance

__all__ = ["AnyBusSocket"]

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
