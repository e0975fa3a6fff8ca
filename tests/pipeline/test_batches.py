"""Records as Arrow batches: every field, every name, the wall clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.journal.format import COUNT_MAX, FIELDS, RecordKind, kind_name
from bus.journal.reader import open_journals
from bus.journal.writer import Journal
from bus.model.events import BusOperation
from bus.pipeline import batches
from bus.pipeline.schemas import EVENTS, signed
from queuebroker.observer import Operation, Reason
from tests.journal.histories import store
from tests.journal.telling import tell
from tests.pipeline.reading import long_history, read, reader

if TYPE_CHECKING:
    from pathlib import Path


_MONO = 10**12  # of record 0, and a tenth of the wall clock, in `store`


@pytest.mark.deep
def test_every_field_of_every_record_is_a_column(tmp_path: Path) -> None:
    store(long_history(journals=2), tmp_path, slots=64)

    rows = read(tmp_path)

    expected = [
        (journal, record)
        for journal in open_journals(tmp_path)
        for record in journal.records()
    ]
    assert len(rows) == len(expected) > 200
    renamed = {"code": "kind", "port": "mid"}
    for row, (journal, record) in zip(rows, expected, strict=True):
        assert row["journal"] == signed(journal.id)
        assert row["kind"] == kind_name(record.kind)
        assert row["channel"] == record.flow >> 1
        assert row["task"] == (journal.name(record.task) or None)
        assert row["peer"] == (journal.name(record.peer) or None)
        for name in ("code", "flags", "n", "mono", "flow", "seq", "origin", "port"):
            assert row[name] == getattr(record, renamed.get(name, name)), name
        for name in ("size", "wait_us", "depth", "hop"):
            assert row[name] == getattr(record, name), name


@pytest.mark.deep
def test_the_location_of_a_payload_is_no_number_of_a_message(tmp_path: Path) -> None:
    with Journal(tmp_path, payloads=True) as journal:
        sink = journal._trace_sink()
        flags, location = sink.write_payload(b"abc", None, failed=False)
        sink.record(BusOperation.COMMAND, 1, 7, 2, flags=flags, location=location)

    (row,) = [row for row in read(tmp_path) if row["kind"] == "command"]
    assert location
    assert (row["seq"], row["port"], row["flags"]) == (0, 7, flags)


@pytest.mark.deep
def test_no_field_of_the_record_is_forgotten() -> None:
    columns = {column.name for column in EVENTS}
    told_otherwise = {"mid": "port", "version": None, "mark": None}

    for name, _ in FIELDS:
        column = told_otherwise.get(name, name)
        assert column is None or column in columns


@pytest.mark.deep
def test_numbers_of_all_sizes_keep_their_bits(tmp_path: Path) -> None:
    top, most = 2**64 - 1, COUNT_MAX
    with Journal(tmp_path) as journal:
        journal.emit(200, 255, 65535, 2**32 - 1, top, most, top, most, 0, 0, 7, 8, 255)

    (row,) = [row for row in read(tmp_path) if row["code"] == 200]

    assert row["flow"] == row["origin"] == -1
    assert row["seq"] == row["port"] == COUNT_MAX
    assert row["channel"] == top >> 1
    assert (row["size"], row["flags"], row["hop"]) == (2**32 - 1, 255, 255)
    assert (row["kind"], row["reason"]) == ("kind-200", "reason-65535")


def test_names_are_resolved_and_unknown_ones_are_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        tell(journal, local="near", remote="", reason=Reason.DISCARDED)
        tell(journal, local="half \udc80 of a character", operation=Operation.DROP)
    (meta,) = tmp_path.rglob("meta.jsonl")
    lines = meta.read_text().splitlines()
    meta.write_text("\n".join(line for line in lines if '"far"' not in line) + "\n")

    send, drop = (row for row in read(tmp_path) if row["code"] >= 16)

    assert (send["task"], send["peer"]) == ("near", None)
    assert (send["kind"], send["reason"]) == ("send", "discarded")
    assert send["thread"] == "MainThread"
    assert (drop["task"], drop["peer"]) == ("half \\udc80 of a character", None)
    assert drop["reason"] is None


def test_the_wall_clock_follows_the_anchor_before_each_record(tmp_path: Path) -> None:
    """Record n of `store` was made n microseconds after the anchor of its segment."""
    store(long_history(), tmp_path, slots=64)

    rows = read(tmp_path)

    assert [row["wall_us"] for row in rows] == [_MONO // 100 + row["n"] for row in rows]


def test_a_clock_that_was_set_is_followed_from_its_anchor_on(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        tell(journal, seq=1)
        # As the housekeeper does when the wall clock is back at 1970.
        journal.emit(RecordKind.CLOCK, origin=5_000_000)
        tell(journal, seq=2)

    before, clock, after = (
        row
        for row in read(tmp_path)
        if row["code"] in (RecordKind.SEND, RecordKind.CLOCK)
    )

    assert before["wall_us"] > 10**15
    assert clock["wall_us"] == 5000
    passed_us = (after["mono"] - clock["mono"]) // 1000
    assert after["wall_us"] - 5000 - passed_us in (0, 1)


def test_batches_are_of_moderate_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_RECORDS", 50)
    store(long_history(), tmp_path, slots=128)
    source = reader(tmp_path)

    sizes = [len(b) for task in source.partitions() for b in source.read(task)]

    assert sizes[:4] == [50, 50, 28, 50]
