"""`Announcement`: a datagram by which a master makes its machine known (BUS-DISC-4).

It is a hint: a receiver trusts only the certificate that TLS verifies afterwards
(BUS-SEC-6).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from typing import Annotated, Final

import msgspec

from bus.address import check_bus_name, check_machine_name
from bus.core.wire.parts import (
    U64,
    BusName,
    MachineName,
    Part,
    Versions,
    check_versions,
)
from bus.errors import WireError

__all__ = [
    "ANNOUNCEMENT_BYTES_MAX",
    "Announcement",
    "decode_announcement",
    "encode_announcement",
    "is_signed",
]

# Below the smallest datagram that every IP network delivers in one piece.
ANNOUNCEMENT_BYTES_MAX: Final = 512

# The fifth byte tells whether a tag follows the map.
_MAGIC: Final = b"ISMA"
_PLAIN: Final = _MAGIC + b"\0"
_SIGNED: Final = _MAGIC + b"\1"
_TAG_BYTES: Final = 32
_HOST_MAX: Final = 64  # an IPv6 address with its zone is shorter
_TO_ALL: Final = "255.255.255.255"
_WORDS_MAX: Final = 100  # characters of a foreign text that an error quotes


class Announcement(Part, frozen=True, kw_only=True):
    """The facts that a master states about its machine.

    machine_id: the id of the host; distinguishes two machines of one name on different
      hosts (BUS-DISC-8).
    instance: identifies one period in which a process was master; a later one of the
      same machine is higher, unless its clock was set back.
    counter: rises with each datagram of an instance, so that a repeated datagram is
      recognised (BUS-DISC-11).
    versions: the lowest and the highest version of the protocol (BUS-WIRE-3).
    host, port: the IP address and the TCP port at which the master is dialled.
    advertised: True if a router translates that address, so that the datagram comes
      from another one (OPEN-19).
    leaves: True if the master shuts down (BUS-DISC-9).
    """

    bus: BusName
    machine: MachineName
    machine_id: MachineName
    instance: U64
    counter: U64
    versions: Versions
    host: Annotated[str, msgspec.Meta(max_length=_HOST_MAX)]
    port: Annotated[int, msgspec.Meta(ge=1, lt=2**16)]
    advertised: bool = False
    leaves: bool = False

    def __post_init__(self) -> None:
        check_bus_name(self.bus)
        check_machine_name(self.machine)
        check_machine_name(self.machine_id)
        check_versions(self.versions)
        host = ipaddress.ip_address(self.host)
        if host.is_unspecified or host.is_multicast or str(host) == _TO_ALL:
            raise ValueError(f"host must be one address, got {self.host!r}")


_ENCODER: Final = msgspec.msgpack.Encoder(order="sorted")
_DECODER: Final = msgspec.msgpack.Decoder(Announcement)


def encode_announcement(announcement: Announcement, key: bytes | None) -> bytes:
    """Return the datagram of an announcement, signed with the group key, if any."""
    body = _ENCODER.encode(announcement)
    if key is None:
        return _PLAIN + body
    data = _SIGNED + body
    return data + _tag(key, data)


def decode_announcement(data: bytes) -> Announcement:
    """Return the announcement in a datagram, which may be forged: see `is_signed`.

    Raises:
        WireError: no correct master sends these bytes; the text names the fault.
    """
    if len(data) > ANNOUNCEMENT_BYTES_MAX:
        raise WireError(f"announcement is longer than {ANNOUNCEMENT_BYTES_MAX} bytes")
    head = data[: len(_MAGIC) + 1]
    if head not in {_PLAIN, _SIGNED}:
        raise WireError("datagram is no announcement")
    end = len(data) - (_TAG_BYTES if head == _SIGNED else 0)
    try:
        return _DECODER.decode(memoryview(data)[len(head) : max(end, len(head))])
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        words = str(error)[:_WORDS_MAX]
        raise WireError(f"announcement cannot be decoded: {words}") from error


def is_signed(data: bytes, key: bytes | None) -> bool:
    """Return True if a datagram has the tag of a group key or, without one, none.

    So a process with keys never accepts a plain announcement.
    """
    if key is None:
        return data.startswith(_PLAIN)
    body, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    return data.startswith(_SIGNED) and hmac.compare_digest(tag, _tag(key, body))


def _tag(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, hashlib.sha256)
