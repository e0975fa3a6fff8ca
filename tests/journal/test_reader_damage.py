"""Later changes to a journal are detected and located."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.journal.format import RECORD_BYTES
from bus.journal.header import HEADER_BYTES, LOST_OFFSET, SEAL_OFFSET
from specs.clauses import clause
from tests.depth import among
from tests.journal.histories import History, journal_id, store
from tests.journal.reading import entries, facts, patch, stored
from tests.journal.telling import only

if TYPE_CHECKING:
    from pathlib import Path


def damaged(folder: Path, problem: str) -> None:
    """Check that one problem of one segment is reported, and the rest is read."""
    journal = only(folder)
    assert journal.facts().damaged == 1
    (line,) = journal.problems
    assert problem in line
    assert "seg-00001.qbj" in line


@settings(max_examples=among(15, 60))
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


@clause("J1")
def test_a_damaged_record_is_named_by_its_byte(tmp_path: Path) -> None:
    """A journal that contradicts itself is damaged: checksum, marks and counts."""
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


def test_a_segment_of_another_journal_is_damaged(tmp_path: Path) -> None:
    one, other = store(
        History([*entries(98), *entries(98, journal=1)], journals=2), tmp_path, slots=40
    )
    shutil.copy(other / "seg-00001.qbj", one / "seg-00001.qbj")
    shutil.rmtree(other)

    damaged(tmp_path, f"it belongs to journal {journal_id(1):016x}, not ")


def test_damage_to_seal_and_record_is_reported_for_both(tmp_path: Path) -> None:
    path = stored(tmp_path, seal_damaged=True) / "seg-00002.qbj"
    at = HEADER_BYTES + 2 * RECORD_BYTES
    patch(path, at + 76, b"\xff\xff\xff\xff")

    journal = only(tmp_path)

    assert journal.facts().records == 99
    assert journal.problems == [
        f"{path} is damaged: the seal at byte 512 is damaged",
        f"{path} is damaged: 1 damaged records, the first at byte {at}",
    ]


def test_an_impossible_count_of_lost_records_is_damage(tmp_path: Path) -> None:
    """No checksum covers it, since it changes while the segment is in use."""
    path = stored(tmp_path, closed=False, sealed=False) / "seg-00002.open.qbj"
    patch(path, LOST_OFFSET, b"\xff" * 8)

    journal = only(tmp_path)
    assert (journal.facts().damaged, journal.facts().lost) == (1, 0)
    assert journal.problems == [
        f"{path} is damaged: the number of lost records at byte 1024 is damaged"
    ]


def test_a_record_of_an_open_segment_under_a_wrong_number_is_none(
    tmp_path: Path,
) -> None:
    """It has its mark, and no seal covers it: its slot counts as a hole."""
    path = stored(tmp_path, closed=False, sealed=False) / "seg-00002.open.qbj"
    patch(path, HEADER_BYTES + 2 * RECORD_BYTES + 8, struct.pack("<Q", 2**63 + 82))

    journal = only(tmp_path)
    assert 82 not in [record.n for record in journal.records()]
    assert [record.n for record in journal.records()] == sorted(
        record.n for record in journal.records()
    )
    assert (journal.facts().gaps, journal.facts().last) == (1, 98)


def test_a_segment_under_the_name_of_another_is_damaged(tmp_path: Path) -> None:
    """If it were read in the order of names, its records would overtake one another."""
    path = stored(tmp_path) / "seg-00001.qbj"
    path.rename(path.with_name("seg-00007.qbj"))

    journal = only(tmp_path)
    assert journal.facts().damaged == 1
    assert journal.problems == [
        f"cannot read {path.with_name('seg-00007.qbj')}: its header is of segment 1"
    ]


@pytest.mark.parametrize(
    ("at", "data", "problem", "records"),
    [
        (0, b"\x7fELF", "not a journal segment: byte 0 reads b'\\x7fELF'", 60),
        (
            HEADER_BYTES + 16,
            b"\xff",
            "the checksum of bytes 4096 to 7296 is wrong",
            100,
        ),
        (SEAL_OFFSET, b"\xff", "the seal at byte 512 is damaged", 100),
        (None, b"QBJ1", "the header ends at byte 4, expected 4096", 60),
    ],
    ids=["magic", "checksum", "seal", "short"],
)
def test_the_valid_part_of_a_damaged_segment_is_read(
    tmp_path: Path, at: int | None, data: bytes, problem: str, records: int
) -> None:
    path = stored(tmp_path) / "seg-00001.qbj"
    if at is None:
        path.write_bytes(data)
    else:
        patch(path, at, data)

    damaged(tmp_path, problem)
    assert facts(tmp_path).records == records
    assert facts(tmp_path).closed
    assert not facts(tmp_path).complete
