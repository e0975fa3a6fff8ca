"""`Address`: of a broker, ``ipc:///path``, ``tcp://host:port`` or ``tls://host:port``.

The functions read the parts of any address, also of other kinds of sockets.
"""

from __future__ import annotations

import enum
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

import attrs

from queuebroker import _net
from queuebroker.arguments import wrong_type

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Address", "Scheme", "is_address", "read_name", "read_place", "split_scheme"]

_PLACE: Final = re.compile(
    r"(?:\[(?P<six>[^\[\]]*:[^\[\]]*)\]|(?P<host>[^:;/\[\]\s\0]*)):(?P<port>[0-9]{1,5})"
)


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
        return f"{self.scheme.value}://{_net.place_text(self.host, self.port)}"

    @property
    def place(self) -> _net.Place:
        """The address for `_net.dial`."""
        return self.host if self.scheme is Scheme.IPC else (self.host, self.port)

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
        schemes = [each.value for each in Scheme]
        name, rest = split_scheme("address", text, schemes)
        if name == Scheme.IPC.value:
            if not rest.startswith("/"):
                msg = f"path of an ipc address must begin with /, got {text!r}"
                if not _net.HAS_UNIX:
                    msg = (
                        f"cannot use {text!r}: this system has no UNIX sockets;"
                        " use a tcp address, such as tcp://127.0.0.1:0"
                    )
                raise ValueError(msg)
            return cls(Scheme.IPC, read_name(name, rest))
        host, port = read_place(name, rest)
        if not host:
            raise ValueError(f"{name} address must have a host, got {text!r}")
        return cls(Scheme(name), host, port)


def is_address(name: object) -> bool:
    """Return True if the target of a connect is an address, not a broker's name."""
    return isinstance(name, str) and "://" in name


def split_scheme(what: str, text: object, schemes: Collection[str]) -> tuple[str, str]:
    """Return the scheme of an address, and the text after ``://``.

    Raises:
        TypeError: ``text`` is no str.
        ValueError: it begins with none of the schemes.
    """
    if not isinstance(text, str):
        raise wrong_type(what, "a str", text)
    scheme, found, rest = text.partition("://")
    if not found or scheme not in schemes:
        begins = ", ".join(f"{each}://" for each in schemes)
        raise ValueError(f"{what} must begin with one of {begins}, got {text!r}")
    return scheme, rest


def read_name(scheme: str, rest: str, *, is_quoted: bool = False) -> str:
    """Return the path or the abstract name of a UNIX socket, the text after ``://``.

    is_quoted: True to decode percent codes.

    Raises:
        ValueError: it is empty, has a NUL, or is too long for the platform.
    """
    text = f"{scheme}://{rest}"
    try:
        # As the system encodes the names of files, which may have any bytes.
        name = os.fsencode(rest)
    except UnicodeEncodeError:
        raise ValueError(f"{scheme} address must be encodable, got {text!r}") from None
    if is_quoted:
        name = unquote_to_bytes(name)
    if not name or b"\0" in name:
        raise ValueError(f"{scheme} address must have a name without NUL, got {text!r}")
    # A longer one makes libnanomsg abort its process; the kernel refuses it anyway.
    if len(name) > _net.PATH_BYTES_MAX:
        msg = (
            f"{scheme} address must have at most {_net.PATH_BYTES_MAX} bytes, "
            f"got {len(name)}: {text!r}"
        )
        raise ValueError(msg)
    return os.fsdecode(name)


def read_place(scheme: str, rest: str) -> tuple[str, int]:
    """Return the host, which may be empty, and the port after ``://``.

    Raises:
        ValueError: it has another form, or no resolver takes the host.
    """
    text = f"{scheme}://{rest}"
    match = _PLACE.fullmatch(rest)
    six = match and match["six"]
    if not match or int(match["port"]) > 65_535 or (six and not _net.is_numeric(six)):
        msg = (
            f"{scheme} address must have the form {scheme}://host:port with a port of "
            f"0 to 65535 and IPv6 in brackets, got {text!r}"
        )
        raise ValueError(msg)
    host = six or match["host"]
    try:
        host.encode("idna")  # as the resolver does
    except UnicodeError as error:
        msg = f"host of an address must be a host name, got {text!r}: {error}"
        raise ValueError(msg) from None
    return host, int(match["port"])
