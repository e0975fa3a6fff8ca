"""`Announcement`: a datagram by which a master makes its machine known (BUS-DISC-4).

It is a hint: a receiver trusts only the certificate that TLS verifies afterwards
(BUS-SEC-6).
"""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from bus.errors import WireError
from bus.kernel.wire.parts import (
    U64,
    BusName,
    MachineName,
    Part,
    Versions,
    check_versions,
)
from bus.model.address import check_bus_name, check_machine_name

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ANNOUNCEMENT_BYTES_MAX",
    "Announcement",
    "decode_announcement",
    "encode_announcement",
    "is_signed",
]

# Below the smallest datagram that every IP network delivers in one piece.
ANNOUNCEMENT_BYTES_MAX: Final = 512

# The fifth byte is the number of tags that follow the map: 0 without keys, 2 while the
# group key is replaced.
_MAGIC: Final = b"ISMA"
_HEAD_BYTES: Final = len(_MAGIC) + 1
_TAG_BYTES: Final = 32
_TAGS_MAX: Final = 2
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
        _check_host(self.host)


# Bounded, since every host of the network can invent addresses. A machine sends the
# same one each time, and to check it takes longer than to decode the rest.
@functools.lru_cache(maxsize=512)
def _check_host(text: str) -> None:
    host = ipaddress.ip_address(text)
    if host.is_unspecified or host.is_multicast or str(host) == _TO_ALL:
        raise ValueError(f"host must be one address, got {text!r}")


_ENCODER: Final = msgspec.msgpack.Encoder(order="sorted")
_DECODER: Final = msgspec.msgpack.Decoder(Announcement)


def encode_announcement(announcement: Announcement, keys: Sequence[bytes]) -> bytes:
    """Return the datagram of an announcement, with a tag for each group key.

    keys: at most 2; empty without keys.
    """
    assert len(keys) <= _TAGS_MAX
    data = _MAGIC + bytes([len(keys)]) + _ENCODER.encode(announcement)
    return data + b"".join(_tag(key, data) for key in keys)


def decode_announcement(data: bytes) -> Announcement:
    """Return the announcement in a datagram, which may be forged: see `is_signed`.

    Raises:
        WireError: no correct master sends these bytes; the text names the fault.
    """
    if len(data) > ANNOUNCEMENT_BYTES_MAX:
        raise WireError(f"announcement is longer than {ANNOUNCEMENT_BYTES_MAX} bytes")
    tags = _tags_in(data)
    if tags is None:
        raise WireError("datagram is no announcement")
    end = len(data) - tags * _TAG_BYTES
    try:
        return _DECODER.decode(memoryview(data)[_HEAD_BYTES:end])
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        words = str(error)[:_WORDS_MAX]
        raise WireError(f"announcement cannot be decoded: {words}") from error


def is_signed(data: bytes, keys: Sequence[bytes]) -> bool:
    """Return True if a datagram has the tag of one of the keys or, without keys, none.

    So a process with keys never accepts a plain announcement. One common key is enough:
    while it is replaced, a machine has the earlier key, both, or the later one.
    """
    count = _tags_in(data)
    if not keys or not count:
        return count == 0 and not keys
    end = len(data) - count * _TAG_BYTES
    body = data[:end]
    tags = [data[at : at + _TAG_BYTES] for at in range(end, len(data), _TAG_BYTES)]
    import hmac  # noqa: PLC0415 - as in `_tag`

    return any(
        hmac.compare_digest(tag, expected)
        for expected in (_tag(key, body) for key in keys)
        for tag in tags
    )


def _tags_in(data: bytes) -> int | None:
    """Return the number of tags in a datagram; None if it is no announcement.

    A datagram above the maximum length is rejected before its hash is computed: to
    hash 64 KiB takes longer than to receive them.
    """
    if not data.startswith(_MAGIC) or not (
        _HEAD_BYTES <= len(data) <= ANNOUNCEMENT_BYTES_MAX
    ):
        return None
    count = data[len(_MAGIC)]
    has_room = len(data) >= _HEAD_BYTES + count * _TAG_BYTES
    return count if count <= _TAGS_MAX and has_room else None


def _tag(key: bytes, data: bytes) -> bytes:
    import hmac  # noqa: PLC0415 - loads OpenSSL, for discovery only

    return hmac.digest(key, data, "sha256")
