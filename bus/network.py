"""`Network`: how the processes of one machine reach other machines (BUS-ENT-10)."""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from queuebroker.sockets.address import Address

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

__all__ = ["PORT", "Network"]

# The port of masters, where an address names none.
PORT: Final = 7400


def _addresses(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"peers must be a sequence of addresses, got {given!r}")
    return tuple(given)


def _folder(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)


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
    keys: the folder of this machine, made by ``bus keys issue`` (BUS-SEC-5). None only
      for addresses of the loopback interface, for tests and teaching: the links are
      plain TCP then.

    Raises:
        TypeError: an address is no `str`, or ``peers`` is one.
        ValueError: an address has another form, names all interfaces, or is not on the
          loopback interface although there are no keys.
    """

    peers: tuple[str, ...] = attrs.field(default=(), converter=_addresses)
    listen: str | None = None
    keys: Path | None = attrs.field(default=None, converter=_folder)

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
            if self.keys is None and not _is_loopback(host):
                raise ValueError(
                    f"{what} without keys must be on the loopback interface, got "
                    f"{text!r}; 'bus keys init' and 'bus keys issue' make keys"
                )

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

    @property
    def free_address(self) -> str | None:
        """An address for a process that is not the master, with port 0."""
        if self.listen is None:
            return None
        return f"{self.scheme}://{_bracketed(_split('listen', self.listen)[0])}:0"

    def may_dial(self, address: str) -> bool:
        """Return True if an address from another machine may be dialled."""
        scheme, _, rest = address.partition("://")
        try:
            host, _ = _split("address", rest)
        except ValueError:
            return False
        return scheme == self.scheme and (scheme == "tls" or _is_loopback(host))

    def _address(self, what: str, text: str) -> str:
        host, port = _split(what, text)
        return f"{self.scheme}://{_bracketed(host)}:{port}"


def _text(what: str, given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{what} must be a str, got {type(given).__name__}")
    return given


def _split(what: str, text: str) -> tuple[str, int]:
    """Return host and port of ``host``, ``host:port`` or ``[host]:port``."""
    host, port = _text(what, text), str(PORT)
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        if rest or "]" not in text:
            port = rest[1:] if rest.startswith(":") else ""
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{what} must be host or host:port, got {text!r}")
    return host, int(port)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_reachable(host: str) -> bool:
    """Return True for an IP address that means one interface, on any machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not address.is_unspecified and "%" not in host


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
