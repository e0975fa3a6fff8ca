"""`SocketUrl`: the addresses of a bus socket, in the forms of nanomsg and NNG."""

from __future__ import annotations

import enum
import ipaddress
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes

import attrs

from queuebroker import _net
from queuebroker.sockets.address import read_name, read_place, split_scheme

__all__ = ["SocketUrl", "Transport"]


class Transport(enum.Enum):
    """How the messages of a connection travel."""

    INPROC = "inproc"
    IPC = "ipc"
    ABSTRACT = "abstract"
    TCP = "tcp"
    MULTICAST = "udp-mcast"

    @property
    def is_local(self) -> bool:
        """True for a UNIX socket, whose frames begin with a type."""
        return self in {Transport.IPC, Transport.ABSTRACT}


# Other spellings; tcp4 and tcp6 also select the family of the address.
_ALIASES: Final = {
    **{each.value: each for each in Transport},
    "unix": Transport.IPC,
    "tcp4": Transport.TCP,
    "tcp6": Transport.TCP,
}
_IP_VERSIONS: Final = {"tcp4": 4, "tcp6": 6}


@attrs.frozen(slots=True)
class SocketUrl:
    """One address; `parse` accepts the ``str`` of it.

    name: the name of an ``inproc`` address, the path of an ``ipc`` address, or the name
      of an ``abstract`` one, as the system decodes file names.
    host: of ``tcp`` and ``udp-mcast``; "" stands for all addresses of this machine,
      of IPv4 and of IPv6 unless the scheme names one.
    port: 0 lets a listener choose a free one.
    scheme: as written, such as "tcp6".
    """

    transport: Transport
    name: str = ""
    host: str = ""
    port: int = 0
    scheme: str = ""

    def __str__(self) -> str:
        scheme = self.scheme or self.transport.value
        if self.transport in {Transport.TCP, Transport.MULTICAST}:
            return f"{scheme}://{_net.place_text(self.host or '*', self.port)}"
        if self.transport is not Transport.ABSTRACT:
            return f"{scheme}://{self.name}"
        return f"{scheme}://{quote_from_bytes(os.fsencode(self.name), safe='/')}"

    @property
    def ip_version(self) -> int:
        """The version of IP that a ``tcp4`` or ``tcp6`` address demands; 0 for any."""
        return _IP_VERSIONS.get(self.scheme, 0)

    @property
    def path(self) -> Path:
        """The path of an ``ipc`` address."""
        return Path(self.name)

    @property
    def place(self) -> _net.Place:
        """The address for `_net.dial`; not of ``inproc``."""
        if self.transport is Transport.TCP:
            return self.host, self.port
        return f"\0{self.name}" if self.transport is Transport.ABSTRACT else self.name

    @classmethod
    def parse(cls, text: object) -> SocketUrl:
        """Parse an address.

        Raises:
            TypeError: ``text`` is no str.
            ValueError: it is no address, or is too long for the platform.
        """
        scheme, rest = split_scheme("address of a socket", text, _ALIASES)
        transport = _ALIASES[scheme]
        if transport is Transport.INPROC:
            if not rest:
                raise ValueError(f"inproc address must have a name, got {text!r}")
            return cls(transport, rest, scheme=scheme)
        if transport.is_local:
            # Neither NNG nor nanomsg decodes a path.
            is_quoted = transport is Transport.ABSTRACT
            name = read_name(scheme, rest, is_quoted=is_quoted)
            return cls(transport, name, scheme=scheme)
        host, port = read_place(scheme, rest)
        host = "" if host == "*" else host
        version = _IP_VERSIONS.get(scheme)
        if version and _net.is_numeric(host) and _version(host) != version:
            msg = f"{scheme} address must have an IPv{version}, got {text!r}"
            raise ValueError(msg)
        if transport is Transport.MULTICAST and not (port and _is_group(host)):
            msg = (
                f"{scheme} address must have a multicast group and a port, got {text!r}"
            )
            raise ValueError(msg)
        return cls(transport, host=host, port=port, scheme=scheme)


def _version(host: str) -> int:
    return ipaddress.ip_address(host.partition("%")[0]).version


def _is_group(host: str) -> bool:
    return _net.is_numeric(host) and ipaddress.ip_address(host).is_multicast
