"""`Datagrams`: UDP sockets for one group of hosts, a multicast group or a subnet."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

from queuebroker._net.sockets import AT_ONCE
from queuebroker._platform import SYSTEM

__all__ = ["Datagrams", "join_group"]

_BYTES_MAX: Final = 65_536
# Of Linux, not in `socket`: the memory of a socket, numbers of 32 bits. The last one is
# the number of dropped datagrams.
_SO_MEMINFO: Final = 55
_MEMINFO_BYTES: Final = 36
_DROPS: Final = slice(32, 36)
_GROUP_V4: Final = struct.Struct("=4s4si")
_GROUP_V6: Final = struct.Struct("=16si")


class Datagrams:
    """A socket that sends to a group of hosts, and one that receives in that group.

    Several processes of a host may receive the same datagrams, each by sockets of its
    own; a sender receives its own datagrams, too.

    Args:
        source: the IP address of this host from which the datagrams come, without the
            name of an interface; for IPv4 it also selects the interface.
        group: the broadcast address of a subnet, or a multicast group.
        port: the UDP port at which they are received.
        hops: the TTL, or the hop limit of IPv6; 1 stays on the link.
        interface: the index of the interface; needed for IPv6.

    Raises:
        OSError: the system refuses a socket; the text names the addresses.
    """

    __slots__ = ("_receiver", "_sender", "_to")

    def __init__(
        self, source: str, group: str, port: int, hops: int, interface: int
    ) -> None:
        to = ipaddress.ip_address(group)
        family = socket.AF_INET if to.version == 4 else socket.AF_INET6
        self._to: Final = (
            (group, port) if to.version == 4 else (group, port, 0, interface)
        )
        self._sender: Final = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._receiver: Final = socket.socket(family, socket.SOCK_DGRAM)
        except BaseException:
            self._sender.close()
            raise
        try:
            self._sender.setblocking(False)
            self._receiver.setblocking(False)
            # Port 0: only the address can make this fail. One of a link means nothing
            # without its interface.
            of_link = (0, interface) if to.version == 6 else ()
            self._sender.bind((source, 0, *of_link))
            self._receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Bound to the group, so that datagrams to other addresses do not arrive.
            # Windows binds a socket only to an address of its own.
            group_or_any = ("", *self._to[1:]) if SYSTEM == "windows" else self._to
            self._receiver.bind(group_or_any)
            if not to.is_multicast:
                self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                self._sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
            elif to.version == 4:
                self._join_v4(to.packed, socket.inet_aton(source), hops, interface)
            else:
                self._join_v6(to.packed, hops, interface)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                fact = f"{source} to {group}, UDP port {port}: {error.strerror}"
                raise OSError(error.errno, fact) from None
            raise

    def _join_v4(self, group: bytes, source: bytes, hops: int, interface: int) -> None:
        ip, sender = socket.IPPROTO_IP, self._sender
        one = _GROUP_V4.pack(group, source, interface)
        self._receiver.setsockopt(ip, socket.IP_ADD_MEMBERSHIP, one)
        # Windows reads the address of the interface there, and nothing else.
        by_address = source if SYSTEM == "windows" else one
        sender.setsockopt(ip, socket.IP_MULTICAST_IF, by_address)
        sender.setsockopt(ip, socket.IP_MULTICAST_TTL, hops)
        sender.setsockopt(ip, socket.IP_MULTICAST_LOOP, 1)

    def _join_v6(self, group: bytes, hops: int, interface: int) -> None:
        ip, sender = socket.IPPROTO_IPV6, self._sender
        one = _GROUP_V6.pack(group, interface)
        self._receiver.setsockopt(ip, socket.IPV6_JOIN_GROUP, one)
        sender.setsockopt(ip, socket.IPV6_MULTICAST_IF, interface)
        sender.setsockopt(ip, socket.IPV6_MULTICAST_HOPS, hops)
        sender.setsockopt(ip, socket.IPV6_MULTICAST_LOOP, 1)

    def fileno(self) -> int:
        """Return the descriptor that is readable when a datagram has arrived."""
        return self._receiver.fileno()

    def check_route(self) -> None:
        """Check that the system can send to the group; nothing is sent.

        Raises:
            OSError: it cannot, for example without a route.
        """
        self._sender.connect(self._to)

    def send(self, data: bytes) -> None:
        """Send a datagram; it may be lost.

        Raises:
            OSError: the system cannot send it now, for example without a route.
        """
        with suppress(BlockingIOError):  # a full buffer: it is lost, as on the way
            self._sender.sendto(data, AT_ONCE, self._to)

    def receive(self) -> tuple[bytes, str] | None:
        """Return a datagram and the IP address it came from; None if there is none.

        Raises:
            OSError: the system has lost the socket.
        """
        try:
            data, source = self._receiver.recvfrom(_BYTES_MAX, AT_ONCE)
        except BlockingIOError:
            return None
        return data, source[0]

    def dropped(self) -> int | None:
        """Return how many datagrams the system has dropped, modulo 2**32.

        It had no room for them in the receive buffer. Datagrams that did not reach this
        host are not among them, those that this process sent are. None if the sockets
        are closed, or if the system does not count them.
        """
        if SYSTEM != "linux":
            return None
        try:
            info = self._receiver.getsockopt(
                socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO_BYTES
            )
        except OSError:
            return None
        return int.from_bytes(info[_DROPS], sys.byteorder) if info[_DROPS] else None

    def close(self) -> None:
        """Close both sockets."""
        self._sender.close()
        self._receiver.close()


def join_group(group: str, port: int, source: str = "", *, hops: int = 1) -> Datagrams:
    """Return the sockets of one multicast group.

    group: its IP address. An IPv6 one may name an interface, ``ff02::1%eth0``; one that
        is local to a link needs it, here or in the source.
    source: the IP address of this host that selects the interface; "" for the one with
      the route to the group.

    Raises:
        OSError: the system refuses the group, or has no route to it.
    """
    host, _, interface = group.partition("%")
    source, _, of_source = source.partition("%")
    interface = interface or of_source
    try:
        index = socket.if_nametoindex(interface) if interface else 0
    except OSError:
        text = f"no interface is called {interface!r}"
        raise OSError(errno.ENODEV, text) from None
    if not source or ":" in host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        to = (host, port, 0, index) if ":" in host else (host, port)
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(to)  # sends nothing
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                text = f"the group needs an interface: {host}%NAME"
                raise OSError(error.errno, text) from None
            found = probe.getsockname()
        source = source or found[0].partition("%")[0]
        index = index or (found[3] if len(found) > 3 else 0)
    return Datagrams(source, host, port, hops, index)
