"""Records of a segment as Arrow batches: the columns of `EVENTS`, names resolved.

All work is on whole arrays, never row by row. Spark examines only the schema of the
first batch, and dies without a message if a later one differs: `_batch` makes each one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types

from bus.journal.format import ACCEPTS, Flag, RecordKind, kind_name
from bus.journal.wording import reason_name
from bus.pipeline.schemas import EVENTS, arrow_schema, signed
from queuebroker.observer import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus.journal.reader import StoredJournal
    from bus.journal.stored_segment import StoredSegment

__all__ = ["event_batches", "storable"]

BATCH_RECORDS: Final = 65_536
_PAYLOAD: Final = int(Flag.PAYLOAD)

_Array = np.ndarray[Any, Any]


def event_batches(
    journal: StoredJournal, segment: StoredSegment
) -> Iterator[pa.RecordBatch]:
    """Yield the valid records of a segment, in order."""
    records = segment.array()
    clock = _Clock.of(journal, segment, records)
    for start in range(0, len(records), BATCH_RECORDS):
        yield _batch(records[start : start + BATCH_RECORDS], journal, clock)


def storable(text: str) -> str:
    """Return a text without lone surrogates, which JSON can hold and Arrow cannot."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@attrs.frozen
class _Clock:
    """Instants known on both clocks, in the order of `mono`, in nanoseconds."""

    mono: _Array
    wall: _Array

    @classmethod
    def of(
        cls, journal: StoredJournal, segment: StoredSegment, records: _Array
    ) -> _Clock:
        """Take the anchors of the side file, of the segment's head and its records."""
        pairs = {(segment.header.mono, segment.header.wall)}
        if journal.meta.wall:
            pairs.add((journal.meta.mono, journal.meta.wall))
        is_anchor = np.isin(
            records["kind"], [int(RecordKind.OPEN), int(RecordKind.CLOCK)]
        )
        # 0 is no wall clock, and neither is a value out of range.
        anchors = records[is_anchor & (records["origin"] - np.uint64(1) < 2**63 - 1)]
        walls = anchors["origin"].tolist()
        pairs |= set(zip(anchors["mono"].tolist(), walls, strict=True))
        mono, wall = zip(*sorted(pairs), strict=True)
        return cls(np.array(mono, np.int64), np.array(wall, np.int64))

    def wall_us(self, mono: _Array) -> _Array:
        """Return the wall clock by the anchor before each moment, else by the first."""
        place = np.searchsorted(self.mono, mono, side="right") - 1
        place = np.maximum(place, 0)
        # The difference first: it is small for any clocks.
        wall_ns: _Array = self.wall[place] + (mono - self.mono[place])
        return wall_ns // 1000


def _names_payload(records: _Array) -> _Array:
    kept: _Array = (records["flags"] & _PAYLOAD) != 0
    return kept & np.isin(records["kind"], [*ACCEPTS])


def _batch(records: _Array, journal: StoredJournal, clock: _Clock) -> pa.RecordBatch:
    """Return records as one Arrow batch of exactly the columns of `EVENTS`."""
    names, threads = journal.meta.names.get, journal.meta.threads.get
    flow = _signed(records["flow"])
    columns = {
        "journal": np.full(len(records), signed(journal.id)),
        "n": _signed(records["n"]),
        "code": records["kind"],
        "kind": _texts(records["kind"], kind_name),
        "flags": records["flags"],
        "reason": _texts(records["reason"], _reason),
        "channel": (flow.view(np.uint64) >> np.uint64(1)).view(np.int64),
        "flow": flow,
        # The place of a payload is of use to the reader of its file only.
        "seq": np.where(_names_payload(records), 0, _signed(records["seq"])),
        "port": _signed(records["mid"]),
        "size": records["size"],
        "depth": records["depth"],
        "wait_us": records["wait_us"],
        "mono": records["mono"],
        "wall_us": clock.wall_us(records["mono"]),
        "task": _texts(records["task"], lambda one: names(one) or None),
        "peer": _texts(records["peer"], lambda one: names(one) or None),
        "thread": _texts(records["thread"], lambda one: threads(one) or None),
        "origin": _signed(records["origin"]),
        "hop": records["hop"],
    }
    schema = arrow_schema(EVENTS)
    arrays = [
        column
        if isinstance(column := columns[field.name], pa.Array)
        else pa.array(np.ascontiguousarray(column)).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _signed(numbers: _Array) -> _Array:
    """Return unsigned 64-bit numbers as the signed ones of the same bits."""
    return np.ascontiguousarray(numbers).view(np.int64)


def _texts(numbers: _Array, name: Callable[[int], str | None]) -> pa.Array:
    """Return a name for each number; each distinct number is looked up once."""
    coded = pa.array(np.ascontiguousarray(numbers)).dictionary_encode()
    names = [name(number) for number in coded.dictionary.to_pylist()]
    texts = pa.array([one and storable(one) for one in names], pa.string())
    return texts.take(coded.indices)


def _reason(number: int) -> str | None:
    return None if number == Reason.NONE else reason_name(number)
