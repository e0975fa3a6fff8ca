"""Reading what is there, saying what is not, and where."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.errors import JournalError
from bus.journal.checker import check
from bus.journal.format import RECORD_BYTES, Kind
from bus.journal.header import HEADER_BYTES, SEAL_OFFSET, SegmentHeader
from bus.journal.reader import open_journals, read_segment_array
from bus.journal.stored_segment import read_segment
from bus.journal.writer import Journal
from tests.journal.histories import Condition, Entry, History, clean, journal_id, store
from tests.journal.telling import SMALL, only, tell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus.journal.reader import JournalFacts, StoredJournal


def entries(count: int, journal: int = 0) -> list[Entry]:
    return [
        Entry(Kind.SEND, 1, 1, seq=seq, task="a", peer="b", journal=journal)
        for seq in range(1, count + 1)
    ]


def stored(folder: Path, count: int = 98, **condition: object) -> Path:
    """A journal of ``count`` + 2 records in segments of 40; its folder."""
    given = Condition(**condition)  # type: ignore[arg-type] # as the class says
    (path,) = store(History(entries(count)), folder, slots=40, conditions={0: given})
    return path


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def facts(folder: Path) -> JournalFacts:
    return only(folder).facts()


def test_everything_of_a_whole_journal_is_read(tmp_path: Path) -> None:
    path = stored(tmp_path)

    journal = only(tmp_path)
    records = list(journal.records())

    assert journal.path == path
    assert journal.id == journal_id(0)
    assert [record.n for record in records] == list(range(100))
    assert [record.seq for record in records][1:-1] == list(range(1, 99))
    assert journal.name(records[1].task) == "a"
    assert journal.facts().conclusive
    assert (journal.facts().first, journal.facts().last) == (0, 99)
    assert (journal.facts().segments, journal.facts().sealed) == (3, 3)
    assert journal.problems == []


def test_arrays_hold_what_records_hold(tmp_path: Path) -> None:
    stored(tmp_path, holes=(5, 45))
    journal = only(tmp_path)

    rows = np.concatenate([read_segment_array(p) for p in journal.segment_paths()])

    assert [tuple(row) for row in rows.tolist()] == list(journal.records())
    assert len(rows) == 98


def test_an_open_journal_is_read_up_to_its_last_record(tmp_path: Path) -> None:
    stored(tmp_path, closed=False, sealed=False)

    assert [record.n for record in only(tmp_path).records()] == list(range(99))
    assert (facts(tmp_path).closed, facts(tmp_path).complete) == (False, False)
    assert not facts(tmp_path).lossy


def test_a_journal_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        for seq in range(1, 10):
            tell(journal, seq=seq)
            assert [r.seq for r in only(tmp_path).records()][1:] == [*range(1, seq + 1)]


@pytest.mark.parametrize("cut", [1, 4, 79])
def test_a_torn_last_record_is_not_a_record(tmp_path: Path, cut: int) -> None:
    """What a killed process had packed halfway, or a power cut left of it."""
    path = stored(tmp_path, closed=False, sealed=False) / "seg-00002.open.qbj"
    patch(path, HEADER_BYTES + 19 * RECORD_BYTES - cut, bytes(cut))

    assert [record.n for record in only(tmp_path).records()] == list(range(98))
    assert (facts(tmp_path).gaps, facts(tmp_path).damaged) == (0, 0)


def test_an_open_file_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = stored(tmp_path, closed=False, sealed=False) / "seg-00002.open.qbj"
    os.truncate(path, HEADER_BYTES + 3 * RECORD_BYTES + 7)

    assert [record.n for record in only(tmp_path).records()] == list(range(83))


def test_holes_are_gaps(tmp_path: Path) -> None:
    stored(tmp_path, holes=(3, 4, 50))

    assert [r.n for r in only(tmp_path).records()] == [
        n for n in range(100) if n not in (3, 4, 50)
    ]
    assert (facts(tmp_path).gaps, facts(tmp_path).holes) == (3, 3)
    assert facts(tmp_path).damaged == 0
    assert facts(tmp_path).lossy


def test_losses_are_known_from_the_header_without_a_seal(tmp_path: Path) -> None:
    stored(tmp_path, sealed=False, lost=7)

    assert facts(tmp_path).lost == 7
    assert facts(tmp_path).lossy


def test_a_deleted_beginning_is_noticed(tmp_path: Path) -> None:
    stored(tmp_path, beginning=1)

    assert (facts(tmp_path).first, facts(tmp_path).gaps) == (40, 0)
    assert facts(tmp_path).lossy
    assert facts(tmp_path).closed


def test_a_segment_missing_in_the_middle_is_a_gap(tmp_path: Path) -> None:
    (stored(tmp_path) / "seg-00001.qbj").unlink()

    assert facts(tmp_path).gaps == 40


def test_a_journal_is_late_if_it_says_so(tmp_path: Path) -> None:
    stored(tmp_path, late=True)

    assert facts(tmp_path).complete
    assert not facts(tmp_path).conclusive


# Damage.


def damaged(folder: Path, problem: str) -> None:
    """One problem is told, of one segment, and the rest is read."""
    journal = only(folder)
    assert journal.facts().damaged == 1
    (line,) = journal.problems
    assert problem in line
    assert "seg-00001.qbj" in line


@settings(max_examples=60)
@given(data=st.data())
def test_any_changed_byte_of_a_sealed_segment_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    path = stored(folder) / "seg-00001.qbj"
    whole = path.read_bytes()
    inside = st.integers(HEADER_BYTES, len(whole) - 1)
    head = st.integers(0, 67) | st.integers(SEAL_OFFSET, SEAL_OFFSET + 35)
    at = data.draw(inside | head)
    flip = data.draw(st.integers(1, 255))
    patch(path, at, bytes([whole[at] ^ flip]))

    assert facts(folder).damaged == 1
    assert facts(folder).records >= 60
    shutil.rmtree(folder)


def test_a_damaged_record_is_named_by_its_byte(tmp_path: Path) -> None:
    path = stored(tmp_path) / "seg-00001.qbj"
    at = HEADER_BYTES + 2 * RECORD_BYTES
    patch(path, at + 76, b"\xff\xff\xff\xff")

    journal = only(tmp_path)
    assert journal.facts().damaged == 1
    assert journal.problems == [
        f"{path} is damaged: the checksum of bytes 4096 to 7296 is wrong",
        f"{path} is damaged: 1 damaged records, the first at byte {at}",
        f"{path} is damaged: it holds 39 records, its seal says 40",
    ]
    assert 42 not in [record.n for record in journal.records()]


def test_a_sealed_segment_that_ends_early_is_damaged(tmp_path: Path) -> None:
    path = stored(tmp_path) / "seg-00001.qbj"
    os.truncate(path, HEADER_BYTES + 10 * RECORD_BYTES + 1)

    journal = only(tmp_path)
    assert journal.facts().damaged == 1
    assert "it ends at byte 4897, expected 7296" in journal.problems[0]
    assert journal.facts().gaps == 30


def test_a_segment_that_is_something_else_is_damaged(tmp_path: Path) -> None:
    (stored(tmp_path) / "seg-00001.qbj").write_bytes(b"\x7fELF" + bytes(9000))

    damaged(tmp_path, "not a journal segment: byte 0 reads b'\\x7fELF'")


def test_a_segment_shorter_than_a_header_is_damaged(tmp_path: Path) -> None:
    (stored(tmp_path) / "seg-00001.qbj").write_bytes(b"QBJ1")

    damaged(tmp_path, "the header ends at byte 4, expected 4096")


def test_a_segment_of_another_journal_is_damaged(tmp_path: Path) -> None:
    one, other = store(
        History([*entries(98), *entries(98, journal=1)], journals=2), tmp_path, slots=40
    )
    shutil.copy(other / "seg-00001.qbj", one / "seg-00001.qbj")
    shutil.rmtree(other)

    damaged(tmp_path, f"it belongs to journal {journal_id(1):016x}, not ")


def test_a_crc_that_does_not_fit_leaves_the_records(tmp_path: Path) -> None:
    path = stored(tmp_path) / "seg-00001.qbj"
    patch(path, HEADER_BYTES + 16, struct.pack("<q", -1))

    damaged(tmp_path, "the checksum of bytes 4096 to 7296 is wrong")
    assert facts(tmp_path).records == 100


def test_a_damaged_seal_leaves_the_records(tmp_path: Path) -> None:
    path = stored(tmp_path, seal_damaged=True) / "seg-00002.qbj"

    journal = only(tmp_path)
    facts = journal.facts()

    assert journal.problems == [f"{path} is damaged: the seal at byte 512 is damaged"]
    assert (facts.damaged, facts.records, facts.gaps) == (1, 100, 0)
    assert (facts.segments, facts.sealed, facts.closed) == (3, 2, True)
    assert not facts.complete


def test_damage_to_seal_and_record_is_told_of_both(tmp_path: Path) -> None:
    path = stored(tmp_path, seal_damaged=True) / "seg-00002.qbj"
    at = HEADER_BYTES + 2 * RECORD_BYTES
    patch(path, at + 76, b"\xff\xff\xff\xff")

    journal = only(tmp_path)

    assert journal.facts().records == 99
    assert journal.problems == [
        f"{path} is damaged: the seal at byte 512 is damaged",
        f"{path} is damaged: 1 damaged records, the first at byte {at}",
    ]


# What changes while it is read.


def test_operations_after_a_close_are_seen_by_who_began_to_read_before(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path, segment_bytes=SMALL)
    tell(journal, seq=1)
    begun = open_journals(tmp_path)
    journal.close()
    tell(journal, seq=2)

    (facts,) = check(begun).facts

    assert facts.complete
    assert facts.late
    assert not facts.conclusive


@pytest.mark.parametrize("first", [0, 1])
def test_whether_a_journal_is_late_is_read_after_the_records_of_all(
    tmp_path: Path, first: int
) -> None:
    """What came after the close of one may be in the records of the other."""
    one = Journal(tmp_path, segment_bytes=SMALL)
    other = Journal(tmp_path, segment_bytes=SMALL)
    for journal in (one, other):
        journal.close()
    stored_ = {journal.path: journal for journal in open_journals(tmp_path)}

    def one_after_another() -> Iterator[StoredJournal]:
        for journal in (one, other)[:: -1 if first else 1]:
            assert journal.folder is not None
            yield stored_[journal.folder]
            tell(journal)

    assert [facts.late for facts in check(one_after_another()).facts] == [True, True]


def test_names_are_known_of_what_was_sealed_after_the_journal_was_opened(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path, segment_bytes=SMALL)
    begun = only(tmp_path)
    tell(journal, local="new")
    journal.close()

    names = [begun.name(record.task) for record in begun.records() if record.task]

    assert names == ["new"]


def test_a_loss_between_the_reading_of_header_and_records_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, segment_bytes=SMALL)
    begun = only(tmp_path)
    unpack = SegmentHeader.unpack

    def meanwhile(buffer: bytes) -> SegmentHeader:
        header = unpack(buffer)
        if not journal.lost:
            assert journal._incarnation is not None
            journal._incarnation.lose()
            journal.close()
        return header

    monkeypatch.setattr(SegmentHeader, "unpack", meanwhile)
    facts = begun.facts()

    assert facts.closed
    assert facts.lost == 1


# What goes away, and what cannot be read.


def test_a_file_that_goes_away_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    path = stored(tmp_path) / "seg-00001.qbj"
    journal = only(tmp_path)
    segments = journal.segments()
    first = next(segments)
    path.unlink()

    rest = list(segments)

    assert [first.header.segment, *(s.header.segment for s in rest)] == [0, 2]
    assert journal.problems == [f"cannot read {path}: it is gone"]


def test_a_segment_that_is_sealed_meanwhile_is_found_under_its_new_name(
    tmp_path: Path,
) -> None:
    path = stored(tmp_path, closed=False, sealed=False) / "seg-00002.open.qbj"
    segments = only(tmp_path).segments()
    next(segments)
    path.rename(path.with_name("seg-00002.qbj"))

    assert [segment.header.segment for segment in segments] == [1, 2]


def test_a_segment_under_both_names_is_read_once(tmp_path: Path) -> None:
    path = stored(tmp_path)
    shutil.copy(path / "seg-00001.qbj", path / "seg-00001.open.qbj")

    assert facts(tmp_path).records == 100


def test_more_segments_than_five_digits_stay_in_order(tmp_path: Path) -> None:
    path = stored(tmp_path)
    (path / "seg-00002.qbj").rename(path / "seg-100000.qbj")

    names = [each.name for each in only(tmp_path).segment_paths()]
    assert names == ["seg-00000.qbj", "seg-00001.qbj", "seg-100000.qbj"]


def test_a_folder_instead_of_a_segment_is_told(tmp_path: Path) -> None:
    path = stored(tmp_path) / "seg-00001.qbj"
    path.unlink()
    path.mkdir()

    journal = only(tmp_path)
    assert journal.facts().gaps == 40
    assert journal.problems == [f"cannot read {path}: Is a directory"]


def test_without_a_side_file_the_journal_is_known_by_its_segments(
    tmp_path: Path,
) -> None:
    path = stored(tmp_path)
    (path / "meta.jsonl").unlink()

    journal = only(tmp_path)
    assert journal.id == journal_id(0)
    assert journal.machine == "machine"
    assert journal.facts().records == 100
    assert journal.name(1) == ""
    assert journal.problems == [
        f"cannot read {path / 'meta.jsonl'}: No such file or directory"
    ]


def test_lines_of_the_side_file_that_cannot_be_read_are_passed_over(
    tmp_path: Path,
) -> None:
    meta = stored(tmp_path) / "meta.jsonl"
    lines = meta.read_text().splitlines()
    broken = ['{"is":"na', "[]", '{"is":"name","id":"x","text":"y"}', "\0"]
    meta.write_text("\n".join([lines[0], *broken, "", *lines[1:], '{"is":"later"}']))

    journal = only(tmp_path)
    assert journal.name(1) == "a"
    assert journal.problems == [f"cannot read 4 lines of {meta}"]


def test_a_side_file_that_does_not_know_its_journal_is_no_obstacle(
    tmp_path: Path,
) -> None:
    (stored(tmp_path) / "meta.jsonl").write_text("nothing\n")

    assert only(tmp_path).id == journal_id(0)


def test_a_folder_that_nothing_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.jsonl").write_text("")

    with pytest.raises(JournalError, match="no journal in"):
        open_journals(tmp_path)


# Finding journals.


def test_journals_are_found_at_any_depth_in_order(tmp_path: Path) -> None:
    paths = store(clean(1, journals=3), tmp_path / "deep" / "er")

    assert [journal.path for journal in open_journals(tmp_path)] == paths
    assert [journal.path for journal in open_journals(paths[1])] == [paths[1]]


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=f"^no journal in {tmp_path}$"):
        open_journals(tmp_path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nothing", "No such file or directory"), ("file", "Not a directory")],
)
def test_what_is_no_folder_is_an_error(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(JournalError, match=f"cannot list {tmp_path / name}: {reason}"):
        open_journals(tmp_path / name)


def test_a_folder_that_may_not_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may list everything, so the refusal is made up."""
    stored(tmp_path)
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("journal-0"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)

    with pytest.raises(
        JournalError, match=r"cannot list .*journal-0: Permission denied"
    ):
        open_journals(tmp_path)


def test_two_copies_of_one_journal_are_an_error(tmp_path: Path) -> None:
    path = stored(tmp_path / "one")
    shutil.copytree(path, tmp_path / "two")

    with pytest.raises(
        JournalError, match=r"two copies of one journal: .*one.* and .*two"
    ):
        open_journals(tmp_path)


# Clocks.


def test_the_wall_clock_follows_the_anchor_before(tmp_path: Path) -> None:
    stored(tmp_path)
    journal = only(tmp_path)
    mono, wall = 10**12, 10**13
    assert journal.wall_ns(mono + 5) == wall + 5

    later = mono + 1000
    journal._anchor(later, wall + 3_600_000_000_000)  # somebody set the clock

    assert journal.wall_ns(later - 1) == wall + 999
    assert journal.wall_ns(later + 1) == wall + 3_600_000_000_001
    assert journal.wall_ns(mono - 7) == wall - 7


def test_facts_of_a_segment_name_its_first_and_last_record(tmp_path: Path) -> None:
    path = stored(tmp_path, holes=(40, 41, 79))

    segment = read_segment(path / "seg-00001.qbj")

    assert (segment.first, segment.last, segment.count) == (42, 78, 37)
    assert not segment.closes
    assert read_segment(path / "seg-00002.qbj").closes
