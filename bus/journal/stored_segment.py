"""`StoredSegment`: one segment file as found on disk, whole, torn or damaged.

The reader never trusts the file: it reports each error with its byte, and still uses
the valid records. A segment may be read while it is written. It is read, not mapped: a
writer that closes truncates the file, and access to the truncated part of a map would
kill the reader.
"""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import attrs

from bus.errors import JournalError
from bus.journal.format import (
    RECORD,
    RECORD_BYTES,
    Record,
    RecordKind,
    dtype,
    impossible_slots,
    invalid_slots,
)
from bus.journal.header import HEADER_BYTES, LOST, LOST_MAX, LOST_OFFSET, SegmentHeader
from bus.journal.segment import OPEN_SUFFIX, SEALED_SUFFIX
from bus.journal.wording import hex64

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

__all__ = [
    "SEGMENT_NAME",
    "StoredSegment",
    "final_end",
    "is_spare_gone",
    "problem_of",
    "read_range",
    "read_segment",
    "read_segment_array",
]

SEGMENT_NAME: Final = re.compile(r"seg-([0-9]+)(?:\.open)?\.qbj")

# No longer than the header, so that the second reading of `LOST` reads the file: the
# default buffer of Python 3.14 holds the records and the header together.
_BUFFER_BYTES: Final = HEADER_BYTES

_EMPTY: Final = bytes(RECORD_BYTES)
_SCAN_SLOTS: Final = 4096  # of a live segment, examined at a time
_MONO_WORD: Final = 2  # the place of `mono` in a record, in words of eight bytes


@attrs.frozen
class StoredSegment:
    """The content of one file.

    body: its used slots. In an open segment, these end with the last slot that is not
      empty.
    invalid: the used slots that do not hold their record, or hold impossible numbers;
      each counts as a hole.
    flaws: its contradictions, one text each, with the byte.
    """

    path: Path
    header: SegmentHeader
    body: bytes = attrs.field(repr=False)
    invalid: tuple[int, ...]
    flaws: tuple[str, ...]

    @property
    def used(self) -> int:
        """The number of slots that were drawn, as far as the file shows."""
        return len(self.body) // RECORD_BYTES

    @property
    def count(self) -> int:
        """The number of valid records."""
        return self.used - len(self.invalid)

    @property
    def first(self) -> int | None:
        """The number of the first valid record."""
        return next(self._numbers(range(self.used)), None)

    @property
    def last(self) -> int | None:
        """The number of the last valid record."""
        return next(self._numbers(range(self.used - 1, -1, -1)), None)

    @property
    def published(self) -> int:
        """The number below which every record is final, also while it is written.

        A record below it that is missing will never be written. One above it may be.
        """
        end = self.header.first_n + self.used
        if self.header.seal:
            return end
        published = self.header.first_n + self.header.published
        # A slot with its record is final; the first one behind without it may not be.
        return next(
            (
                number
                for number in (self.header.first_n + slot for slot in self.invalid)
                if number >= published
            ),
            max(published, end),
        )

    @property
    def last_mono(self) -> int:
        """The latest time of a valid record; at least one must exist."""
        # A cast to words of eight bytes, the third of which is the time, is by far the
        # fastest way.
        times = memoryview(self.body).cast("q")[_MONO_WORD :: RECORD_BYTES // 8]
        if not self.invalid:
            return max(times)
        invalid = frozenset(self.invalid)
        return max(time for slot, time in enumerate(times) if slot not in invalid)

    @property
    def anchors(self) -> list[tuple[int, int]]:
        """The instants known on both clocks, as (mono, wall), from its records."""
        kinds = self.body[::RECORD_BYTES]  # the first byte of each record
        found = []
        for kind in (RecordKind.OPEN, RecordKind.CLOCK):
            slot = kinds.find(kind)
            while slot >= 0:
                record = Record._make(
                    RECORD.unpack_from(self.body, slot * RECORD_BYTES)
                )
                # 0 is no wall clock, and neither is a value out of range.
                if slot not in self.invalid and 0 < record.origin < 2**63:
                    found.append((record.mono, record.origin))
                slot = kinds.find(kind, slot + 1)
        return found

    @property
    def blank(self) -> bool:
        """True if it is the first segment of a journal and holds no record.

        Its writer may have died while it wrote the first record, OPEN.
        """
        made = self.header.segment == 0 and self.header.seal is None and not self.lost
        return made and self.used <= 1 and not self.count and not self.flaws

    @property
    def lost(self) -> int:
        """The number of records that the journal had lost, as far as the file shows."""
        seal = self.header.seal
        return max(self.header.lost, seal.lost if seal else 0)

    @property
    def problems(self) -> list[str]:
        """Its flaws, one line each, with the file."""
        return [f"{self.path} is damaged: {flaw}" for flaw in self.flaws]

    @property
    def closes(self) -> bool:
        """True if one of its valid records is a CLOSE."""
        kinds = self.body[::RECORD_BYTES]
        slot = kinds.find(RecordKind.CLOSE)
        while slot in self.invalid:
            slot = kinds.find(RecordKind.CLOSE, slot + 1)
        return slot >= 0

    def records(self) -> Iterator[Record]:
        """Yield its valid records, in order."""
        make = Record._make
        if not self.invalid:
            yield from map(make, RECORD.iter_unpack(self.body))
            return
        invalid = frozenset(self.invalid)
        for slot, fields in enumerate(RECORD.iter_unpack(self.body)):
            if slot not in invalid:
                yield make(fields)

    def array(self) -> np.ndarray[Any, Any]:
        """Return its valid records as an array of `bus.journal.format.dtype`."""
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
        JournalError: it is not a segment; its header is damaged, or names another
          journal; or the segment numbers of header and file name differ.
        OSError: it cannot be read; FileNotFoundError if it does not exist any more.
    """
    with _open(path) as file:
        header = _header(file, path)
        if journal is not None:
            _check_journal(path, header, journal)
        # Records are read in the order of the file names: a file under a wrong name
        # would break their order.
        named = SEGMENT_NAME.fullmatch(path.name)
        if named and int(named[1]) != header.segment:
            msg = f"cannot read {path}: its header is of segment {header.segment}"
            raise JournalError(msg)
        # Never read more than the file holds: the buffer would be allocated first.
        file_bytes = os.fstat(file.fileno()).st_size
        body = file.read(min(header.slots * RECORD_BYTES, file_bytes))
        # Read again: the count must include losses before a record that was just read.
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


def final_end(
    path: Path, known: int, *, has_writer: bool = True
) -> tuple[SegmentHeader, int]:
    """Return the head of a file, and the number after its last final record.

    It is `StoredSegment.published`, of a file that is read only from there on.

    known: a number up to which all slots are known to be final, in any segment.
    has_writer: False if the process of the journal has ended: all records are final.

    Raises:
        JournalError: the file is not a segment.
        OSError: it cannot be read.
    """
    with _open(path) as file:
        header = _header(file, path)
        if header.seal is not None:
            return header, header.first_n + header.seal.used
        end = max(known, header.first_n + header.published)
        limit = header.first_n + header.slots
        if not has_writer:
            used = len(_open_body(_slots(file, header, end, limit))) // RECORD_BYTES
            return header, end + used
        end = _valid_end(file, header, end, limit)
    return header, min(end, limit)


def _valid_end(file: BinaryIO, header: SegmentHeader, end: int, limit: int) -> int:
    """Return the number behind the valid slots that follow each other from ``end``."""
    while end < limit:
        body = _slots(file, header, end, min(end + _SCAN_SLOTS, limit))
        count = len(body) // RECORD_BYTES
        invalid = invalid_slots(memoryview(body), end, count)
        end += invalid[0] if invalid else count
        if invalid or not count:
            break
    return end


def read_range(path: Path, journal: int, first: int, end: int) -> StoredSegment:
    """Read some final records of one file: those from number ``first`` to before `end`.

    The head of the result has ``first`` as its first number.

    Raises:
        JournalError: the file is not a segment of that journal, or a slot is damaged.
        OSError: it cannot be read; FileNotFoundError if it does not exist any more.
    """
    with _open(path) as file:
        header = _header(file, path)
        _check_journal(path, header, journal)
        body = _slots(file, header, first, end)
    count = len(body) // RECORD_BYTES
    slots = memoryview(body), first, count
    invalid = sorted({*invalid_slots(*slots), *impossible_slots(*slots)})
    # A killed process may leave a partial record in an open segment: a hole.
    if count < end - first or (header.seal is not None and _torn(body, invalid)):
        numbers = f"records {first} to {end - 1}"
        raise JournalError(f"cannot read {numbers} of {path}: the file is damaged")
    header = attrs.evolve(header, first_n=first, slots=count)
    return StoredSegment(path, header, body, tuple(invalid), ())


def read_segment_array(path: Path) -> np.ndarray[Any, Any]:
    """Return the valid records of one file as an array; raises as `read_segment`."""
    return read_segment(path).array()


def is_spare_gone(error: JournalError | OSError, path: Path) -> bool:
    """Return True if a file could not be read because its journal was closed meanwhile.

    The close deletes the spare segments. No other open file disappears: its writer
    seals it first, and if retention deletes it then, the numbers of the records show
    that they are missing.
    """
    return isinstance(error, FileNotFoundError) and path.name.endswith(OPEN_SUFFIX)


def problem_of(error: JournalError | OSError, path: Path) -> str:
    """Return why a file could not be read, in one line for people."""
    if isinstance(error, JournalError):
        return str(error)
    gone = isinstance(error, FileNotFoundError)
    why = "it no longer exists" if gone else error.strerror
    return f"cannot read {path}: {why}"


def _header(file: BinaryIO, path: Path) -> SegmentHeader:
    try:
        return SegmentHeader.unpack(file.read(HEADER_BYTES))
    except ValueError as error:
        raise JournalError(f"cannot read {path}: {error}") from None


def _check_journal(path: Path, header: SegmentHeader, journal: int) -> None:
    if header.journal != journal:
        whose = f"{hex64(header.journal)}, not {hex64(journal)}"
        raise JournalError(f"cannot read {path}: it belongs to journal {whose}")


def _slots(file: BinaryIO, header: SegmentHeader, first: int, end: int) -> bytes:
    """Return the slots of some records, fewer if the file ends before."""
    file.seek(HEADER_BYTES + (first - header.first_n) * RECORD_BYTES)
    body = file.read((end - first) * RECORD_BYTES)
    return body[: len(body) // RECORD_BYTES * RECORD_BYTES]


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
    """Return the slots up to the last one that is not empty, cut to whole slots."""
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
    """Describe slots neither valid nor empty: no writer seals a partial record."""
    torn = [
        HEADER_BYTES + slot * RECORD_BYTES
        for slot in invalid
        if body[slot * RECORD_BYTES : (slot + 1) * RECORD_BYTES] != _EMPTY
    ]
    if not torn:
        return []
    return [f"{len(torn)} damaged records, the first at byte {torn[0]}"]
