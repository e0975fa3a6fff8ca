"""Finding journals, reading their records, detecting missing ones."""

from __future__ import annotations

import os
import shutil
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bus.errors import JournalError
from bus.journal.format import RECORD_BYTES, RecordKind
from bus.journal.header import HEADER_BYTES
from bus.journal.reader import open_journals, read_segment_array
from bus.journal.stored_segment import read_segment
from bus.journal.writer import Journal
from tests.journal.histories import clean, journal_id, store
from tests.journal.reading import facts, patch, stored
from tests.journal.telling import only, tell

if TYPE_CHECKING:
    from pathlib import Path


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


def test_arrays_hold_the_same_values_as_records(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("cut", [1, 4, 79])
def test_a_torn_last_record_is_not_a_record(tmp_path: Path, cut: int) -> None:
    """A killed process had packed it halfway, or a power cut truncated it."""
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


def test_a_deleted_beginning_is_noticed(tmp_path: Path) -> None:
    stored(tmp_path, beginning=1)

    assert (facts(tmp_path).first, facts(tmp_path).gaps) == (40, 0)
    assert facts(tmp_path).lossy
    assert facts(tmp_path).closed


def test_a_segment_missing_in_the_middle_is_a_gap(tmp_path: Path) -> None:
    (stored(tmp_path) / "seg-00001.qbj").unlink()

    assert facts(tmp_path).gaps == 40


# Finding journals.


def test_journals_are_found_at_any_depth_in_order(tmp_path: Path) -> None:
    paths = store(clean(1, journals=3), tmp_path / "deep" / "er")

    assert [journal.path for journal in open_journals(tmp_path)] == paths
    assert [journal.path for journal in open_journals(paths[1])] == [paths[1]]


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=f"^no journal in {tmp_path}: give"):
        open_journals(tmp_path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nothing", "No such file or directory"), ("file", "Not a directory")],
)
def test_a_path_that_is_no_folder_is_an_error(
    tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(JournalError, match=f"cannot list {tmp_path / name}: {reason}"):
        open_journals(tmp_path / name)


def test_a_folder_that_may_not_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may list everything, so the refusal is simulated."""
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
    journal._anchor(later, wall + 3_600_000_000_000)  # the wall clock was set

    assert journal.wall_ns(later - 1) == wall + 999
    assert journal.wall_ns(later + 1) == wall + 3_600_000_000_001
    assert journal.wall_ns(mono - 7) == wall - 7


def test_a_clock_that_is_set_within_a_segment_shifts_no_earlier_time(
    tmp_path: Path,
) -> None:
    """The CLOCK record after the step is the anchor of the records that follow it."""
    with Journal(tmp_path) as writer:
        tell(writer)
        at, wall = monotonic_ns(), 2 * time_ns()
        writer.emit(RecordKind.CLOCK, origin=wall)
        tell(writer)

    journal = only(tmp_path)
    _, before, clock, after, _ = journal.records()

    assert clock.mono >= at
    assert journal.wall_ns(before.mono) < wall
    assert journal.wall_ns(after.mono) == wall + after.mono - clock.mono


def test_facts_of_a_segment_name_its_first_and_last_record(tmp_path: Path) -> None:
    path = stored(tmp_path, holes=(40, 41, 79))

    segment = read_segment(path / "seg-00001.qbj")

    assert (segment.first, segment.last, segment.count) == (42, 78, 37)
    assert not segment.closes
    assert read_segment(path / "seg-00002.qbj").closes
