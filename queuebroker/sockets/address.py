"""Addresses of brokers: ``ipc:///path``, ``tcp://host:port``, ``tls://host:port``."""

from __future__ import annotations

import enum
import os
import re
from pathlib import Path
from typing import Final

import attrs

from queuebroker import _net
from queuebroker.arguments import wrong_type

__all__ = ["Address", "Scheme", "is_address"]

_TCP: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d+)")


class Scheme(enum.Enum):
    """The transport of a connection."""

    IPC = "ipc"
    TCP = "tcp"
    TLS = "tls"


@attrs.frozen(slots=True)
class Address:
    """One address; `parse` accepts the ``str`` of it.

    host: the path of an ``ipc`` address; else the host.
    port: 0 for ``ipc``; otherwise 0 lets a listener choose.
    """

    scheme: Scheme
    host: str
    port: int = 0

    def __str__(self) -> str:
        if self.scheme is Scheme.IPC:
            return f"ipc://{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme.value}://{host}:{self.port}"

    @property
    def path(self) -> Path:
        """The path of an ``ipc`` address."""
        return Path(self.host)

    @classmethod
    def parse(cls, text: object) -> Address:
        """Parse an address.

        Raises:
            TypeError: ``text`` is no str.
            ValueError: it is no address, or is too long for the platform.
        """
        if not isinstance(text, str):
            raise wrong_type("address", "a str", text)
        name, found, rest = text.partition("://")
        if not found or name not in {scheme.value for scheme in Scheme}:
            msg = f"address must begin with ipc://, tcp:// or tls://, got {text!r}"
            raise ValueError(msg)
        scheme = Scheme(name)
        return _ipc(rest) if scheme is Scheme.IPC else _tcp(scheme, rest, text)


def is_address(name: object) -> bool:
    """Return True if the target of a connect is an address, not a broker's name."""
    return isinstance(name, str) and "://" in name


def _ipc(path: str) -> Address:
    if not path.startswith("/") or "\0" in path:
        msg = f"path of an ipc address must begin with /, got {path!r}"
        raise ValueError(msg)
    size = len(os.fsencode(path))
    if size > _net.PATH_BYTES_MAX:
        msg = (
            f"path of an ipc address has at most {_net.PATH_BYTES_MAX} bytes,"
            f" got {size}: {path!r}"
        )
        raise ValueError(msg)
    return Address(Scheme.IPC, path)


def _tcp(scheme: Scheme, rest: str, text: str) -> Address:
    match = _TCP.fullmatch(rest)
    if match is None or int(match["port"]) > 65535:
        msg = f"address must be {scheme.value}://host:port, port 0 to 65535: {text!r}"
        raise ValueError(msg)
    try:
        (match["host"] or "").encode("idna")  # as the resolver does
    except UnicodeError as error:
        msg = f"host of an address must be a host name, got {text!r}: {error}"
        raise ValueError(msg) from None
    return Address(scheme, match["six"] or match["host"], int(match["port"]))
