"""The head of a segment: 4,096 bytes before the slots.

Three areas are written at different times, so that no write can spoil another. The area
at byte 0 holds the facts known when the segment is made, guarded by its own crc. The
one at byte 512 holds the seal, written once, when no writer is left. The one at byte
1,024 holds the numbers that change during the segment's life: how many records and how
many payloads the journal has lost so far, and how many slots are final. A segment
without a seal is open, or was when its writer died.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from bus.journal.format import RECORD_BYTES, RECORD_VERSION
from queuebroker import _files, _sync
from queuebroker._platform import SYSTEM

__all__ = [
    "HEADER_BYTES",
    "LOST",
    "LOST_MAX",
    "LOST_OFFSET",
    "PAYLOADS_LOST_OFFSET",
    "PUBLISHED_OFFSET",
    "SEAL_OFFSET",
    "Seal",
    "SegmentHeader",
    "boot_id",
]

HEADER_BYTES: Final = 4096
SEAL_OFFSET: Final = 512
LOST_OFFSET: Final = 1024
PAYLOADS_LOST_OFFSET: Final = 1032  # packed as LOST
PUBLISHED_OFFSET: Final = 1040  # likewise
LOST: Final = struct.Struct("<Q")
# No process loses as many records; a damaged header may contain any number.
LOST_MAX: Final = 2**62
# The largest record number and segment number that a signed column holds.
NUMBER_MAX: Final = 2**63 - 1
SEGMENT_MAX: Final = 2**31 - 1

_MAGIC: Final = b"QBJ1"
_HEAD: Final = struct.Struct("<4sHHIIQQ16sqq")
_SEAL_MAGIC: Final = b"SEAL"
_SEAL: Final = struct.Struct("<4sIQQQ")
_CRC: Final = struct.Struct("<I")

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MINUTE_NS: Final = 60 * 10**9


@attrs.frozen
class Seal:
    """The state of the slots after the last writer left.

    used: slots that were drawn; the file ends after them.
    count: slots among them that hold a valid record; the others are holes.
    crc32: of the used slots, holes included.
    lost: records that the journal had lost by then.
    """

    used: int
    count: int
    crc32: int
    lost: int

    @property
    def holes(self) -> int:
        """The number of slots that were drawn and never written."""
        return self.used - self.count

    def pack(self) -> bytes:
        """Return the bytes for `SEAL_OFFSET`."""
        body = _SEAL.pack(_SEAL_MAGIC, self.crc32, self.used, self.count, self.lost)
        return body + _CRC.pack(zlib.crc32(body))

    @classmethod
    def unpack(cls, buffer: bytes) -> Seal | None:
        """Return the seal of a header, None without one; ValueError if damaged."""
        body = buffer[SEAL_OFFSET : SEAL_OFFSET + _SEAL.size]
        tail = buffer[SEAL_OFFSET + _SEAL.size : SEAL_OFFSET + _SEAL.size + _CRC.size]
        if not any(body) and not any(tail):
            return None
        magic, crc32, used, count, lost = _SEAL.unpack(body)
        whole = magic == _SEAL_MAGIC and _CRC.unpack(tail)[0] == zlib.crc32(body)
        if not whole or count > used or lost > LOST_MAX:
            msg = f"the seal at byte {SEAL_OFFSET} is damaged"
            raise ValueError(msg)
        return cls(used=used, count=count, crc32=crc32, lost=lost)


@attrs.frozen
class SegmentHeader:
    """One segment: its journal, its range of record numbers, its clocks.

    journal: random 64-bit number of the journal's incarnation.
    segment: its place in the journal, from 0.
    first_n: record number of slot 0; slot i holds record ``first_n + i``.
    slots: how many records it has room for.
    boot_id: of the machine, 16 bytes, zero if unknown, as in an imported journal.
      Monotonic clocks are comparable between journals of one boot.
    mono, wall: one instant on both clocks, in nanoseconds.
    seal: None while it is open.
    lost, payloads_lost: records and payloads that the journal had lost when this was
      read.
    published: how many of its slots no writer will change any more, from slot 0 on.
    seal_flaw: the contradiction in its seal, for which `seal` is None; else "".
    """

    journal: int
    segment: int
    first_n: int
    slots: int
    boot_id: bytes
    mono: int
    wall: int
    seal: Seal | None = None
    lost: int = 0
    seal_flaw: str = ""
    payloads_lost: int = 0
    published: int = 0

    def pack(self) -> bytes:
        """Return the whole head of a new segment."""
        body = _HEAD.pack(
            _MAGIC,
            RECORD_VERSION,
            RECORD_BYTES,
            self.segment,
            self.slots,
            self.journal,
            self.first_n,
            self.boot_id,
            self.mono,
            self.wall,
        )
        head = bytearray(HEADER_BYTES)
        head[: len(body) + _CRC.size] = body + _CRC.pack(zlib.crc32(body))
        if self.seal is not None:
            seal = self.seal.pack()
            head[SEAL_OFFSET : SEAL_OFFSET + len(seal)] = seal
        LOST.pack_into(head, LOST_OFFSET, self.lost)
        LOST.pack_into(head, PAYLOADS_LOST_OFFSET, self.payloads_lost)
        LOST.pack_into(head, PUBLISHED_OFFSET, self.published)
        return bytes(head)

    @classmethod
    def unpack(cls, buffer: bytes) -> SegmentHeader:
        """Parse a head; ValueError gives the defect and its byte.

        A damaged seal raises no error: the slots can be read without one.
        """
        if len(buffer) < HEADER_BYTES:
            msg = f"the header ends at byte {len(buffer)}, expected {HEADER_BYTES}"
            raise ValueError(msg)
        body = buffer[: _HEAD.size]
        magic, version, size, segment, slots, journal, first_n, boot, mono, wall = (
            _HEAD.unpack(body)
        )
        if magic != _MAGIC:
            msg = f"not a journal segment: byte 0 reads {magic!r}, expected {_MAGIC!r}"
            raise ValueError(msg)
        if _CRC.unpack_from(buffer, _HEAD.size)[0] != zlib.crc32(body):
            msg = f"the header is damaged: wrong checksum at byte {_HEAD.size}"
            raise ValueError(msg)
        if (version, size) != (RECORD_VERSION, RECORD_BYTES):
            msg = f"record version {version} of {size} bytes is not supported"
            raise ValueError(msg)
        if segment > SEGMENT_MAX or first_n + slots > NUMBER_MAX:
            msg = f"segment number {segment} or record number {first_n} is too large"
            raise ValueError(msg)
        (lost,) = LOST.unpack_from(buffer, LOST_OFFSET)
        (payloads_lost,) = LOST.unpack_from(buffer, PAYLOADS_LOST_OFFSET)
        (published,) = LOST.unpack_from(buffer, PUBLISHED_OFFSET)
        seal, seal_flaw = None, ""
        try:
            seal = Seal.unpack(buffer)
        except ValueError as error:
            seal_flaw = str(error)
        return cls(
            journal=journal,
            segment=segment,
            first_n=first_n,
            slots=slots,
            boot_id=boot,
            mono=mono,
            wall=wall,
            seal=seal,
            lost=lost,
            seal_flaw=seal_flaw,
            # No verdict rests on it, so a damaged one is not a flaw.
            payloads_lost=min(payloads_lost, LOST_MAX),
            published=published if published <= slots else 0,
        )


def boot_id() -> bytes:
    """Return the boot of this machine for `SegmentHeader.boot_id`.

    Only Linux has a number of it. Elsewhere the name of the host and the minute of the
    boot give one, by both clocks. So if the wall clock is set, or the machine sleeps,
    later processes seem to be of another boot, and the rules assume two clocks.
    """
    if SYSTEM == "linux":
        with suppress(OSError, ValueError):
            return bytes.fromhex(_BOOT_ID.read_text("ascii").strip().replace("-", ""))
    import hashlib  # noqa: PLC0415 - loads OpenSSL, not needed on Linux

    minute = (_sync.wall_ns() - _sync.monotonic_ns()) // _MINUTE_NS
    boot = f"{_files.host_name()} {minute}".encode()
    return hashlib.blake2b(boot, digest_size=16).digest()
