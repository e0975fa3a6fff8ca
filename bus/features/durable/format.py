"""The bytes of a file of horizons.

::

    file   = magic, frame of the owner, frame of a group, ...
    frame  = length of the payload (u32), CRC-32 of length and payload (u32), payload
    owner  = MessagePack map: bus, machine, process, incarnation
    group  = MessagePack array of (sender, epoch, number)

All integers of a frame are little-endian. The writer writes and syncs a whole group
before it begins the next one. So after a crash only the last group can be torn. A torn
group was not synced, so none of its messages was handed over, and the reader drops it.
A crash cannot leave a broken group before an intact one.

A flipped bit in the last group looks like a torn group. If the reader dropped that
group, its messages could be handed over again. It therefore searches for the one bit
whose change makes the group intact. If the group was torn after all, its horizons are
merely higher than necessary.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import Struct

from bus.errors import HorizonError
from bus.features.durable.horizons import Horizon

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["GROUP_BYTES_MAX", "Owner", "groups", "head", "read"]

T = TypeVar("T")

MAGIC: Final = b"bus horizons 1\n"
# Maximum length of a group without its last horizon, in bytes. It bounds the search for
# a flipped bit.
GROUP_BYTES_MAX: Final = 4096
_PAYLOAD_MAX: Final = 2 * GROUP_BYTES_MAX
_FRAME: Final = struct.Struct("<II")
_LENGTH: Final = struct.Struct("<I")
_RESTORE: Final = (
    "restore the directory from a copy made after the last run of this process, or "
    "end all processes that sent to it and move the file away"
)


class Owner(Struct, frozen=True):
    """The process whose horizons a file contains.

    incarnation: the incarnation of its latest life (AMO-17).
    """

    bus: str
    machine: str
    process: str
    incarnation: int

    def is_same(self, other: Owner) -> bool:
        """Return True for the same process, in any of its lives."""
        mine = (self.bus, self.machine, self.process)
        return mine == (other.bus, other.machine, other.process)


def head(owner: Owner) -> bytes:
    """Return the first bytes of a file, up to its first group."""
    return MAGIC + _frame(msgspec.msgpack.encode(owner))


def groups(horizons: Mapping[str, Horizon]) -> Iterator[bytes]:
    """Yield the horizons in groups of bounded length, one for each write."""
    entries: list[tuple[str, int, int]] = []
    size = 0
    for sender, horizon in horizons.items():
        entries.append((sender, horizon.epoch, horizon.number))
        size += len(sender.encode()) + 24
        if size > GROUP_BYTES_MAX:
            yield _frame(msgspec.msgpack.encode(entries))
            entries, size = [], 0
    if entries:
        yield _frame(msgspec.msgpack.encode(entries))


def read(data: bytes, path: str) -> tuple[Owner, dict[str, Horizon]]:
    """Return the contents of a file: its owner, and the horizon of each sender.

    path: the path of the file, for errors.

    Raises:
        HorizonError: the file is of another format, or broken before its last group.
    """
    if not data.startswith(MAGIC):
        fact = "the file does not begin with the magic number of such files"
        raise HorizonError(path, fact, _RESTORE, 0)
    at = len(MAGIC)
    payload = _payload(data, at)
    if payload is None:
        raise HorizonError(path, "its owner is not readable", _RESTORE, at)
    owner = _decode(payload, Owner, path, at)
    horizons: dict[str, Horizon] = {}
    while True:
        at += _FRAME.size + len(payload)
        payload = _payload(data, at)
        if payload is None:
            break
        _add(horizons, payload, path, at)
    rest = data[at:]
    if any(_payload(rest, each) is not None for each in range(1, len(rest))):
        fact = "a group of horizons is broken, and intact ones follow it"
        raise HorizonError(path, fact, _RESTORE, at)
    if (repaired := _repair(rest)) is not None:
        _add(horizons, repaired, path, at)
    return owner, horizons


def _frame(payload: bytes) -> bytes:
    length = _LENGTH.pack(len(payload))
    return _FRAME.pack(len(payload), zlib.crc32(payload, zlib.crc32(length))) + payload


def _payload(data: bytes | bytearray, at: int) -> bytes | None:
    """Return the payload of the frame at an offset; None if no intact one is there."""
    if len(data) - at < _FRAME.size:
        return None
    length, crc = _FRAME.unpack_from(data, at)
    begin = at + _FRAME.size
    if not 0 < length <= min(_PAYLOAD_MAX, len(data) - begin):
        return None
    payload = bytes(data[begin : begin + length])
    whole = crc == zlib.crc32(payload, zlib.crc32(data[at : at + _LENGTH.size]))
    return payload if whole else None


def _repair(rest: bytes) -> bytes | None:
    """Return the payload of a frame with one bit flipped; None for other faults."""
    if len(rest) < _FRAME.size:
        return None
    length, _ = _FRAME.unpack_from(rest)
    fits = 0 < length <= min(_PAYLOAD_MAX, len(rest) - _FRAME.size)
    # If the length does not fit, the flipped bit can only be a bit of the length.
    stop = _FRAME.size + length if fits else _LENGTH.size
    tried = bytearray(rest)
    for at in range(stop):
        for bit in range(8):
            tried[at] ^= 1 << bit
            if (payload := _payload(tried, 0)) is not None:
                return payload
            tried[at] ^= 1 << bit
    return None


def _add(horizons: dict[str, Horizon], payload: bytes, path: str, at: int) -> None:
    for sender, epoch, number in _decode(payload, list[tuple[str, int, int]], path, at):
        horizon = Horizon(epoch, number)
        known = horizons.get(sender)
        if known is None or horizon.covers(known):
            horizons[sender] = horizon


def _decode(payload: bytes, kind: type[T], path: str, at: int) -> T:
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except msgspec.MsgspecError as error:
        raise HorizonError(path, str(error), _RESTORE, at) from None
