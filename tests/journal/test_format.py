"""The record: its bytes, its marks, its two descriptions."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.journal import format as layout
from bus.journal.format import (
    FIELDS,
    MARK_OFFSET,
    RECORD,
    RECORD_BYTES,
    Record,
    RecordKind,
    dtype,
    kind_name,
    mark,
)
from queuebroker.observer import Operation

LIMITS = {
    name: (np.iinfo(np.dtype(code)).min, np.iinfo(np.dtype(code)).max)
    for name, code in FIELDS
}

records = st.builds(
    Record,
    **{name: st.integers(int(low), int(high)) for name, (low, high) in LIMITS.items()},
)


def test_a_record_has_these_bytes() -> None:
    record = Record(
        kind=RecordKind.RECEIVE,
        flags=0x02,
        reason=0x0403,
        size=0x08070605,
        n=0x100F0E0D0C0B0A09,
        mono=-2,
        flow=0x2827262524232221,
        seq=0x302F2E2D2C2B2A29,
        origin=0x3837363534333231,
        mid=0x403F3E3D3C3B3A39,
        task=0x44434241,
        peer=0x48474645,
        wait_us=0x4C4B4A49,
        depth=0x504F4E4D,
        thread=0x5251,
        hop=0x53,
        version=0x54,
        mark=0x58575655,
    )

    assert RECORD.pack(*record) == bytes.fromhex(
        "21 02 0304 05060708 090a0b0c0d0e0f10 feffffffffffffff 2122232425262728"
        "292a2b2c2d2e2f30 3132333435363738 393a3b3c3d3e3f40 41424344 45464748"
        "494a4b4c 4d4e4f50 5152 53 54 55565758"
    )


@given(records)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    packed = RECORD.pack(*record)

    assert len(packed) == RECORD_BYTES == 80
    assert Record(*RECORD.unpack(packed)) == record


@given(records)
def test_numpy_reads_the_same_fields(record: Record) -> None:
    (row,) = np.frombuffer(RECORD.pack(*record), dtype())

    assert tuple(row.tolist()) == record
    assert dtype().names == Record._fields


def test_every_field_stands_on_its_natural_boundary() -> None:
    fields = dtype().fields
    assert fields is not None
    for name in Record._fields:
        kind, offset = fields[name][:2]
        assert offset % kind.itemsize == 0, name
    assert fields["mark"][1] == MARK_OFFSET


@given(st.integers(0, 2**64 - 1))
def test_a_mark_is_never_zero_and_counts_on(n: int) -> None:
    assert 0 < mark(n) < 2**32
    assert mark(n + 1) in (mark(n) + 1, 1)
    assert struct.pack("<I", mark(n)) != bytes(4)


def test_marks_of_neighbouring_wraps_differ() -> None:
    assert mark(0) != mark(2**32)


def test_queue_kinds_have_the_numbers_of_the_operations() -> None:
    for operation in Operation:
        assert RecordKind[operation.name] == operation.value
    own = {RecordKind.OPEN, RecordKind.CLOSE, RecordKind.CLOCK, RecordKind.LOST}
    assert {kind for kind in RecordKind if kind < 16} == own


@pytest.mark.parametrize(
    ("kind", "name"), [(33, "receive"), (1, "open"), (77, "kind-77")]
)
def test_a_kind_has_a_name_even_if_it_is_unknown(kind: int, name: str) -> None:
    assert kind_name(kind) == name


def test_the_version_is_written_down() -> None:
    assert layout.RECORD_VERSION == 1
