"""Recorded notifications as rows: the columns of Spark's Kafka source, and the journal.

A row is one notification whose payload was kept, however many tasks it went to. In the
journal of its sender each destination has a record, and one place of the payload joins
them: the first of them is the row. So a range is read with the records before it.

The name of a sender is in its REGISTER record, which may precede the range by any
number of records. Each process that reads keeps the names that it has found.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types

from bus.errors import JournalError
from bus.journal.follower import lose
from bus.journal.format import RECORD, Flag, Record, RecordKind
from bus.journal.stored_segment import StoredSegment
from bus.model.payload import decode
from bus.pipeline.batches import BATCH_RECORDS, storable, wall_us
from bus.pipeline.schemas import MESSAGES, arrow_schema, signed
from bus.pipeline.share import stored_journal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bus.journal.follower import Range
    from bus.journal.reader import StoredJournal
    from bus.model.specification import Specification

__all__ = ["message_batches"]

# Records of one notification are written by one call of one thread. As many records of
# others may come between them.
LOOK_BACK: Final = 16_384
JOURNALS_KEPT: Final = 64

_FIRST_BIT: Final = 0x7FFF_FFFF  # Kafka's `partition` is a positive INT

_Array = np.ndarray[Any, Any]


def message_batches(
    part: Range, patterns: Sequence[Specification]
) -> Iterator[pa.RecordBatch]:
    """Yield the notifications of a range, in order.

    patterns: of the names of senders; empty for all.

    Raises:
        JournalError: records, payloads or names are lost.
    """
    segment = part.read()
    if segment is None:
        return
    records = _origins(segment)
    if not len(records):
        return
    journal = stored_journal(part.folder)
    names = _names(part.folder, part.journal)
    names.find(part, records, journal)
    first = _first_of_each(records, part)
    times = wall_us(journal, segment, records["mono"])
    try:
        for start in range(0, len(records), BATCH_RECORDS):
            rows: list[dict[str, Any]] = []
            for place in range(start, min(start + BATCH_RECORDS, len(records))):
                if first[place]:
                    record = Record._make(RECORD.unpack(records[place].tobytes()))
                    at_us = int(times[place])
                    rows += _rows(record, at_us, part, names, patterns, journal)
            yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema(MESSAGES))
    finally:
        journal.close()  # it is cached, and a worker may read many journals


def _rows(
    record: Record,
    time_us: int,
    part: Range,
    names: _Names,
    patterns: Sequence[Specification],
    journal: StoredJournal,
) -> Iterator[dict[str, Any]]:
    """Yield the row of a notification, none if no pattern matches its sender."""
    name = names.of.get(record.origin)
    if patterns and name is None:
        why = "the name of its sender was deleted"
        lose(part.journal, str(record.n), why, may_lack=part.may_lack)
        return
    if patterns and not any(each.matches(name or "") for each in patterns):
        return
    encoded = None if record.flags & Flag.TRUNCATED else journal.payload(record)
    if encoded is None:
        why = "the payload was cut, deleted or damaged"
        lose(part.journal, str(record.n), why, may_lack=part.may_lack)
        return
    yield {
        "key": None,
        "value": _value(encoded),
        "topic": None if name is None else storable(name),
        "partition": part.journal & _FIRST_BIT,
        "offset": record.n,
        "timestamp": time_us,
        "timestampType": 0,
        "journal": signed(part.journal),
    }


def _value(encoded: bytes) -> bytes:
    """Return bytes as they are, text in UTF-8, and all else as JSON."""
    payload = decode(encoded)
    if isinstance(payload, (bytes, str)):
        return payload if isinstance(payload, bytes) else payload.encode()
    return msgspec.json.encode(payload, enc_hook=_array)


def _array(value: object) -> object:
    if isinstance(value, memoryview):
        return value.tolist()
    kind = type(value).__name__
    raise NotImplementedError(
        f"a payload with a value of type {kind} has no form in JSON: name other senders"
        " with the option subscribe"
    )


def _origins(segment: StoredSegment) -> _Array:
    """Return the records that accept notifications whose payload is kept."""
    records: _Array = segment.array()
    kept = (records["flags"] & Flag.PAYLOAD) != 0
    sent = (records["kind"] == RecordKind.NOTIFY) & (records["hop"] == 0)
    found: _Array = records[kept & sent]
    return found


def _first_of_each(records: _Array, part: Range) -> _Array:
    """Return which records are the first of their notification."""
    _, places = np.unique(records["seq"], return_index=True)
    first = np.zeros(len(records), bool)
    first[places] = True
    for earlier in _before(part):
        first &= ~np.isin(records["seq"], _origins(earlier)["seq"])
    return first


def _before(part: Range) -> Iterator[StoredSegment]:
    """Yield the records before a range, as far as they are still there."""
    begin = max(0, part.first - LOOK_BACK)
    for segment in range(begin // part.slots, part.segment + 1):
        first = max(begin, segment * part.slots)
        end = min(part.first, (segment + 1) * part.slots)
        if first < end:
            piece = attrs.evolve(part, segment=segment, first=first, end=end)
            try:
                found = attrs.evolve(piece, may_lack=False).read()
            except JournalError:
                continue
            assert found is not None
            yield found


class _Names:
    """The names of the senders in one journal, found so far.

    of: by registration. end: all records before it were examined.
    """

    def __init__(self) -> None:
        self.of: dict[int, str] = {}
        self.end = 0

    def find(self, part: Range, records: _Array, journal: StoredJournal) -> None:
        """Find the names of all senders of some records of a range."""
        # Those in the side file are known although the first segments were deleted.
        self.of |= journal.meta.registrations
        unknown = set(np.unique(records["origin"]).tolist()) - self.of.keys()
        if not unknown or self.end >= part.end:
            return
        for number in range(self.end // part.slots, part.segment + 1):
            first = max(self.end, number * part.slots)
            end = min(part.end, (number + 1) * part.slots)
            piece = attrs.evolve(part, segment=number, first=first, end=end)
            try:
                segment = attrs.evolve(piece, may_lack=False).read()
            except JournalError:
                continue  # without it a name may be unknown, which is reported
            assert segment is not None
            found = segment.array()
            found = found[found["kind"] == RecordKind.REGISTER]
            for flow, task in zip(
                found["flow"].tolist(), found["task"].tolist(), strict=True
            ):
                self.of[flow] = journal.name(task)
        self.end = part.end


@functools.lru_cache(maxsize=JOURNALS_KEPT)
def _names(_folder: str, _journal: int) -> _Names:
    return _Names()
