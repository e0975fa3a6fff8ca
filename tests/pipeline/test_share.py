"""The rows of one segment, whatever the state of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.errors import JournalError
from bus.journal import stored_segment
from bus.journal.format import RecordKind
from bus.journal.reader import StoredJournal
from bus.journal.writer import Journal
from bus.pipeline import share as module
from bus.pipeline.share import Share, packed
from tests.journal.histories import Condition, History, journal_id, store
from tests.journal.telling import tell
from tests.pipeline.reading import facts, long_history, read, reader

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.stored_segment import StoredSegment


def test_small_segments_share_a_task_and_large_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(long_history(), tmp_path, slots=64)
    segment_bytes = 4096 + 64 * 80

    def sizes() -> list[int]:
        return [len(task) for task in packed(Share.list_all(tmp_path))]

    assert sizes() == [9]
    monkeypatch.setattr(module, "TASK_BYTES", 2 * segment_bytes)
    assert sizes() == [2, 2, 2, 2, 1]
    monkeypatch.setattr(module, "TASK_BYTES", 1)
    assert sizes() == [1] * 9
    assert len(reader(tmp_path).partitions()) == 9
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
        assert (row["damaged"], row["problems"], row["unnamed"]) == (0, None, None)


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


def test_a_vanished_segment_is_reported_and_a_sealed_one_is_found(
    tmp_path: Path,
) -> None:
    condition = Condition(closed=False, sealed=False)
    (folder,) = store(long_history(), tmp_path, slots=64, conditions={0: condition})
    shares = Share.list_all(tmp_path)
    (open_one,) = folder.glob("*.open.qbj")
    open_one.rename(open_one.with_name(open_one.name.replace(".open", "")))
    (folder / "seg-00000.qbj").unlink()

    rows = [share.read(coded=True)[0] for share in shares]

    assert (
        rows[0]["problems"]
        == f"cannot read {folder / 'seg-00000.qbj'}: it no longer exists"
    )
    assert rows[0]["damaged"] == 0
    assert rows[-1]["problems"] is None
    assert rows[-1]["records"] > 0


def test_a_vanished_folder_is_reported_and_gives_no_records(tmp_path: Path) -> None:
    (folder,) = store(long_history(), tmp_path, slots=64)
    share = Share.list_all(tmp_path)[0]
    folder.rename(tmp_path / "elsewhere")

    assert list(share.events()) == []
    row, _ = share.read(coded=True)
    assert row["journal"] == journal_id(0)
    assert (row["records"], row["damaged"]) == (0, 0)
    assert str(folder) in row["problems"]


def test_a_folder_without_journals_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal in"):
        Share.list_all(tmp_path)


def test_an_unreadable_side_file_costs_names_and_nothing_else(tmp_path: Path) -> None:
    (folder,) = store(long_history(), tmp_path, slots=64)
    before = read(tmp_path)
    (folder / "meta.jsonl").write_text("{{{\n")

    rows = read(tmp_path)

    assert [row["n"] for row in rows] == [row["n"] for row in before]
    assert {row["task"] for row in rows} == {None}
    assert StoredJournal(folder).id == journal_id(0)


def test_facts_written_while_a_segment_is_read_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It adds a name, closes its journal and continues before the records are read."""
    living: list[Journal] = []
    read_segment = stored_segment.read_segment

    def meanwhile(path: Path, journal: int) -> StoredSegment:
        if living:
            writer = living.pop()
            tell(writer, local="new")
            writer.close()
            tell(writer)
        return read_segment(path, journal)

    monkeypatch.setattr(module, "read_segment", meanwhile)
    living.append(Journal(tmp_path / "one"))
    (share, *_) = Share.list_all(tmp_path / "one")
    rows = [row for batch in share.events() for row in batch.to_pylist()]
    living.append(Journal(tmp_path / "other"))
    (fact, *_) = facts(tmp_path / "other")  # a spare may follow

    assert [row["task"] for row in rows if row["code"] == RecordKind.SEND] == ["new"]
    assert fact["late"]
