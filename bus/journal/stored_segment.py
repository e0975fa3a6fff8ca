"""`StoredSegment`: one segment file as it is found, whole, torn or damaged.

Reading never trusts the file: what is wrong is said with the byte where it is wrong,
and what is valid is used all the same. A segment that is being written may be read;
it is read and not mapped, because a writer that closes cuts the file, and touching
what was cut off would kill the reader.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import attrs

from bus.errors import JournalError
from bus.journal.format import RECORD, RECORD_BYTES, Kind, Record, dtype
from bus.journal.header import (
    HEADER_BYTES,
    LOST,
    LOST_MAX,
    LOST_OFFSET,
    SegmentHeader,
)
from bus.journal.segment import OPEN_SUFFIX, SEALED_SUFFIX
from bus.journal.slots import impossible_slots, invalid_slots
from bus.journal.wording import hex64

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

__all__ = [
    "SEGMENT_NAME",
    "StoredSegment",
    "problem_of",
    "read_segment",
    "read_segment_array",
]

SEGMENT_NAME: Final = re.compile(r"seg-([0-9]+)(?:\.open)?\.qbj")

# No longer than the header, so that the second reading of `LOST` reads the file: the
# default buffer of Python 3.14 holds the records and the header together.
_BUFFER_BYTES: Final = HEADER_BYTES

_EMPTY: Final = bytes(RECORD_BYTES)
_MONO_WORD: Final = 2  # where `mono` stands in a record, in words of eight bytes


@attrs.frozen
class StoredSegment:
    """What one file holds.

    body: its used slots. An open segment is used up to its last slot that is not
      empty.
    invalid: the slots among them that do not hold their record, or hold impossible
      numbers; each counts as a hole.
    flaws: how it contradicts itself, one text each, with the byte.
    """

    path: Path
    header: SegmentHeader
    body: bytes = attrs.field(repr=False)
    invalid: tuple[int, ...]
    flaws: tuple[str, ...]

    @property
    def used(self) -> int:
        """Slots that were drawn, as far as the file tells."""
        return len(self.body) // RECORD_BYTES

    @property
    def count(self) -> int:
        """Valid records."""
        return self.used - len(self.invalid)

    @property
    def first(self) -> int | None:
        """Number of the first valid record."""
        return next(self._numbers(range(self.used)), None)

    @property
    def last(self) -> int | None:
        """Number of the last valid record."""
        return next(self._numbers(range(self.used - 1, -1, -1)), None)

    @property
    def last_mono(self) -> int:
        """The latest time of a valid record; there must be one."""
        # Eight bytes at a time, of which the third is the time: by far the fastest.
        times = memoryview(self.body).cast("q")[_MONO_WORD :: RECORD_BYTES // 8]
        if not self.invalid:
            return max(times)
        invalid = frozenset(self.invalid)
        return max(time for slot, time in enumerate(times) if slot not in invalid)

    @property
    def blank(self) -> bool:
        """Whether it is the first segment of a journal and holds no record.

        Its writer may have died while writing the first record, OPEN.
        """
        made = self.header.segment == 0 and self.header.seal is None and not self.lost
        return made and self.used <= 1 and not self.count and not self.flaws

    @property
    def lost(self) -> int:
        """Records that the journal had lost so far, as far as the file tells."""
        seal = self.header.seal
        return max(self.header.lost, seal.lost if seal else 0)

    @property
    def problems(self) -> list[str]:
        """Its flaws, one line each, with the file."""
        return [f"{self.path} is damaged: {flaw}" for flaw in self.flaws]

    @property
    def closes(self) -> bool:
        """Whether a valid record of it is a CLOSE."""
        kinds = self.body[::RECORD_BYTES]
        slot = kinds.find(Kind.CLOSE)
        while slot in self.invalid:
            slot = kinds.find(Kind.CLOSE, slot + 1)
        return slot >= 0

    def records(self) -> Iterator[Record]:
        """Its valid records, in order."""
        make = Record._make
        if not self.invalid:
            yield from map(make, RECORD.iter_unpack(self.body))
            return
        invalid = frozenset(self.invalid)
        for slot, fields in enumerate(RECORD.iter_unpack(self.body)):
            if slot not in invalid:
                yield make(fields)

    def array(self) -> np.ndarray[Any, Any]:
        """Its valid records as a structured array of `bus.journal.format.dtype`."""
        import numpy as np  # noqa: PLC0415 - importing bus.journal must not need numpy

        slots = np.frombuffer(self.body, dtype())
        return np.delete(slots, self.invalid) if self.invalid else slots

    def _numbers(self, slots: range) -> Iterator[int]:
        invalid = frozenset(self.invalid)
        return (self.header.first_n + slot for slot in slots if slot not in invalid)


def read_segment(path: Path, journal: int | None = None) -> StoredSegment:
    """Read one file.

    journal: the number of the journal it must belong to; None for any.

    Raises:
        JournalError: it is not a segment, its header is damaged, or the header names
          another journal or another segment number than its file name.
        OSError: it cannot be read; FileNotFoundError if it is gone.
    """
    with _open(path) as file:
        try:
            header = SegmentHeader.unpack(file.read(HEADER_BYTES))
        except ValueError as error:
            raise JournalError(f"cannot read {path}: {error}") from None
        if journal is not None and header.journal != journal:
            whose = f"{hex64(header.journal)}, not {hex64(journal)}"
            raise JournalError(f"cannot read {path}: it belongs to journal {whose}")
        # Records are read in the order of the file names: a file under another's name
        # would put them out of order.
        named = SEGMENT_NAME.fullmatch(path.name)
        if named and int(named[1]) != header.segment:
            msg = f"cannot read {path}: its header is of segment {header.segment}"
            raise JournalError(msg)
        # Never ask for more than there is: it would be allocated first.
        file_bytes = os.fstat(file.fileno()).st_size
        body = file.read(min(header.slots * RECORD_BYTES, file_bytes))
        # Read again: what was lost before a record that was just read is counted.
        file.seek(LOST_OFFSET)
        (lost,) = LOST.unpack(file.read(LOST.size))
    flaws = [header.seal_flaw] if header.seal_flaw else []
    lost = max(header.lost, lost)
    if lost > LOST_MAX:
        flaws.append(f"the number of lost records at byte {LOST_OFFSET} is damaged")
        lost = 0
    header = attrs.evolve(header, lost=lost)
    body = _sealed_body(header, body, flaws) if header.seal else _open_body(body)
    used = len(body) // RECORD_BYTES
    slots = memoryview(body), header.first_n, used
    invalid = sorted({*invalid_slots(*slots), *impossible_slots(*slots)})
    if header.seal or header.seal_flaw:
        flaws += _torn(body, invalid)
    if header.seal:
        count = used - len(invalid)
        if count != header.seal.count:
            flaws.append(f"it holds {count} records, its seal says {header.seal.count}")
    return StoredSegment(path, header, body, tuple(invalid), tuple(flaws))


def read_segment_array(path: Path) -> np.ndarray[Any, Any]:
    """The valid records of one file as a structured array; raises as `read_segment`."""
    return read_segment(path).array()


def problem_of(error: JournalError | OSError, path: Path) -> str:
    """Why a file could not be read, in one line for people."""
    if isinstance(error, JournalError):
        return str(error)
    why = "it is gone" if isinstance(error, FileNotFoundError) else error.strerror
    return f"cannot read {path}: {why}"


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=_BUFFER_BYTES)
    except FileNotFoundError:
        # Its writer may have sealed it since the folder was listed.
        if not path.name.endswith(OPEN_SUFFIX):
            raise
        sealed = path.name.removesuffix(OPEN_SUFFIX) + SEALED_SUFFIX
        return path.with_name(sealed).open("rb", buffering=_BUFFER_BYTES)


def _open_body(body: bytes) -> bytes:
    """Up to the last slot that is not empty, cut to whole slots."""
    used = -(-len(body.rstrip(b"\0")) // RECORD_BYTES)
    return body[: min(used, len(body) // RECORD_BYTES) * RECORD_BYTES]


def _sealed_body(header: SegmentHeader, body: bytes, flaws: list[str]) -> bytes:
    assert header.seal is not None
    due = header.seal.used * RECORD_BYTES
    if len(body) < due:
        flaws.append(
            f"it ends at byte {HEADER_BYTES + len(body)}, expected {HEADER_BYTES + due}"
        )
        return body[: len(body) // RECORD_BYTES * RECORD_BYTES]
    body = body[:due]
    if zlib.crc32(body) != header.seal.crc32:
        end = HEADER_BYTES + due
        flaws.append(f"the checksum of bytes {HEADER_BYTES} to {end} is wrong")
    return body


def _torn(body: bytes, invalid: list[int]) -> list[str]:
    """Slots that are neither valid nor empty: nobody writes half a record and seals."""
    torn = [
        HEADER_BYTES + slot * RECORD_BYTES
        for slot in invalid
        if body[slot * RECORD_BYTES : (slot + 1) * RECORD_BYTES] != _EMPTY
    ]
    if not torn:
        return []
    return [f"{len(torn)} damaged records, the first at byte {torn[0]}"]
