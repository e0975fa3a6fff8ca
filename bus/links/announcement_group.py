"""`AnnouncementGroup`: the group of hosts that receives a master's announcements."""

from __future__ import annotations

import errno
import ipaddress
from typing import TYPE_CHECKING, Final

import attrs

from bus.network import DiscoveryScope
from queuebroker import _net

if TYPE_CHECKING:
    from bus.config import BusConfig

__all__ = ["AnnouncementGroup"]

# A multicast group of link-local scope; the project has chosen its other bits.
_LINK_GROUP: Final = "ff02::49:534d"
# Hops of an announcement on a LAN: no router forwards it (BUS-DISC-2).
_LAN_HOPS: Final = 1
# The prefix length of the IPv4 loopback network, and the index of its interface.
_LOOPBACK: Final = (8, 1)


@attrs.frozen
class AnnouncementGroup:
    """A subnet or a multicast group, reached through one interface of this host.

    source: the address of this host in it.
    to: the broadcast address of the subnet, or the multicast group.
    port: the UDP port.
    hops: the TTL, or the hop limit of IPv6; with 1 no router forwards a datagram.
    interface: the index of the interface.
    """

    source: str
    to: str
    port: int
    hops: int
    interface: int

    @classmethod
    def of(
        cls, host: str, port: int, scope: DiscoveryScope, config: BusConfig
    ) -> AnnouncementGroup:
        """Return the group for the address at which a master listens (BUS-DISC-2).

        Raises:
            OSError: the host has no such address, its subnet has no broadcast address,
              or the multicast group is of the other version of IP.
            ModuleNotFoundError: the package `ifaddr` is not installed.
        """
        prefix, interface = _interface(host)
        address = ipaddress.ip_interface(f"{host}/{prefix}")
        if scope is DiscoveryScope.WAN:
            group, hops = config.multicast_group, config.ttl_wan
            if ipaddress.ip_address(group).version != address.version:
                fact = f"multicast_group {group} is not of the IP version of {host}"
                raise OSError(errno.EAFNOSUPPORT, f"{fact}: give another group")
        elif address.version == 4:
            group, hops = str(address.network.broadcast_address), _LAN_HOPS
            if group == host:
                fact = f"the subnet {address.network} has no broadcast address"
                raise OSError(errno.EADDRNOTAVAIL, f"{fact}: use discovery 'wan'")
        else:
            group, hops = _LINK_GROUP, _LAN_HOPS
        return cls(host, group, port, hops, interface)

    def open(self) -> _net.Datagrams:
        """Open the sockets of the group.

        Raises:
            OSError: the system refuses a socket.
        """
        return _net.Datagrams(
            self.source, self.to, self.port, self.hops, self.interface
        )


def _interface(host: str) -> tuple[int, int]:
    """Return the prefix length and the interface index of an address.

    Raises:
        OSError: no interface of this host has the address.
        ModuleNotFoundError: the package `ifaddr` is not installed.
    """
    try:
        import ifaddr  # noqa: PLC0415 # only discovery needs it
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "discovery needs the package ifaddr: pip install ifaddr"
        ) from None
    wanted = ipaddress.ip_address(host)
    for adapter in ifaddr.get_adapters():
        for each in adapter.ips:
            text = each.ip if isinstance(each.ip, str) else each.ip[0]
            if ipaddress.ip_address(text) == wanted:
                return each.network_prefix, adapter.index or 0
    if wanted.is_loopback and wanted.version == 4:
        return _LOOPBACK  # all its addresses are usable, but `ifaddr` lists only one
    raise OSError(errno.EADDRNOTAVAIL, f"no interface of this host has address {host}")
