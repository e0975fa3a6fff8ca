"""Files that change or vanish while they are read, and files that cannot be read."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from bus.errors import JournalError
from bus.journal.checker import check
from bus.journal.header import SegmentHeader
from bus.journal.reader import open_journals
from bus.journal.writer import Journal
from specs.clauses import clause
from tests.journal.histories import journal_id
from tests.journal.reading import facts, stored
from tests.journal.telling import SMALL, only, tell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus.journal.reader import StoredJournal


def test_a_reader_that_began_before_the_close_finds_later_operations(
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
@clause("J1")
def test_whether_a_journal_is_late_is_read_after_the_records_of_all(
    tmp_path: Path, first: int
) -> None:
    """The other journal may hold messages recorded after the close of the first."""
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


def test_a_reader_finds_names_of_records_sealed_after_it_was_opened(
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


# Vanished and unreadable files.


def test_a_file_that_vanishes_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    path = stored(tmp_path) / "seg-00001.qbj"
    journal = only(tmp_path)
    segments = journal.segments()
    first = next(segments)
    path.unlink()

    rest = list(segments)

    assert [first.header.segment, *(s.header.segment for s in rest)] == [0, 2]
    assert journal.problems == [f"cannot read {path}: it no longer exists"]


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


def test_a_folder_instead_of_a_segment_is_reported(tmp_path: Path) -> None:
    path = stored(tmp_path) / "seg-00001.qbj"
    path.unlink()
    path.mkdir()

    journal = only(tmp_path)
    assert journal.facts().gaps == 40
    with pytest.raises(OSError) as failed:
        path.open()
    assert journal.problems == [f"cannot read {path}: {failed.value.strerror}"]


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
    meta = path / "meta.jsonl"
    with pytest.raises(FileNotFoundError) as failed:
        meta.stat()
    assert journal.problems == [f"cannot read {meta}: {failed.value.strerror}"]


def test_lines_of_the_side_file_that_cannot_be_read_are_passed_over(
    tmp_path: Path,
) -> None:
    meta = stored(tmp_path) / "meta.jsonl"
    lines = meta.read_text().splitlines()
    broken = ['{"is":"na', "[]", '{"is":"name","id":"x","text":"y"}', "\0"]
    meta.write_text("\n".join([lines[0], *broken, "", *lines[1:], '{"is":"later"}']))

    journal = only(tmp_path)
    assert journal.name(1) == "a"
    assert journal.problems == [f"cannot read 4 lines of {meta}: number 2, 3, 4, 5"]


@pytest.mark.parametrize(
    "line",
    [
        *['{"is":"name","id":1e999,"text":"x"}', "[" * 3000, '{"is":' * 3000],
        *['{"is":"name","id":0,"text":"x"}', '{"is":"name","id":true,"text":"x"}'],
        *['{"is":"name","id":9,"text":["x"]}', '{"is":"thread","id":65536,"text":"x"}'],
        '{"is":"name","id":4294967296,"text":"x"}',
    ],
)
def test_a_line_that_no_writer_writes_is_named_and_the_rest_holds(
    tmp_path: Path, line: str
) -> None:
    meta = stored(tmp_path) / "meta.jsonl"
    meta.write_text(f"{meta.read_text()}{line[:4000]}\n")

    journal = only(tmp_path)
    assert journal.name(1) == "a"
    assert journal.facts().conclusive
    assert journal.problems == [f"cannot read 1 line of {meta}: number 4"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("pid", "1e999"), ("pid", "99999999999999999999"), ("pid", "-1")],
        *[("wall", "1e30"), ("wall", f"{2**63}"), ("mono", f"{-(2**63)}")],
        *[("machine", "7"), ("journal", '"-1"'), ("journal", '"x"'), ("journal", "1")],
    ],
)
def test_a_first_line_that_no_writer_writes_is_not_believed_in_part(
    tmp_path: Path, key: str, value: str
) -> None:
    meta = stored(tmp_path) / "meta.jsonl"
    first, *others = meta.read_text().splitlines()
    first = re.sub(rf'"{key}": [^,}}]+', f'"{key}": {value}', first)
    meta.write_text("\n".join([first, *others]))

    journal = only(tmp_path)
    assert (journal.meta.pid, journal.meta.machine) == (None, "")
    assert journal.id == journal_id(0)
    assert journal.name(1) == "a"
    assert journal.problems == [f"cannot read 1 line of {meta}: number 1"]


def test_of_many_lines_that_cannot_be_read_the_first_ten_are_named(
    tmp_path: Path,
) -> None:
    meta = stored(tmp_path) / "meta.jsonl"
    meta.write_text("x\n" * 12)

    numbers = ", ".join(map(str, range(1, 11)))
    assert only(tmp_path).problems == [
        f"cannot read 12 lines of {meta}: number {numbers}, ..."
    ]


def test_a_line_that_was_being_written_is_no_problem_once_it_is_whole(
    tmp_path: Path,
) -> None:
    meta = stored(tmp_path) / "meta.jsonl"
    whole = meta.read_text()
    meta.write_text(whole[:-9])
    journal = only(tmp_path)
    assert len(journal.problems) == 1

    meta.write_text(whole)
    journal.refresh()

    assert journal.problems == []


def test_a_side_file_that_does_not_know_its_journal_is_no_obstacle(
    tmp_path: Path,
) -> None:
    (stored(tmp_path) / "meta.jsonl").write_text("nothing\n")

    assert only(tmp_path).id == journal_id(0)


def test_a_folder_that_nothing_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.jsonl").write_text("")

    with pytest.raises(JournalError, match="no journal in"):
        open_journals(tmp_path)


def test_a_spare_segment_that_vanishes_is_no_problem(tmp_path: Path) -> None:
    """The journal is closed after its files were listed."""
    path = stored(tmp_path) / "seg-00003.open.qbj"
    path.touch()
    journal = only(tmp_path)
    segments = journal.segments()
    next(segments)
    path.unlink()

    assert [each.header.segment for each in segments] == [1, 2]
    assert journal.problems == []
