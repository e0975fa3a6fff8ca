"""`SocketUrl`: the addresses of a bus socket, in the forms of nanomsg and NNG."""

from __future__ import annotations

import enum
import ipaddress
import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

import attrs

from queuebroker import _net
from queuebroker.arguments import wrong_type

__all__ = ["SocketUrl", "Transport"]

_PLACE: Final = re.compile(
    r"(?:\[(?P<six>[^\[\]]*:[^\[\]]*)\]|(?P<host>[^:;/\[\]\s]*)):(?P<port>[0-9]{1,5})"
)


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
            host = f"[{self.host}]" if ":" in self.host else self.host
            return f"{scheme}://{host or '*'}:{self.port}"
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

    @classmethod
    def parse(cls, text: object) -> SocketUrl:
        """Parse an address.

        Raises:
            TypeError: ``text`` is no str.
            ValueError: it is no address, or is too long for the platform.
        """
        if not isinstance(text, str):
            raise wrong_type("address of a socket", "a str", text)
        scheme, found, rest = text.partition("://")
        if not found or scheme not in _ALIASES:
            schemes = ", ".join(f"{each}://" for each in _ALIASES)
            msg = f"address of a socket must begin with one of {schemes}, got {text!r}"
            raise ValueError(msg)
        transport = _ALIASES[scheme]
        if transport is Transport.INPROC:
            if not rest:
                raise ValueError(f"inproc address must have a name, got {text!r}")
            return cls(transport, rest, scheme=scheme)
        if transport.is_local:
            return cls(transport, _file_name(text, transport, rest), scheme=scheme)
        return _placed(text, scheme, transport, rest)


def _file_name(text: str, transport: Transport, rest: str) -> str:
    """Return the path, or the abstract name with its percent codes decoded.

    Neither NNG nor nanomsg decodes a path.
    """
    try:
        # As the system encodes the names of files, which may have any bytes.
        name = os.fsencode(rest)
    except UnicodeEncodeError:
        msg = f"{transport.value} address must be encodable, got {text!r}"
        raise ValueError(msg) from None
    if transport is Transport.ABSTRACT:
        name = unquote_to_bytes(name)
    if not name or b"\0" in name:
        wanted = "a path" if transport is Transport.IPC else "a name"
        msg = f"{transport.value} address must have {wanted} without NUL, got {text!r}"
        raise ValueError(msg)
    # A longer one makes libnanomsg abort its process; the kernel refuses it anyway.
    if len(name) > _net.PATH_BYTES_MAX:
        msg = (
            f"{transport.value} address must have at most {_net.PATH_BYTES_MAX} bytes, "
            f"got {len(name)}: {text!r}"
        )
        raise ValueError(msg)
    return os.fsdecode(name)


def _placed(text: str, scheme: str, transport: Transport, rest: str) -> SocketUrl:
    match = _PLACE.fullmatch(rest)
    if match is None or int(match["port"]) > 65_535:
        msg = (
            f"{scheme} address must have the form {scheme}://host:port with a port of "
            f"0 to 65535 and IPv6 in brackets, got {text!r}"
        )
        raise ValueError(msg)
    host, port = match["six"] or match["host"] or "", int(match["port"])
    host = "" if host == "*" else host
    if ":" in host and not _net.is_numeric(host):
        raise ValueError(
            f"{scheme} address must have an IPv6 in brackets, got {text!r}"
        )
    version = _IP_VERSIONS.get(scheme)
    if version and _net.is_numeric(host) and _version(host) != version:
        raise ValueError(f"{scheme} address must have an IPv{version}, got {text!r}")
    if transport is Transport.MULTICAST:
        _check_group(text, host, port)
    return SocketUrl(transport, host=host, port=port, scheme=scheme)


def _version(host: str) -> int:
    return ipaddress.ip_address(host.partition("%")[0]).version


def _check_group(text: str, host: str, port: int) -> None:
    if not (_net.is_numeric(host) and ipaddress.ip_address(host).is_multicast and port):
        msg = f"udp-mcast address must have a multicast group and a port, got {text!r}"
        raise ValueError(msg)
