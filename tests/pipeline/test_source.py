"""Journals as Arrow batches: every record, every name, and what cannot be read.

The readers are called as Spark's workers call them, without Spark.
"""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types
import pytest

from bus.errors import JournalError
from bus.journal.format import FIELDS, Kind, kind_name
from bus.journal.reader import StoredJournal, open_journals
from bus.journal.writer import Journal
from bus.pipeline import source
from bus.pipeline.schemas import EVENTS, SEGMENTS, arrow_schema, signed
from bus.pipeline.source import JournalSource, Share, segment_facts
from queuebroker.observer import Operation, Reason
from tests.journal.histories import Condition, History, clean, journal_id, store
from tests.journal.telling import tell

if TYPE_CHECKING:
    from pathlib import Path

_MONO = 10**12  # of record 0, and a tenth of the wall clock, in `store`


def long_history(journals: int = 1) -> History:
    """Enough for several segments of 64 records in each journal."""
    return clean(1, channels=40, steps=600, journals=journals)


def read(folder: Path) -> list[dict[str, Any]]:
    """All rows, by the way Spark takes: partitions, pickled, read one by one."""
    reader = JournalSource({"path": str(folder)}).reader(schema=None)  # type: ignore[arg-type] # it is not looked at
    found = []
    for partition in reader.partitions():
        task = pickle.loads(pickle.dumps(partition))
        for batch in pickle.loads(pickle.dumps(reader)).read(task):
            assert isinstance(batch, pa.RecordBatch)
            assert batch.schema.equals(arrow_schema(EVENTS))
            found += batch.to_pylist()
    return found


def facts(folder: Path) -> list[dict[str, Any]]:
    found = []
    for share in Share.list_all(folder):
        batch = segment_facts(share)
        assert batch.schema.equals(arrow_schema(SEGMENTS))
        found += batch.to_pylist()
    return found


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


def test_no_field_of_the_record_is_forgotten() -> None:
    columns = {column.name for column in EVENTS}
    told_otherwise = {"mid": "port", "version": None, "mark": None}

    for name, _ in FIELDS:
        column = told_otherwise.get(name, name)
        assert column is None or column in columns


def test_numbers_of_all_sizes_keep_their_bits(tmp_path: Path) -> None:
    top = 2**64 - 1
    with Journal(tmp_path) as journal:
        journal.emit(200, 255, 65535, 2**32 - 1, top, top, top, top, 0, 0, 7, 8, 255)

    (row,) = [row for row in read(tmp_path) if row["code"] == 200]

    assert row["flow"] == row["seq"] == row["origin"] == row["port"] == -1
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
        # As the housekeeper does, once the wall clock says 1970 again.
        journal.emit(Kind.CLOCK, origin=5_000_000)
        tell(journal, seq=2)

    before, clock, after = (
        row for row in read(tmp_path) if row["code"] in (Kind.SEND, Kind.CLOCK)
    )

    assert before["wall_us"] > 10**15
    assert clock["wall_us"] == 5000
    passed_us = (after["mono"] - clock["mono"]) // 1000
    assert after["wall_us"] - 5000 - passed_us in (0, 1)


def test_batches_are_of_moderate_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BATCH_RECORDS", 50)
    store(long_history(), tmp_path, slots=128)
    reader = JournalSource({"path": str(tmp_path)}).reader(schema=None)  # type: ignore[arg-type] # it is not looked at

    sizes = [len(b) for task in reader.partitions() for b in reader.read(task)]

    assert sizes[:4] == [50, 50, 28, 50]


def test_small_segments_share_a_task_and_large_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(long_history(), tmp_path, slots=64)  # 4,096 + 64 * 80 bytes each
    reader = JournalSource({"path": str(tmp_path)}).reader(schema=None)  # type: ignore[arg-type] # it is not looked at
    segments = len(list(tmp_path.rglob("*.qbj")))
    assert segments == 9

    assert len(list(reader.partitions())) == 1
    monkeypatch.setattr(source, "TASK_BYTES", 2 * (4096 + 64 * 80))
    assert len(list(reader.partitions())) == -(-segments // 2)
    monkeypatch.setattr(source, "TASK_BYTES", 1)
    assert len(list(reader.partitions())) == segments
    assert len(read(tmp_path)) == sum(row["records"] for row in facts(tmp_path))


def test_a_segment_is_summed_up(tmp_path: Path) -> None:
    condition = Condition(closed=False, sealed=False, lost=3, holes=(2, 5), late=True)
    (folder,) = store(long_history(), tmp_path, slots=64, conditions={0: condition})

    rows = facts(tmp_path)

    first, last = rows[0], rows[-1]
    assert (first["machine"], first["process"]) == ("machine", folder.name)
    assert (first["program"], first["boot"]) == ("history", "00" * 16)
    assert [row["segment"] for row in rows] == list(range(len(rows)))
    assert first["records"] == 62
    assert first["sealed"]
    assert not last["sealed"]
    for row in rows:
        assert row["journal"] == journal_id(0)
        assert (row["lost"], row["late"]) == (3, True)
        assert (row["damaged"], row["problems"]) == (0, None)


def test_a_journal_without_segments_is_not_forgotten(tmp_path: Path) -> None:
    store(History(), tmp_path, conditions={0: Condition(beginning=9)})

    (row,) = facts(tmp_path)

    assert (row["journal"], row["path"], row["records"]) == (journal_id(0), None, 0)
    assert read(tmp_path) == []


def test_a_damaged_segment_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    store(long_history(), tmp_path, slots=64, conditions={0: Condition(damaged=True)})

    rows = facts(tmp_path)

    assert [row["damaged"] for row in rows] == [0] * (len(rows) - 1) + [1]
    assert "is damaged: the checksum of bytes" in rows[-1]["problems"]
    assert len(read(tmp_path)) == sum(row["records"] for row in rows)


def test_a_file_that_is_no_segment_is_damage_and_not_the_end(tmp_path: Path) -> None:
    (folder,) = store(long_history(), tmp_path, slots=64)
    before = len(read(tmp_path))
    rubbish = folder / "seg-00099.qbj"
    rubbish.write_bytes(b"rubbish")

    last = facts(tmp_path)[-1]

    assert (last["path"], last["damaged"]) == (str(rubbish), 1)
    assert str(rubbish) in last["problems"]
    assert len(read(tmp_path)) == before


def test_a_segment_of_another_journal_is_not_taken_for_ours(tmp_path: Path) -> None:
    ours, theirs = store(long_history(journals=2), tmp_path, slots=64)
    stray = ours / "seg-00099.qbj"
    (theirs / "seg-00000.qbj").rename(stray)

    (row,) = [row for row in facts(tmp_path) if row["path"] == str(stray)]

    assert (row["damaged"], row["records"]) == (1, 0)
    whose = f"{journal_id(1):016x}, not {journal_id(0):016x}"
    assert f"it belongs to journal {whose}" in row["problems"]
    taken = [row for row in read(tmp_path) if row["journal"] == journal_id(0)]
    assert len(taken) == sum(
        row["records"] for row in facts(tmp_path) if row["journal"] == journal_id(0)
    )


def test_a_segment_that_vanishes_is_told_and_one_that_is_sealed_is_found(
    tmp_path: Path,
) -> None:
    condition = Condition(closed=False, sealed=False)
    (folder,) = store(long_history(), tmp_path, slots=64, conditions={0: condition})
    shares = Share.list_all(tmp_path)
    (open_one,) = folder.glob("*.open.qbj")
    open_one.rename(open_one.with_name(open_one.name.replace(".open", "")))
    (folder / "seg-00000.qbj").unlink()

    rows = [row for share in shares for row in segment_facts(share).to_pylist()]

    assert rows[0]["problems"] == f"cannot read {folder / 'seg-00000.qbj'}: it is gone"
    assert rows[0]["damaged"] == 0
    assert rows[-1]["problems"] is None
    assert rows[-1]["records"] > 0


def test_a_folder_that_vanishes_is_told_and_gives_no_records(tmp_path: Path) -> None:
    (folder,) = store(long_history(), tmp_path, slots=64)
    share = Share.list_all(tmp_path)[0]
    task = source._Task([share])
    reader = JournalSource({"path": str(tmp_path)}).reader(schema=None)  # type: ignore[arg-type] # it is not looked at
    folder.rename(tmp_path / "elsewhere")

    assert list(reader.read(task)) == []
    (row,) = segment_facts(share).to_pylist()
    assert row["journal"] == journal_id(0)
    assert row["records"] == 0
    assert str(folder) in row["problems"]


def test_a_folder_without_journals_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal in"):
        Share.list_all(tmp_path)


def test_an_unreadable_side_file_costs_names_and_nothing_else(tmp_path: Path) -> None:
    (folder,) = store(long_history(), tmp_path, slots=64)
    before = read(tmp_path)
    meta = folder / "meta.jsonl"
    first = json.loads(meta.read_text().splitlines()[0])
    assert first["is"] == "journal"
    meta.write_text("{{{\n")

    rows = read(tmp_path)

    assert [row["n"] for row in rows] == [row["n"] for row in before]
    assert {row["task"] for row in rows} == {None}
    assert StoredJournal(folder).id == journal_id(0)
