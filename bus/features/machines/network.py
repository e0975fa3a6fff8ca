"""`Network`: how the processes of one machine reach other machines (BUS-ENT-10)."""

from __future__ import annotations

import enum
import ipaddress
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from queuebroker.arguments import check_port
from queuebroker.sockets.address import Address, Scheme

__all__ = ["DISCOVERY_PORT", "PORT", "DiscoveryScope", "Network"]

# The port of masters, where an address names none.
PORT: Final = 7400
# The UDP port of announcements.
DISCOVERY_PORT: Final = 7399
_PORT_MAX: Final = 65535


class DiscoveryScope(enum.Enum):
    """How far the masters of a bus look for each other (BUS-DISC-2).

    OFF: not at all: addresses are static.
    HOST: several machines on this host, by the loopback interface.
    LAN: the subnet of the address at which the master listens, by broadcast; with IPv6,
      its link, by a multicast group of that scope.
    WAN: all networks that the multicast group of the configuration reaches.
    """

    OFF = "off"
    HOST = "host"
    LAN = "lan"
    WAN = "wan"


def _scope(given: object) -> DiscoveryScope:
    try:
        return DiscoveryScope(given)
    except ValueError:
        names = ", ".join(each.value for each in DiscoveryScope)
        raise ValueError(f"discovery must be one of {names}, got {given!r}") from None


def _addresses(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"peers must be a sequence of addresses, got {given!r}")
    return tuple(given)


def _folder(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)


def _port_range(given: object) -> tuple[int, int] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise TypeError(f"ports must be the first and the last port, got {given!r}")
    first, last = map(check_port, given)
    if not 0 < first <= last <= _PORT_MAX:
        raise ValueError(f"ports must be a range in 1..{_PORT_MAX}, got {given!r}")
    return first, last


def _is_bool(_: object, attribute: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{attribute.name} must be a bool, got {value!r}")


@attrs.frozen(kw_only=True)
class Network:
    """The links of a machine with other machines.

    Every process of the machine gets the same: its master, for the links with other
    masters, and each process that holds a task, for direct links with processes of
    other machines (BUS-ROUTE-14).

    peers: the addresses of masters of other machines, ``host`` or ``host:port``. One
      side of a pair suffices.
    listen: the address at which the master listens: an IP address that other machines
      reach, and perhaps a port; None if this machine only dials. The other processes
      listen at the same IP address, at ports that the system chooses.
    ports: the first and the last port for the other processes; None if the system
      chooses. Each of them that has a task which another machine uses needs one.
    gateway: True if the other processes of this machine reach other machines, and are
      reached by them, only through its master (BUS-ROUTE-16).
    discovery: how far the masters look for each other; a `DiscoveryScope` or the text
      of one. They then need no ``peers``, but may have some.
    discovery_port: the UDP port of announcements, the same on all machines.
    advertise: the address by which other machines reach this one through a router that
      translates addresses, ``host`` or ``host:port``; None if that is ``listen``.
    keys: the folder of this machine, made by ``bus keys issue`` (BUS-SEC-5). None only
      for addresses of the loopback interface, for tests and teaching: the links are
      plain TCP then.

    Raises:
        TypeError: an address is not a `str`; ``peers`` or ``ports`` is not a sequence;
          or ``gateway`` is not a `bool`.
        ValueError: an address is malformed, names all interfaces, or is not on the
          loopback interface although there are no keys; ``ports`` or
          ``discovery_port`` is out of range; or ``listen`` or ``advertise`` does not
          suit ``discovery``.
    """

    peers: tuple[str, ...] = attrs.field(default=(), converter=_addresses)
    listen: str | None = None
    keys: Path | None = attrs.field(default=None, converter=_folder)
    ports: tuple[int, int] | None = attrs.field(default=None, converter=_port_range)
    gateway: bool = attrs.field(default=False, validator=_is_bool)
    discovery: DiscoveryScope = attrs.field(
        default=DiscoveryScope.OFF, converter=_scope
    )
    discovery_port: int = attrs.field(default=DISCOVERY_PORT, converter=check_port)
    advertise: str | None = None

    def __attrs_post_init__(self) -> None:
        for what, text in self._given():
            host, _ = _split(what, text)
            if what == "listen" and not _is_reachable(host):
                raise ValueError(
                    "listen must be an IP address of this machine that other machines "
                    f"reach, got {text!r}"
                )
            # The resolver's limits on a host name, and the system's on an address.
            Address.parse(self._address(what, text))
            if what == "listen" and self.gateway and _split(what, text)[1] == 0:
                raise ValueError(
                    f"listen of a gateway must have a port other than 0, got {text!r}: "
                    "other machines dial it"
                )
            if self.keys is None and not _is_loopback(host):
                raise ValueError(
                    f"{what} without keys must be on the loopback interface, got "
                    f"{text!r}; 'bus keys init' and 'bus keys issue' make keys"
                )

        self._check_discovery()

    def _check_discovery(self) -> None:
        scope = self.discovery
        if self.advertise is not None and (
            scope is DiscoveryScope.OFF or not _is_advertised(self.advertise, scope)
        ):
            raise ValueError(
                "advertise must be an IP address that other machines reach, and needs "
                f"discovery, got {self.advertise!r} with discovery {scope.value!r}"
            )
        if scope is DiscoveryScope.OFF:
            return
        if self.listen is None:
            raise ValueError(
                f"discovery {scope.value!r} needs listen: the address at which other "
                "machines find this one"
            )
        host = self._host("listen")
        if _is_loopback(host) is not (scope is DiscoveryScope.HOST) or host == "::1":
            place = "an IPv4 address of the loopback interface"
            if scope is not DiscoveryScope.HOST:
                place = "an address of an interface to other machines"
            raise ValueError(
                f"listen must be {place} for discovery {scope.value!r}, got "
                f"{self.listen!r}"
            )
        if not 0 < self.discovery_port <= _PORT_MAX:
            raise ValueError(
                f"discovery_port must be in 1..{_PORT_MAX}, got {self.discovery_port}"
            )

    def _host(self, what: str) -> str:
        host = _split(what, getattr(self, what))[0]
        return "127.0.0.1" if host == "localhost" else host

    def _given(self) -> list[tuple[str, str]]:
        listen = [] if self.listen is None else [("listen", self.listen)]
        return [*(("a peer", each) for each in self.peers), *listen]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Network:
        """Read a network from a TOML file, whose keys are the parameters.

        A relative path in it starts from the folder of the file.

        Raises:
            OSError: the file cannot be read.
            TypeError, ValueError: it is not TOML, or has another key or a wrong value;
              the text names the file.
        """
        import tomllib  # noqa: PLC0415 - for files only

        file = Path(path)
        try:
            given: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
            if strange := given.keys() - {each.name for each in attrs.fields(cls)}:
                raise ValueError(f"no setting is named {min(strange)!r}")
            if "keys" in given:
                given["keys"] = file.parent / _text("keys", given["keys"])
            return cls(**given)
        except TypeError as error:
            raise TypeError(f"network file {file}: {error}") from None
        except ValueError as error:
            raise ValueError(f"network file {file}: {error}") from None

    # For the links.

    @property
    def scheme(self) -> str:
        """The scheme of its addresses."""
        return "tcp" if self.keys is None else "tls"

    @property
    def peer_addresses(self) -> tuple[str, ...]:
        """The addresses to dial."""
        return tuple(self._address("a peer", each) for each in self.peers)

    @property
    def listen_address(self) -> str | None:
        """The address at which the master listens."""
        return None if self.listen is None else self._address("listen", self.listen)

    def advertised_address(self, port: int) -> Address | None:
        """Return the address that the master announces in place of its own, if any.

        port: the port where the master listens, which holds if the address has none.
        """
        if self.advertise is None:
            return None
        host, advertised = _split("advertise", self.advertise, str(port))
        return Address(Scheme(self.scheme), host, advertised)

    @property
    def end_process_addresses(self) -> tuple[str, ...]:
        """The addresses for a process that is not the master, to try in order."""
        if self.listen is None:
            return ()
        host, _ = _split("listen", self.listen)
        first, last = self.ports or (0, 0)
        scheme = Scheme(self.scheme)
        return tuple(
            str(Address(scheme, host, port)) for port in range(first, last + 1)
        )

    @property
    def has_links(self) -> bool:
        """True if this process may have links with other machines."""
        return self.keys is not None or bool(self.peers) or self.listen is not None

    def may_dial(self, address: str) -> bool:
        """Return True if an address from another machine may be dialled."""
        scheme, _, rest = address.partition("://")
        try:
            host, _ = _split("address", rest)
        except ValueError:
            return False
        return scheme == self.scheme and (scheme == "tls" or _is_loopback(host))

    def _address(self, what: str, text: str) -> str:
        return str(Address(Scheme(self.scheme), *_split(what, text)))


def _text(what: str, given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{what} must be a str, got {type(given).__name__}")
    return given


def _split(what: str, text: str, default: str = str(PORT)) -> tuple[str, int]:
    """Return host and port of ``host``, ``host:port`` or ``[host]:port``.

    default: the port, if there is none.
    """
    host, port = _text(what, text), default
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        if rest or "]" not in text:
            port = rest[1:] if rest.startswith(":") else ""
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ValueError(f"{what} must be host or host:port, got {text!r}")
    return host, int(port)


def _is_reachable(host: str) -> bool:
    """Return True for an IP address that means one interface, on any machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not address.is_unspecified and "%" not in host


def _is_advertised(text: str, scope: DiscoveryScope) -> bool:
    """Return True for an address, and perhaps a port, that others may dial instead."""
    host, port = _split("advertise", text)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.is_loopback is not (scope is DiscoveryScope.HOST) or not port:
        return False
    return not (address.is_link_local or address.is_unspecified or address.is_multicast)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
